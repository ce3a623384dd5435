//! The connection itself. The front carries these out.

use crate::command::{Command, Flags, Front, Run};

pub const PING: Command = Command {
    name: "ping",
    arity: -1,
    flags: Flags::FAST.with(Flags::CONNECTION),
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "[message]",
    summary: "Ping the server.",
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
    summary: "Echo the given string.",
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
    complexity: "O(N) where N is the number of passwords defined for the user",
    usage: "[username] password",
    summary: "Authenticate to the server.",
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
    summary: "Handshake with Redis.",
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
    summary: "Close the connection.",
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
    summary: "Reset the connection.",
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
    summary: "Change the selected database for the current connection.",
    run: Run::Front(Front::Select),
    ..Command::BASE
};

pub const CLIENT: Command = Command {
    name: "client",
    arity: -2,
    group: "connection",
    since: "2.4.0",
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for client connection commands.",
    run: Run::Container(&[
        Command {
            name: "getname",
            arity: 2,
            flags: Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.6.9",
            complexity: "O(1)",
            usage: "",
            summary: "Get the current connection name.",
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
            summary: "Show helpful text about the different subcommands.",
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
            summary: "Returns the client ID for the current connection.",
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
            summary: "Returns information about the current client connection.",
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
            complexity: "O(N) where N is the number of client connections",
            usage: "ID client-id [SKIPME yes/no]",
            summary: "Kill the connection of a client.",
            note: "By ID only, and of the connections to the server that is asked.",
            run: Run::Front(Front::ClientKill),
            ..Command::BASE
        },
        Command {
            name: "list",
            arity: -2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME).with(Flags::CONNECTION),
            group: "connection",
            since: "2.4.0",
            complexity: "O(N) where N is the number of client connections",
            usage: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
            summary: "Get the list of client connections.",
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
            summary: "Set client eviction mode for the current connection.",
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
            summary: "Control whether commands that the client sends change when keys were used last.",
            note: "Changes nothing: times of use are not kept.",
            run: Run::Front(Front::ClientNoTouch),
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
            summary: "Set the name or the version of the client's library.",
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
            summary: "Set the current connection name.",
            run: Run::Front(Front::ClientSetName),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};
