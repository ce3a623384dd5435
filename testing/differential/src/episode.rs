//! Plays steps against both servers, and stops at the first difference.

use crate::compare::{Comparer, same_all};
use crate::differences::Differences;
use crate::generate::{Ground, all_keys, words};
use crate::link::{Answer, Link, Pair, Servers};
use crate::reply::Reply;
use crate::step::{Command, Step, encode, name};
use ramhold_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// The most commands that are sent before the first of them is answered.
pub const BATCH_MAX: usize = 64;
/// Commands in a batch, on average.
const BATCH_MEAN: u64 = 24;
/// A time to live, and the wait for its end.
const LAPSE_MILLIS: &str = "20";
const LAPSE_WAIT: Duration = Duration::from_millis(60);
const CURSORS_MAX: usize = 10_000;

/// The step at which the servers differed.
#[derive(Clone, Debug)]
pub struct Found {
    pub at: usize,
    pub left: String,
    pub right: String,
}

/// How often each command was answered, and how often with an error.
#[derive(Debug, Default)]
pub struct Tally(pub BTreeMap<String, [u64; 2]>);

impl Tally {
    fn count(&mut self, name: String, answer: &Answer) {
        let is_error = matches!(answer, Answer::Reply(Reply::Error(_)));
        self.0.entry(name).or_default()[usize::from(is_error)] += 1;
    }

    pub fn add(&mut self, other: Tally) {
        for (name, [good, bad]) in other.0 {
            let sum = self.0.entry(name).or_default();
            sum[0] += good;
            sum[1] += bad;
        }
    }

    /// Commands that were compared.
    pub fn total(&self) -> u64 {
        self.0.values().flatten().sum()
    }
}

/// Plays an episode on empty keys. An error: a server cannot be reached.
pub fn play(
    servers: Servers,
    ground: &Ground,
    steps: &[Step],
    differences: &Differences,
    tally: &mut Tally,
) -> io::Result<Option<Found>> {
    let mut stage = Stage {
        servers,
        differences,
        comparer: Comparer::new(differences),
        main: Pair::open(servers)?,
        beside: Pair::open(servers)?,
        database: ground.databases[0],
    };
    stage.clear(ground)?;
    let mut at = 0;
    while at < steps.len() {
        let commands = steps[at..].iter().map_while(|step| match step {
            Step::Command(command) => Some(command),
            _ => None,
        });
        let mut batch: Vec<&Command> = Vec::new();
        for command in commands.take(BATCH_MAX) {
            batch.push(command);
            if choice_of(command).chance(1, BATCH_MEAN) {
                break;
            }
        }
        let count = batch.len().max(1);
        let found =
            if batch.is_empty() { stage.single(&steps[at], tally)? } else { stage.batch(&batch, tally) };
        if let Some((within, left, right)) = found {
            return Ok(Some(Found { at: at + within, left, right }));
        }
        at += count;
    }
    Ok(None)
}

/// Random choices that belong to a command alone: they do not change when other commands are left out.
fn choice_of(command: &Command) -> Rng {
    let bytes = command.iter().flatten();
    Rng::new(
        bytes.fold(command.len() as u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte))),
    )
}

struct Stage<'a> {
    servers: Servers,
    differences: &'a Differences,
    comparer: Comparer<'a>,
    main: Pair,
    beside: Pair,
    /// The database of the second connection.
    database: u32,
}

type Differ = Option<(usize, String, String)>;

