//! Compares what accounts may do: random rules, and random commands tried by `ACL DRYRUN` on both servers.
//!
//! Accounts get the same random rules on both servers (`ACL SETUSER`), and both must take or refuse them. Then both are asked
//! about the same random commands. The answers are compared by what they say is lacking: the command, a key, a channel or
//! nothing. The commands are those that both servers know.
//!
//! Not compared: databases (redis-server 7 has no rules about them), and `FLUSHALL` and `FLUSHDB`, which need all keys here.
//! A pattern of all keys for reads or writes alone is not made: Ramhold puts two of them together.

use crate::link::{Answer, Link, Pair, Servers};
use crate::reply::Reply;
use crate::step::{Command, encode, shown};
use ramhold_base::Rng;
use std::io;

/// Questions that go out together.
const BATCH: usize = 256;
/// Questions about one set of accounts.
const OF_ONE_SET: u64 = 4096;
const USERS: [&str; 4] = ["u0", "u1", "u2", "u3"];
const PATTERNS: [&str; 8] = ["a*", "?b", "[ab]c", "b", "*1", "k*", "{t}*", "^*"];
const KEYS: [&str; 10] = ["a", "ab", "b", "bb", "ac", "k1", "x1", "{t}a", "z", "^q"];
/// Redis allows them by the command alone.
const LEFT_OUT: [&str; 2] = ["flushall", "flushdb"];

/// A command that both servers know.
struct Known {
    words: Vec<Vec<u8>>,
    arity: i64,
    first: i64,
    last: i64,
    step: i64,
}

/// The number of questions that were compared, and those that were answered differently.
pub struct Compared {
    pub count: u64,
    /// The same by what redis-server says is lacking: nothing, the command, a key, a channel; the question was none.
    pub tally: [u64; 5],
    pub differences: Vec<String>,
}

/// The thing that is lacking, by an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacking {
    Nothing,
    Command,
    Key,
    Channel,
    /// The question cannot be answered.
    Error,
}

pub fn run(servers: Servers, seed: u64, questions: u64, differences_max: usize) -> io::Result<Compared> {
    let mut pair = Pair::open(servers)?;
    let mut rng = Rng::new(seed);
    let commands = known(&mut pair)?;
    let classes = words(&mut pair.right, &["ACL", "CAT"])?;
    let mut compared = Compared { count: 0, tally: [0; 5], differences: Vec::new() };
    while compared.count < questions && compared.differences.len() < differences_max {
        for user in USERS {
            make(&mut pair, &mut rng, user, (&commands, &classes), &mut compared);
        }
        let end = (compared.count + OF_ONE_SET).min(questions);
        while compared.count < end && compared.differences.len() < differences_max {
            ask(&mut pair, &mut rng, &commands, &mut compared)?;
        }
    }
    for user in USERS {
        pair.ask(&command(&["ACL", "DELUSER", user]));
    }
    Ok(compared)
}

