//! The process and the cluster behind it. The front carries these out.

use crate::command::{Command, Flags, Front, Run};

pub const COMMAND: Command = Command {
    name: "command",
    arity: -1,
    flags: Flags::ANYTIME.with(Flags::CONNECTION),
    group: "server",
    since: "2.8.13",
    complexity: "O(N) where N is the total number of Redis commands",
    usage: "",
    summary: "Get array of Redis command details.",
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
            summary: "Get total number of Redis commands.",
            run: Run::Front(Front::CommandCount),
            ..Command::BASE
        },
        Command {
            name: "docs",
            arity: -2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "7.0.0",
            complexity: "O(N) where N is the number of commands to look up",
            usage: "[command-name [command-name ...]]",
            summary: "Get array of specific Redis command documentation.",
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
            complexity: "O(N) where N is the number of arguments to the command",
            usage: "",
            summary: "Extract keys given a full Redis command.",
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
            summary: "Show helpful text about the different subcommands.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "info",
            arity: -2,
            flags: Flags::ANYTIME.with(Flags::CONNECTION),
            group: "server",
            since: "2.8.13",
            complexity: "O(N) where N is the number of commands to look up",
            usage: "[command-name [command-name ...]]",
            summary: "Get array of specific Redis command details, or all when no argument is given.",
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
            complexity: "O(N) where N is the total number of Redis commands",
            usage: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
            summary: "Get an array of Redis command names.",
            tips: &["nondeterministic_output_order"],
            run: Run::Front(Front::CommandList),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

/// `COMMAND` without a subcommand.
pub const BARE_COMMAND: Command = Command { run: Run::Front(Front::Command), ..COMMAND };

pub const INFO: Command = Command {
    name: "info",
    arity: -1,
    flags: Flags::ANYTIME.with(Flags::DANGEROUS),
    group: "server",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "[section [section ...]]",
    summary: "Get information and statistics about the server.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Run::Front(Front::Info),
    ..Command::BASE
};

pub const CONFIG: Command = Command {
    name: "config",
    arity: -2,
    group: "server",
    since: "2.0.0",
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for server configuration commands.",
    run: Run::Container(&[
        Command {
            name: "get",
            arity: -3,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.0.0",
            complexity: "O(N) when N is the number of configuration parameters provided",
            usage: "parameter [parameter ...]",
            summary: "Get the values of configuration parameters.",
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
            summary: "Show helpful text about the different subcommands.",
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
            summary: "Reset the stats returned by INFO.",
            run: Run::Front(Front::ConfigResetStat),
            ..Command::BASE
        },
        Command {
            name: "set",
            arity: -4,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.0.0",
            complexity: "O(N) when N is the number of configuration parameters provided",
            usage: "parameter value [parameter value ...]",
            summary: "Set configuration parameters to the given values.",
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
    summary: "Return the current server time.",
    tips: &["nondeterministic_output"],
    run: Run::Front(Front::Time),
    ..Command::BASE
};

pub const LATENCY: Command = Command {
    name: "latency",
    arity: -2,
    group: "server",
    since: "2.8.13",
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for latency diagnostics commands.",
    run: Run::Container(&[
        Command {
            name: "doctor",
            arity: 2,
            flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            usage: "",
            summary: "Return a human readable latency analysis report.",
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
            summary: "Show helpful text about the different subcommands.",
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
            summary: "Return timestamp-latency samples for the event.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            note: "Nothing is recorded; see SLOWLOG.",
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
            summary: "Return the latest latency samples for all events.",
            tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
            note: "Nothing is recorded; see SLOWLOG.",
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
            summary: "Reset latency data for one or more events.",
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
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for slow log commands.",
    run: Run::Container(&[
        Command {
            name: "get",
            arity: -2,
            flags: Flags::ADMIN.with(Flags::ANYTIME),
            group: "server",
            since: "2.2.12",
            complexity: "O(N) where N is the number of entries returned",
            usage: "[count]",
            summary: "Get the slow log's entries.",
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
            summary: "Show helpful text about the different subcommands.",
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
            summary: "Get the slow log's length.",
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
            complexity: "O(N) where N is the number of entries in the slowlog",
            usage: "",
            summary: "Clear all entries from the slow log.",
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
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for debugging commands.",
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
    summary: "Return the role of the instance in the context of replication.",
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
    summary: "Get the UNIX time stamp of the last successful save to disk.",
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
    summary: "Wait for the synchronous replication of all the write commands sent in the context of the current connection.",
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
    summary: "Wait for the writes that were sent before to be in the logs of so many local and other servers.",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    note: "Answers at once, as WAIT does.",
    run: Run::Front(Front::WaitAof),
    ..Command::BASE
};
