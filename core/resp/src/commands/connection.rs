//! Commands about the connection itself. The front carries them out.

use crate::command::{Command, Flags, Front, Run};

pub const PING: Command = Command {
    name: "ping",
    arity: -1,
    flags: Flags::FAST.with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "[message]",
    summary: "Answers PONG, or the message that comes with it.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    run: Run::Front(Front::Ping),
    ..Command::BASE
};

pub const ECHO: Command = Command {
    name: "echo",
    arity: 2,
    flags: Flags::FAST.with(Flags::ANYTIME).with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "message",
    summary: "Answers with its argument.",
    run: Run::Front(Front::Echo),
    ..Command::BASE
};

pub const AUTH: Command = Command {
    name: "auth",
    arity: -2,
    flags: Flags::NOSCRIPT
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::ANYTIME)
        .with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(N) with N the passwords that the user has",
    usage: "[username] password",
    summary: "Proves with a password that the client may send commands.",
    run: Run::Front(Front::Auth),
    ..Command::BASE
};

pub const HELLO: Command = Command {
    name: "hello",
    arity: -1,
    flags: Flags::NOSCRIPT
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::ANYTIME)
        .with(Flags::CONNECTION),
    group: "connection",
    since: "6.0.0",
    complexity: "O(1)",
    usage: "[protover [AUTH username password] [SETNAME clientname]]",
    summary: "Agrees on the version of the protocol, gives password and name along if wanted, and answers facts about the server.",
    run: Run::Front(Front::Hello),
    ..Command::BASE
};

pub const QUIT: Command = Command {
    name: "quit",
    arity: -1,
    flags: Flags::NOSCRIPT
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::ANYTIME)
        .with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "",
    summary: "Answers OK and hangs up.",
    run: Run::Front(Front::Quit),
    ..Command::BASE
};

pub const RESET: Command = Command {
    name: "reset",
    arity: 1,
    flags: Flags::NOSCRIPT
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::ANYTIME)
        .with(Flags::CONNECTION),
    group: "connection",
    since: "6.2.0",
    complexity: "O(1)",
    usage: "",
    summary: "Puts the connection into the state that a new one has.",
    run: Run::Front(Front::Reset),
    ..Command::BASE
};

pub const SELECT: Command = Command {
    name: "select",
    arity: 2,
    flags: Flags::FAST.with(Flags::ANYTIME).with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "index",
    summary: "Makes later commands of the connection work on another database.",
    run: Run::Front(Front::Select),
    ..Command::BASE
};

pub const CLIENT: Command = Command {
    name: "client",
    arity: -2,
    group: "connection",
    since: "2.4.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what is about the connections of clients.",
    run: Run::Container(&[
        Command {
            name: "getname",
            arity: 2,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.6.9",
            complexity: "O(1)",
            usage: "",
            summary: "Answers the name that the connection was given.",
            run: Run::Front(Front::ClientGetName),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "connection",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "id",
            arity: 2,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Answers the number of the connection, which no other one has.",
            run: Run::Front(Front::ClientId),
            ..Command::BASE
        },
        Command {
            name: "info",
            arity: 2,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "6.2.0",
            complexity: "O(1)",
            usage: "",
            summary: "Describes the own connection in one line.",
            tips: &["nondeterministic_output"],
            run: Run::Front(Front::ClientInfo),
            ..Command::BASE
        },
        Command {
            name: "kill",
            arity: -3,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.4.0",
            complexity: "O(N) with N the connections",
            usage: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME yes/no]>",
            summary: "Closes the connections of clients that fit all that is said.",
            note: "Of the connections to the server that is asked.",
            run: Run::Front(Front::ClientKill),
            ..Command::BASE
        },
        Command {
            name: "list",
            arity: -2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.4.0",
            complexity: "O(N) with N the connections",
            usage: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
            summary: "Describes all connections, or those chosen, a line each.",
            tips: &["nondeterministic_output"],
            note: "The connections to the server that is asked.",
            run: Run::Front(Front::ClientList),
            ..Command::BASE
        },
        Command {
            name: "no-evict",
            arity: 3,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "7.0.0",
            complexity: "O(1)",
            usage: "<ON | OFF>",
            summary: "Notes whether the client asks to be spared when memory is short.",
            note: "Changes nothing.",
            run: Run::Front(Front::ClientNoEvict),
            ..Command::BASE
        },
        Command {
            name: "no-touch",
            arity: 3,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "7.2.0",
            complexity: "O(1)",
            usage: "<ON | OFF>",
            summary: "Notes whether the client wants to leave no trace of having used keys.",
            note: "Changes nothing: times of use are not kept.",
            run: Run::Front(Front::ClientNoTouch),
            ..Command::BASE
        },
        Command {
            name: "reply",
            arity: 3,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "3.2.0",
            complexity: "O(1)",
            usage: "<ON | OFF | SKIP>",
            summary: "Tells whether the client wants replies: all, none, or not the next one.",
            run: Run::Front(Front::ClientReply),
            ..Command::BASE
        },
        Command {
            name: "setinfo",
            arity: 4,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "7.2.0",
            complexity: "O(1)",
            usage: "<LIB-NAME libname | LIB-VER libver>",
            summary: "Notes which library the client uses, or in what version.",
            run: Run::Front(Front::ClientSetInfo),
            ..Command::BASE
        },
        Command {
            name: "setname",
            arity: 3,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.6.9",
            complexity: "O(1)",
            usage: "connection-name",
            summary: "Names the connection, so that lists show it by that name.",
            run: Run::Front(Front::ClientSetName),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};
