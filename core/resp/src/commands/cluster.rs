//! What clients of a Redis cluster ask for. The front carries these out.

use crate::command::{Command, Flags, Front, Run};

pub const CLUSTER: Command = Command {
    name: "cluster",
    arity: -2,
    group: "cluster",
    since: "3.0.0",
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for cluster commands.",
    run: Run::Container(&[
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "cluster",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Show helpful text about the different subcommands.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "info",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Provides info about Redis Cluster node state.",
            tips: &["nondeterministic_output"],
            run: Run::Front(Front::ClusterInfo),
            ..Command::BASE
        },
        Command {
            name: "keyslot",
            arity: 3,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(N) where N is the number of bytes in the key",
            usage: "key",
            summary: "Returns the hash slot of the specified key.",
            run: Run::Front(Front::ClusterKeySlot),
            ..Command::BASE
        },
        Command {
            name: "myid",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Return the node id.",
            run: Run::Front(Front::ClusterMyId),
            ..Command::BASE
        },
        Command {
            name: "nodes",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(N) where N is the total number of Cluster nodes",
            usage: "",
            summary: "Get Cluster config for the node.",
            tips: &["nondeterministic_output"],
            run: Run::Front(Front::ClusterNodes),
            ..Command::BASE
        },
        Command {
            name: "shards",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "7.0.0",
            complexity: "O(N) where N is the total number of cluster nodes",
            usage: "",
            summary: "Get array of cluster slots to node mappings.",
            tips: &["nondeterministic_output"],
            run: Run::Front(Front::ClusterShards),
            ..Command::BASE
        },
        Command {
            name: "slots",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(N) where N is the total number of Cluster nodes",
            usage: "",
            summary: "Get array of Cluster slot to node mappings.",
            tips: &["nondeterministic_output"],
            run: Run::Front(Front::ClusterSlots),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

pub const READONLY: Command = Command {
    name: "readonly",
    arity: 1,
    flags: Flags::FAST.with(Flags::ANYTIME).with(Flags::CONNECTION),
    group: "cluster",
    since: "3.0.0",
    complexity: "O(1)",
    usage: "",
    summary: "Enables read queries for a connection to a cluster replica node.",
    note: "Changes nothing.",
    run: Run::Front(Front::ReadOnly),
    ..Command::BASE
};

pub const READWRITE: Command = Command {
    name: "readwrite",
    arity: 1,
    flags: Flags::FAST.with(Flags::ANYTIME).with(Flags::CONNECTION),
    group: "cluster",
    since: "3.0.0",
    complexity: "O(1)",
    usage: "",
    summary: "Disables read queries for a connection to a cluster replica node.",
    note: "Changes nothing.",
    run: Run::Front(Front::ReadWrite),
    ..Command::BASE
};