impl Stage<'_> {
    /// Removes the episode's keys, and leaves both connections in the first database.
    fn clear(&mut self, ground: &Ground) -> io::Result<()> {
        for database in ground.databases.iter().rev() {
            let select = words!["SELECT", database.to_string()];
            let remove = [words!["DEL"], all_keys()].concat();
            for (pair, command) in [(&mut self.main, &select), (&mut self.beside, &select)] {
                expect_answers(pair.ask(command), command)?;
            }
            expect_answers(self.main.ask(&remove), &remove)?;
        }
        Ok(())
    }

    fn batch(&mut self, commands: &[&Command], tally: &mut Tally) -> Differ {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        // The same bytes, split at any place, are the same commands.
        let mut rng = choice_of(commands[0]);
        let split = if rng.chance(1, 8) { rng.below(bytes.len() as u64) as usize } else { 0 };
        // A failure to send shows as a missing reply.
        let _ = self.main.left.send(&bytes);
        let _ = self.main.right.send(&bytes[..split]).and_then(|()| self.main.right.send(&bytes[split..]));
        let mut found = None;
        for (at, command) in commands.iter().enumerate() {
            let (left, right) = (self.main.left.receive(), self.main.right.receive());
            tally.count(name(command), &left);
            // The rest of the batch is read all the same, so that it is over before another episode begins.
            if found.is_none() && !self.comparer.same(command, &left, &right) {
                found = Some((at, left.to_string(), right.to_string()));
            }
            if !matches!((&left, &right), (Answer::Reply(_), Answer::Reply(_))) {
                break;
            }
        }
        found
    }

    fn single(&mut self, step: &Step, tally: &mut Tally) -> io::Result<Differ> {
        let (left, right) = match step {
            Step::Command(command) => self.main.ask(command),
            Step::Beside(command) => self.beside.ask(command),
            Step::Scan(words) => {
                let left = iterate(&mut self.beside.left, words);
                let right = iterate(&mut self.beside.right, words);
                tally.count(step.name(), left.as_ref().err().unwrap_or(&Answer::Reply(Reply::Integer(0))));
                return Ok(self.compare_scans(left, right));
            }
            Step::RandomKey => (random_key(&mut self.beside.left), random_key(&mut self.beside.right)),
            Step::Exchange { from, to } => self.exchange(from, to),
            Step::Lapse { key } => {
                let set = words!["SET", key, "v", "PX", LAPSE_MILLIS];
                let answers = self.beside.ask(&set);
                if answers.0 == answers.1 {
                    // Time itself is tested here: no event happens meanwhile that could be waited for.
                    std::thread::sleep(LAPSE_WAIT);
                    self.beside.ask(&words!["GET", key])
                } else {
                    answers
                }
            }
            Step::Watched { key, is_removed } => self.watched(key, *is_removed)?,
            Step::Alone(commands) => {
                let mut bytes = Vec::new();
                for command in commands {
                    encode(command, &mut bytes);
                }
                return self.whole(&step.name(), &bytes, tally);
            }
            Step::Raw(bytes) => return self.whole(&step.name(), bytes, tally),
        };
        tally.count(step.name(), &left);
        let is_same = match step {
            Step::Command(command) => self.comparer.same(command, &left, &right),
            Step::Beside(command) => Comparer::new(self.differences).same(command, &left, &right),
            _ => {
                let answers = [&left, &right].map(std::slice::from_ref);
                same_all(self.differences, &step.name(), answers[0], answers[1])
            }
        };
        Ok((!is_same).then(|| (0, left.to_string(), right.to_string())))
    }

    fn compare_scans(
        &self,
        left: Result<BTreeSet<Vec<u8>>, Answer>,
        right: Result<BTreeSet<Vec<u8>>, Answer>,
    ) -> Differ {
        let is_same = match (&left, &right) {
            (Err(left), Err(right)) => {
                Comparer::new(self.differences).same(&words!["SCAN", "0"], left, right)
            }
            (left, right) => left == right,
        };
        let shown = |found: Result<BTreeSet<Vec<u8>>, Answer>| match found {
            Ok(keys) => keys.iter().map(|key| crate::reply::text(key)).collect::<Vec<_>>().join(" "),
            Err(answer) => answer.to_string(),
        };
        (!is_same).then(|| (0, shown(left), shown(right)))
    }

    /// Each server's dump goes to the other. Then both have the same again, if both are right.
    fn exchange(&mut self, from: &[u8], to: &[u8]) -> (Answer, Answer) {
        let (left, right) = self.beside.ask(&words!["DUMP", from]);
        let (Answer::Reply(Reply::Bulk(lefts)), Answer::Reply(Reply::Bulk(rights))) = (&left, &right) else {
            return (left, right);
        };
        let restore = |payload: &[u8]| words!["RESTORE", to, "0", payload, "REPLACE"];
        let answers = (self.beside.left.ask(&restore(rights)), self.beside.right.ask(&restore(lefts)));
        if answers.0 != answers.1 {
            return answers;
        }
        self.beside.ask(&words!["GET", to])
    }

    /// The answer of EXEC. The key is gone afterwards.
    fn watched(&mut self, key: &[u8], is_removed: bool) -> io::Result<(Answer, Answer)> {
        let mut watching = Pair::open(self.servers)?;
        watching.ask(&words!["SELECT", self.database.to_string()]);
        self.beside.ask(&words!["DEL", key]);
        watching.ask(&words!["WATCH", key]);
        self.beside.ask(&words!["SET", key, "v"]);
        if is_removed {
            self.beside.ask(&words!["DEL", key]);
        }
        watching.ask(&words!["MULTI"]);
        watching.ask(&words!["PING"]);
        let answers = watching.ask(&words!["EXEC"]);
        self.beside.ask(&words!["DEL", key]);
        Ok(answers)
    }

    /// Sends bytes on a connection of their own, and reads everything that is answered until a PING behind
    /// them is.
    fn whole(&mut self, name: &str, bytes: &[u8], tally: &mut Tally) -> io::Result<Differ> {
        let mut all = bytes.to_vec();
        encode(&["PING", END].map(|word| word.into()), &mut all);
        let answers = |address| -> io::Result<Vec<Answer>> {
            let mut link = Link::open(address)?;
            // If the connection has closed, the earlier bytes were answered before.
            let _ = link.send(&all);
            let mut answers = Vec::new();
            loop {
                let answer = link.receive();
                if answer.to_string().contains(END) && matches!(answer, Answer::Reply(_)) {
                    return Ok(answers);
                }
                let is_over = !matches!(answer, Answer::Reply(_));
                answers.push(answer);
                if is_over {
                    return Ok(answers);
                }
            }
        };
        let (left, right) = (answers(self.servers.left)?, answers(self.servers.right)?);
        for answer in &left {
            tally.count(name.to_owned(), answer);
        }
        if same_all(self.differences, name, &left, &right) {
            return Ok(None);
        }
        let shown = |answers: Vec<Answer>| {
            let shown: Vec<String> = answers.iter().map(Answer::to_string).collect();
            shown.join(" ")
        };
        Ok(Some((0, shown(left), shown(right))))
    }
}

