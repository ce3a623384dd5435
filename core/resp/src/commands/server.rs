//! Commands about the process and the cluster behind it. The front carries them out.

use crate::command::{Command, Flags, Front, Run};

pub const COMMAND: Command = Command {
    name: "command",
    arity: -1,
    flags: Flags::ANYTIME.with(Flags::CONNECTION),
    group: "server",
    since: "2.8.13",
    complexity: "O(N) with N the commands there are",
    usage: "",
    summary: "Describes all commands: arity, flags, places of keys, access classes.",
    tips: &["nondeterministic_output_order"],
    run: Run::Container(&[
        Command {
            name: "count",
            arity: 2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "",
            summary: "Tells how many commands there are.",
            run: Run::Front(Front::CommandCount),
            ..Command::BASE
        },
        Command {
            name: "docs",
            arity: -2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "7.0.0",
            complexity: "O(N) with N the commands asked about",
            usage: "[command-name [command-name ...]]",
            summary: "Explains commands and their arguments, those named or all.",
            tips: &["nondeterministic_output_order"],
            run: Run::Front(Front::CommandDocs),
            ..Command::BASE
        },
        Command {
            name: "getkeys",
            arity: -4,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "2.8.13",
            complexity: "O(N) with N the arguments of the request",
            usage: "",
            summary: "Picks the keys out of a whole request.",
            run: Run::Front(Front::CommandGetKeys),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "info",
            arity: -2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "2.8.13",
            complexity: "O(N) with N the commands asked about",
            usage: "[command-name [command-name ...]]",
            summary: "Describes the commands that are named as COMMAND does, and without names all.",
            tips: &["nondeterministic_output_order"],
            run: Run::Front(Front::CommandInfo),
            ..Command::BASE
        },
        Command {
            name: "list",
            arity: -2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "7.0.0",
            complexity: "O(N) with N the commands there are",
            usage: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            summary: "Lists the names of commands, all or those that a filter lets through.",
            tips: &["nondeterministic_output_order"],
            run: Run::Front(Front::CommandList),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

/// `COMMAND` without a subcommand.
pub static BARE_COMMAND: Command = Command { run: Run::Front(Front::Command), ..COMMAND };

pub const FUNCTION: Command = Command {
    name: "function",
    arity: -2,
    group: "scripting",
    since: "7.0.0",
    complexity: "As much as the subcommand takes",
    summary: "Holds what is about functions, of which there are none.",
    run: Run::Container(&[Command {
        name: "flush",
        arity: -2,
        flags: Flags::WRITE.with(Flags::NOSCRIPT),
        group: "scripting",
        since: "7.0.0",
        complexity: "O(1)",
        usage: "[ASYNC | SYNC]",
        summary: "Is accepted from programs that begin with an empty server.",
        note: "There are no functions and no scripts: nothing is removed.",
        run: Run::Front(Front::FunctionFlush),
        ..Command::BASE
    }]),
    ..Command::BASE
};

pub const INFO: Command = Command {
    name: "info",
    arity: -1,
    flags: Flags::ANYTIME.with(Flags::DANGEROUS),
    group: "server",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "[section [section ...]]",
    summary: "Reports how the server is doing, in sections of names and numbers.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    note: "Of the server that is asked. Keyspace lists the databases that clients of this server have used, with the keys that it has of them; expires and avg_ttl are 0, since nobody counts the keys that expire. redis_mode and cluster_enabled depend on the port that was connected to. keyspace_hits and keyspace_misses count the keys that read-only commands asked for.",
    run: Run::Front(Front::Info),
    ..Command::BASE
};

pub const CONFIG: Command = Command {
    name: "config",
    arity: -2,
    group: "server",
    since: "2.0.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what reads and changes settings.",
    run: Run::Container(&[
        Command {
            name: "get",
            arity: -3,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.0.0",
            complexity: "O(N) with N the settings asked for",
            usage: "parameter [parameter ...]",
            summary: "Shows the settings whose names fit the patterns.",
            run: Run::Front(Front::ConfigGet),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "server",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "resetstat",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lets the counts that INFO shows begin at 0 again.",
            run: Run::Front(Front::ConfigResetStat),
            ..Command::BASE
        },
        Command {
            name: "set",
            arity: -4,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.0.0",
            complexity: "O(N) with N the settings to change",
            usage: "parameter value [parameter value ...]",
            summary: "Changes settings of the server that is asked, all of them or none.",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Run::Front(Front::ConfigSet),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

pub const TIME: Command = Command {
    name: "time",
    arity: 1,
    flags: Flags::FAST.with(Flags::ANYTIME),
    group: "server",
    since: "2.6.0",
    complexity: "O(1)",
    usage: "",
    summary: "Tells the server's clock as seconds since 1970 and microseconds.",
    tips: &["nondeterministic_output"],
    run: Run::Front(Front::Time),
    ..Command::BASE
};

pub const LATENCY: Command = Command {
    name: "latency",
    arity: -2,
    group: "server",
    since: "2.8.13",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what tells of delays.",
    run: Run::Container(&[
        Command {
            name: "doctor",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "",
            summary: "Says in a sentence where to look for delays.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            run: Run::Front(Front::LatencyDoctor),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "history",
            arity: 3,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "event",
            summary: "Lists the delays of one kind that were recorded.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            note: "Of the server that is asked, and of commands that were not answered in the step in which they came: others take microseconds.",
            run: Run::Front(Front::LatencyHistory),
            ..Command::BASE
        },
        Command {
            name: "latest",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the newest delay of each kind that was recorded.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            note: "Of the server that is asked, and of commands that were not answered in the step in which they came: others take microseconds.",
            run: Run::Front(Front::LatencyLatest),
            ..Command::BASE
        },
        Command {
            name: "reset",
            arity: -2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "[event [event ...]]",
            summary: "Throws recorded delays away.",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Run::Front(Front::LatencyReset),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

pub const SLOWLOG: Command = Command {
    name: "slowlog",
    arity: -2,
    group: "server",
    since: "2.2.12",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what is about requests that took long.",
    run: Run::Container(&[
        Command {
            name: "get",
            arity: -2,
            flags: Flags::ADMIN.with(Flags::ANYTIME),
            group: "server",
            since: "2.2.12",
            complexity: "O(N) with N the entries answered",
            usage: "[count]",
            summary: "Lists the newest requests that took long.",
            tips: &["request_policy:all_nodes", "nondeterministic_output"],
            run: Run::Front(Front::SlowlogGet),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "server",
            since: "6.2.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "len",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::ANYTIME),
            group: "server",
            since: "2.2.12",
            complexity: "O(1)",
            usage: "",
            summary: "Tells how many requests that took long are kept.",
            tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
            run: Run::Front(Front::SlowlogLen),
            ..Command::BASE
        },
        Command {
            name: "reset",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::ANYTIME),
            group: "server",
            since: "2.2.12",
            complexity: "O(N) with N the entries kept",
            usage: "",
            summary: "Throws away what is kept of requests that took long.",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Run::Front(Front::SlowlogReset),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

pub const DEBUG: Command = Command {
    name: "debug",
    arity: -2,
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "server",
    since: "1.0.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Accepts a few things that tests of clients ask for.",
    note: "Only when the operator allows it.",
    run: Run::Front(Front::Debug),
    ..Command::BASE
};

pub const ROLE: Command = Command {
    name: "role",
    arity: 1,
    flags: Flags::NOSCRIPT
        .with(Flags::FAST)
        .with(Flags::ANYTIME)
        .with(Flags::DANGEROUS)
        .with(Flags::ADMINISTRATIVE),
    group: "server",
    since: "2.8.12",
    complexity: "O(1)",
    usage: "",
    summary: "Tells whether the server is a master or a replica.",
    note: "Always a master without replicas: every server answers for the whole cluster.",
    run: Run::Front(Front::Role),
    ..Command::BASE
};

pub const LASTSAVE: Command = Command {
    name: "lastsave",
    arity: 1,
    flags: Flags::FAST.with(Flags::ANYTIME).with(Flags::DANGEROUS).with(Flags::ADMINISTRATIVE),
    group: "server",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "",
    summary: "Tells the moment up to which data is safe, in seconds since 1970.",
    tips: &["nondeterministic_output"],
    note: "The time now: nothing is saved apart from what is on backups.",
    run: Run::Front(Front::LastSave),
    ..Command::BASE
};

pub const WAIT: Command = Command {
    name: "wait",
    arity: 3,
    flags: Flags::NOSCRIPT.with(Flags::CONNECTION),
    group: "generic",
    since: "3.0.0",
    complexity: "O(1)",
    usage: "numreplicas timeout",
    summary: "Tells how many backups have what the connection wrote.",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    note: "Answers at once: what was acknowledged is on its backups already. The number is that of the backups.",
    run: Run::Front(Front::Wait),
    ..Command::BASE
};

pub const WAITAOF: Command = Command {
    name: "waitaof",
    arity: 4,
    flags: Flags::NOSCRIPT.with(Flags::CONNECTION),
    group: "generic",
    since: "7.2.0",
    complexity: "O(1)",
    usage: "numlocal numreplicas timeout",
    summary: "Tells how many logs, here and on other servers, have what the connection wrote.",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    note: "Answers at once, as WAIT does.",
    run: Run::Front(Front::WaitAof),
    ..Command::BASE
};
