//! The steps of an episode, as values that can be left out, sent and shown.

use crate::reply::text;
use std::fmt;

/// A command's words, the name first.
pub type Command = Vec<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// On the episode's connection; its neighbours go in one write.
    Command(Command),
    /// On a second connection to the same database, once everything before is answered: the changes that
    /// WATCH looks for.
    Beside(Command),
    /// A whole iteration: `SCAN` with these words behind the cursor; every key once, whatever the order.
    Scan(Vec<Vec<u8>>),
    /// RANDOMKEY, and whether the key is there.
    RandomKey,
    /// DUMP on both sides, and RESTORE to another key of what the *other* side dumped.
    Exchange { from: Vec<u8>, to: Vec<u8> },
    /// `SET key value PX 20` on both servers, and then a wait until the key has expired.
    Lapse { key: Vec<u8> },
    /// Commands on a connection of their own, with all pushes that arrive meanwhile.
    Alone(Vec<Command>),
    /// A missing key is watched, then made on the second connection (and removed again). The answer of EXEC
    /// is compared.
    Watched { key: Vec<u8>, is_removed: bool },
    /// These bytes on a connection of their own, whatever they are.
    Raw(Vec<u8>),
}

/// The words as bytes of the protocol.
pub fn encode(command: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The name by which a command is compared: in capitals, with the second word where that word selects the
/// subcommand.
pub fn name(command: &[Vec<u8>]) -> String {
    let upper = |word: &Vec<u8>| String::from_utf8_lossy(word).to_ascii_uppercase();
    let first = command.first().map(upper).unwrap_or_default();
    let containers =
        ["CLIENT", "CONFIG", "COMMAND", "OBJECT", "PUBSUB", "MEMORY", "SLOWLOG", "LATENCY", "DEBUG"];
    match command.get(1) {
        // A command of its own kind: redis-server 7 does not know these options.
        Some(_)
            if first == "SET" && command.get(3).is_some_and(|word| word == b"IFEQ" || word == b"IFVER") =>
        {
            "SET IF".to_owned()
        }
        Some(second)
            if second.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-')
                && containers.contains(&first.as_str()) =>
        {
            format!("{first} {}", upper(second))
        }
        _ => first,
    }
}

/// The command as a person would type it.
pub fn shown(command: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| {
        let is_plain = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'"');
        if is_plain { text(word) } else { format!("\"{}\"", text(word)) }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl Step {
    /// The command whose rules apply to the replies.
    pub fn name(&self) -> String {
        match self {
            Step::Command(command) | Step::Beside(command) => name(command),
            Step::Scan(_) => "SCAN".to_owned(),
            Step::RandomKey => "RANDOMKEY".to_owned(),
            Step::Exchange { .. } => "RESTORE".to_owned(),
            Step::Lapse { .. } => "GET".to_owned(),
            Step::Alone(_) => "(on a connection of its own)".to_owned(),
            Step::Watched { is_removed: true, .. } => "(a watched key made and removed)".to_owned(),
            Step::Watched { .. } => "(a watched key made)".to_owned(),
            Step::Raw(_) => "(raw bytes)".to_owned(),
        }
    }

    /// Whether some word of it is `word`.
    pub fn mentions(&self, word: &[u8]) -> bool {
        let among = |command: &Command| command.iter().any(|other| other == word);
        match self {
            Step::Command(command) | Step::Beside(command) => among(command),
            Step::Scan(_) | Step::RandomKey | Step::Raw(_) => false,
            Step::Exchange { from, to } => from == word || to == word,
            Step::Lapse { key } | Step::Watched { key, .. } => key == word,
            Step::Alone(commands) => commands.iter().any(among),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Command(command) => write!(out, "{}", shown(command)),
            Step::Beside(command) => write!(out, "(on another connection) {}", shown(command)),
            Step::Scan(words) => write!(out, "(until the cursor is 0) SCAN cursor {}", shown(words)),
            Step::RandomKey => write!(out, "RANDOMKEY, then EXISTS of it"),
            Step::Exchange { from, to } => {
                write!(out, "DUMP {0}, then RESTORE {1} 0 (the other's) REPLACE", text(from), text(to))
            }
            Step::Lapse { key } => write!(out, "SET {0} v PX 20, wait 60 ms, GET {0}", text(key)),
            Step::Alone(commands) => {
                let commands: Vec<String> = commands.iter().map(|command| shown(command)).collect();
                write!(out, "(on a connection of its own) {}", commands.join(" | "))
            }
            Step::Watched { key, is_removed } => {
                let removed = if *is_removed { " and removed" } else { "" };
                write!(out, "DEL {0}, WATCH {0}, made{removed} elsewhere, MULTI, PING, EXEC", text(key))
            }
            Step::Raw(bytes) => write!(out, "(bytes on a connection of their own) {}", text(bytes)),
        }
    }
}