const END: &str = "this-is-the-end";

fn expect_answers((left, right): (Answer, Answer), command: &Command) -> io::Result<()> {
    for (side, answer) in [("left", left), ("right", right)] {
        if !matches!(answer, Answer::Reply(Reply::Simple(_) | Reply::Integer(_))) {
            let name = name(command);
            return Err(io::Error::other(format!("the {side} server answers {name} with {answer}")));
        }
    }
    Ok(())
}

/// All keys, or the answer that came instead.
fn iterate(link: &mut Link, words: &[Vec<u8>]) -> Result<BTreeSet<Vec<u8>>, Answer> {
    let mut cursor = b"0".to_vec();
    let mut keys = BTreeSet::new();
    for _ in 0..CURSORS_MAX {
        let answer = link.ask(&[words!["SCAN", cursor], words.to_vec()].concat());
        let Answer::Reply(Reply::Many(_, parts)) = &answer else { return Err(answer) };
        let [Reply::Bulk(next), Reply::Many(_, found)] = parts.as_slice() else { return Err(answer) };
        for key in found {
            let Reply::Bulk(key) = key else { return Err(answer) };
            keys.insert(key.clone());
        }
        if next == b"0" {
            return Ok(keys);
        }
        cursor.clone_from(next);
    }
    Err(Answer::Garbage("the cursor never comes back to 0".to_owned()))
}

/// Whether there is a random key, and whether the key exists.
fn random_key(link: &mut Link) -> Answer {
    match link.ask(&words!["RANDOMKEY"]) {
        Answer::Reply(Reply::Bulk(key)) => link.ask(&words!["EXISTS", key]),
        other => other,
    }
}
