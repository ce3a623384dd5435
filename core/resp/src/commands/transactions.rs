//! Several commands as one. The front carries these out.

use crate::command::{Command, Flags, Front, KeyPlaces, Run};

pub const MULTI: Command = Command {
    name: "multi",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    group: "transactions",
    since: "1.2.0",
    complexity: "O(1)",
    usage: "",
    summary: "Mark the start of a transaction block.",
    run: Run::Front(Front::Multi),
    ..Command::BASE
};

pub const EXEC: Command = Command {
    name: "exec",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::SKIP_SLOWLOG).with(Flags::ANYTIME),
    group: "transactions",
    since: "1.2.0",
    complexity: "Depends on commands in the transaction",
    usage: "",
    summary: "Execute all commands issued after MULTI.",
    run: Run::Front(Front::Exec),
    ..Command::BASE
};

pub const DISCARD: Command = Command {
    name: "discard",
    arity: 1,
    flags: Flags::NOSCRIPT.with(Flags::FAST).with(Flags::ALLOW_BUSY).with(Flags::ANYTIME),
    group: "transactions",
    since: "2.0.0",
    complexity: "O(N), when N is the number of queued commands",
    usage: "",
    summary: "Discard all commands issued after MULTI.",
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
    complexity: "O(1) for every key.",
    usage: "key [key ...]",
    summary: "Watch the given keys to determine execution of the MULTI/EXEC block.",
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
    summary: "Forget about all watched keys.",
    run: Run::Front(Front::Unwatch),
    ..Command::BASE
};