fn command(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn words(link: &mut Link, asked: &[&str]) -> io::Result<Vec<Vec<u8>>> {
    match link.ask(&command(asked)) {
        Answer::Reply(Reply::Many(_, replies)) => Ok(replies.into_iter().filter_map(bytes).collect()),
        other => Err(io::Error::other(format!("{}: {other}", asked.join(" ")))),
    }
}

fn bytes(reply: Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

/// The commands of both servers: rows of `COMMAND`, with their subcommands.
fn known(pair: &mut Pair) -> io::Result<Vec<Known>> {
    let (left, right) = pair.ask(&command(&["COMMAND"]));
    let rows = |answer| match answer {
        Answer::Reply(Reply::Many(_, rows)) => Ok(rows),
        other => Err(io::Error::other(format!("COMMAND: {other}"))),
    };
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    rows(left)?.into_iter().for_each(|row| collect(row, &mut of_left));
    rows(right)?.into_iter().for_each(|row| collect(row, &mut of_right));
    let is_on_left = |row: &Known| of_left.iter().any(|other| other.words == row.words);
    let is_left_out = |row: &Known| LEFT_OUT.iter().any(|name| row.words[0] == name.as_bytes());
    of_right.retain(|row| is_on_left(row) && !is_left_out(row));
    Ok(of_right)
}

/// Adds a row and its subcommands. A container is no command by itself.
fn collect(row: Reply, to: &mut Vec<Known>) {
    let Reply::Many(_, mut fields) = row else { return };
    let subcommands =
        if fields.len() > 9 { fields.remove(9) } else { Reply::Many(crate::reply::ManyKind::Array, vec![]) };
    let mut fields = fields.into_iter();
    let name = fields.next().and_then(bytes).unwrap_or_default();
    let numbers: Vec<i64> = fields
        .filter_map(|field| if let Reply::Integer(number) = field { Some(number) } else { None })
        .collect();
    match subcommands {
        Reply::Many(_, rows) if !rows.is_empty() => rows.into_iter().for_each(|row| collect(row, to)),
        _ => {
            if let [arity, first, last, step] = numbers[..] {
                let words = name.split(|byte| *byte == b'|').map(<[u8]>::to_vec).collect();
                to.push(Known { words, arity, first, last, step });
            }
        }
    }
}

/// Gives an account new random rules on both servers.
fn make(
    pair: &mut Pair,
    rng: &mut Rng,
    user: &str,
    (commands, classes): (&[Known], &[Vec<u8>]),
    compared: &mut Compared,
) {
    let mut words = command(&["ACL", "SETUSER", user, "reset", "on", "nopass"]);
    for _ in 0..rng.between(1, 8) {
        words.push(rule(rng, commands, classes));
    }
    for _ in 0..rng.below(3) {
        let inner: Vec<Vec<u8>> = (0..rng.between(1, 5)).map(|_| rule(rng, commands, classes)).collect();
        words.push([b"(", &inner.join(&b' ')[..], b")"].concat());
    }
    let (left, right) = pair.ask(&words);
    if lacking(&left) != lacking(&right) {
        compared.differences.push(format!("{}\n    left:  {left}\n    right: {right}", shown(&words)));
    }
}

fn rule(rng: &mut Rng, commands: &[Known], classes: &[Vec<u8>]) -> Vec<u8> {
    let sign = if rng.chance(2, 3) { "+" } else { "-" };
    let pick = |rng: &mut Rng| rng.pick(&PATTERNS).copied().unwrap_or("a*");
    match rng.below(12) {
        0..=2 => {
            let named = rng.pick(commands).map(|known| known.words.clone()).unwrap_or_default();
            let count = if rng.chance(1, 4) { 1 } else { named.len() };
            [sign.as_bytes(), &named[..count].join(&b'|')].concat()
        }
        3..=5 => [sign.as_bytes(), b"@", rng.pick(classes).map_or(&b"read"[..], Vec::as_slice)].concat(),
        6 => format!("{sign}@all").into_bytes(),
        7 => format!("~{}", pick(rng)).into_bytes(),
        8 => format!("%R~{}", pick(rng)).into_bytes(),
        9 => format!("%W~{}", pick(rng)).into_bytes(),
        10 => format!("&{}", pick(rng)).into_bytes(),
        _ => {
            let all = ["allkeys", "resetkeys", "allchannels", "resetchannels", "%RW~z"];
            rng.pick(&all).map_or(Vec::new(), |word| word.as_bytes().to_vec())
        }
    }
}

/// Asks both servers about some random commands.
fn ask(pair: &mut Pair, rng: &mut Rng, commands: &[Known], compared: &mut Compared) -> io::Result<()> {
    let questions: Vec<Command> = (0..BATCH).map(|_| question(rng, commands)).collect();
    let mut bytes = Vec::new();
    questions.iter().for_each(|question| encode(question, &mut bytes));
    pair.left.send(&bytes)?;
    pair.right.send(&bytes)?;
    for question in questions {
        let (left, right) = (pair.left.receive(), pair.right.receive());
        compared.count += 1;
        compared.tally[lacking(&left) as usize] += 1;
        if lacking(&left) != lacking(&right) {
            let user = String::from_utf8_lossy(&question[2]).into_owned();
            let (rules, ours) = pair_rules(pair, &user);
            let text = format!(
                "{}\n    left:  {left}\n    right: {right}\n    {rules}\n    {ours}",
                shown(&question)
            );
            compared.differences.push(text);
            // The answers behind it are still to come.
            return reopen(pair);
        }
    }
    Ok(())
}

fn reopen(pair: &mut Pair) -> io::Result<()> {
    let servers = Servers { left: pair.left.address()?, right: pair.right.address()? };
    *pair = Pair::open(servers)?;
    Ok(())
}

/// The rules of an account on both servers, over connections of their own.
fn pair_rules(pair: &Pair, user: &str) -> (String, String) {
    let rules = |link: &Link| {
        let asked = link.address().and_then(Link::open);
        let lines = asked.and_then(|mut link| words(&mut link, &["ACL", "LIST"]));
        let lines = lines.unwrap_or_default();
        let line = lines.iter().find(|line| line.starts_with(format!("user {user} ").as_bytes()));
        line.map(|line| String::from_utf8_lossy(line).into_owned()).unwrap_or_default()
    };
    (rules(&pair.left), rules(&pair.right))
}

fn question(rng: &mut Rng, commands: &[Known]) -> Command {
    let user = rng.pick(&USERS).copied().unwrap_or("u0");
    let mut words = command(&["ACL", "DRYRUN", user]);
    let Some(known) = rng.pick(commands) else { return words };
    let mut asked = known.words.clone();
    let least = usize::try_from(known.arity.unsigned_abs()).unwrap_or(1);
    let most = if known.arity < 0 { least + rng.below(4) as usize } else { least };
    let takes_channels = known.words[0].ends_with(b"subscribe") || known.words[0].ends_with(b"publish");
    while asked.len() < most {
        asked.push(if takes_channels { name(rng) } else { b"1".to_vec() });
    }
    let count = asked.len() as i64;
    let last = if known.last < 0 { count + known.last } else { known.last.min(count - 1) };
    let mut at = known.first;
    while known.first > 0 && at <= last {
        asked[usize::try_from(at).unwrap_or(0)] = name(rng);
        at += known.step.max(1);
    }
    // The access to a key depends on the arguments.
    match &known.words[0][..] {
        b"set" => {
            let more = [&["get"][..], &["nx"], &["px", "10"], &["xx", "get"], &[]];
            let more = rng.pick(&more).copied().unwrap_or_default();
            asked.truncate(3);
            asked.extend(more.iter().map(|word| word.as_bytes().to_vec()));
        }
        b"bitfield" => {
            let more = [&["get", "u8", "0"][..], &["set", "u8", "0", "1"], &["incrby", "u8", "0", "1"], &[]];
            asked.truncate(2);
            for _ in 0..2 {
                let more = rng.pick(&more).copied().unwrap_or_default();
                asked.extend(more.iter().map(|word| word.as_bytes().to_vec()));
            }
        }
        _ => {}
    }
    words.extend(asked);
    words
}

fn name(rng: &mut Rng) -> Vec<u8> {
    rng.pick(&KEYS).map_or(Vec::new(), |key| key.as_bytes().to_vec())
}

fn lacking(answer: &Answer) -> Lacking {
    match answer {
        Answer::Reply(Reply::Simple(_)) => Lacking::Nothing,
        Answer::Reply(Reply::Bulk(text)) => {
            let text = String::from_utf8_lossy(text);
            match () {
                () if text.contains("to run the") => Lacking::Command,
                () if text.ends_with(" key") => Lacking::Key,
                () if text.ends_with(" channel") => Lacking::Channel,
                () => Lacking::Error,
            }
        }
        _ => Lacking::Error,
    }
}
