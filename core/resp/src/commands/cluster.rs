//! Commands of Redis Cluster's clients. The front carries them out.

use crate::command::{Command, Flags, Front, Run};

pub const CLUSTER: Command = Command {
    name: "cluster",
    arity: -2,
    group: "cluster",
    since: "3.0.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what tells clients of clusters where keys are.",
    run: Run::Container(&[
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "cluster",
            since: "5.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
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
            summary: "Tells how many slots and servers the cluster has, and that all is well.",
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
            complexity: "O(N) with N the bytes of the key",
            usage: "key",
            summary: "Computes the slot that a key belongs to.",
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
            summary: "Names the server that is asked, in forty hexadecimal digits.",
            run: Run::Front(Front::ClusterMyId),
            ..Command::BASE
        },
        Command {
            name: "nodes",
            arity: 2,
            flags: Flags::STALE,
            group: "cluster",
            since: "3.0.0",
            complexity: "O(N) with N the servers of the cluster",
            usage: "",
            summary: "Lists the servers of the cluster and their slots, a line each.",
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
            complexity: "O(N) with N the servers of the cluster",
            usage: "",
            summary: "Lists the servers and the slots that each has, as maps.",
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
            complexity: "O(N) with N the servers of the cluster",
            usage: "",
            summary: "Lists ranges of slots and the server that has each.",
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
    summary: "Is accepted from clients that want to read from replicas.",
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
    summary: "Is accepted from clients that take READONLY back.",
    note: "Changes nothing.",
    run: Run::Front(Front::ReadWrite),
    ..Command::BASE
};
