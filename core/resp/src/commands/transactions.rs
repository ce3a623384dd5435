//! Several commands as one. The front carries these commands out.

use crate::command::{Command, Flags, Front, KeyPlaces, Run};

pub const MULTI: Command = Command {
    name: "multi",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    group: "transactions",
    since: "1.2.0",
    complexity: "O(1)",
    usage: "",
    summary: "Begins a transaction: commands that follow are queued.",
    run: Run::Front(Front::Multi),
    ..Command::BASE
};

pub const EXEC: Command = Command {
    name: "exec",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::SKIP_SLOWLOG).with(Flags::ANYTIME),
    group: "transactions",
    since: "1.2.0",
    complexity: "As much as the queued commands take together",
    usage: "",
    summary: "Runs what is queued since MULTI as one, unless a watched key has changed.",
    run: Run::Front(Front::Exec),
    ..Command::BASE
};

pub const DISCARD: Command = Command {
    name: "discard",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    group: "transactions",
    since: "2.0.0",
    complexity: "O(N) with N the commands queued",
    usage: "",
    summary: "Ends a transaction and runs nothing of it.",
    run: Run::Front(Front::Discard),
    ..Command::BASE
};

pub const WATCH: Command = Command {
    name: "watch",
    arity: -2,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    keys: KeyPlaces::ALL,
    access: &["RO"],
    group: "transactions",
    since: "2.2.0",
    complexity: "O(N) with N the keys",
    usage: "key [key ...]",
    summary: "Lets the next EXEC do nothing if one of these keys changes before.",
    run: Run::Front(Front::Watch),
    ..Command::BASE
};

pub const UNWATCH: Command = Command {
    name: "unwatch",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    group: "transactions",
    since: "2.2.0",
    complexity: "O(1)",
    usage: "",
    summary: "Takes back every WATCH of the connection.",
    run: Run::Front(Front::Unwatch),
    ..Command::BASE
};
