//! Messages to subscribers. The front carries these commands out.

use crate::command::{Command, Flags, Front, Run};

pub const SUBSCRIBE: Command = Command {
    name: "subscribe",
    arity: -2,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) with N the channels named",
    usage: "channel [channel ...]",
    summary: "Has the connection told of every message to some channels.",
    run: Run::Front(Front::Subscribe),
    ..Command::BASE
};

pub const UNSUBSCRIBE: Command = Command {
    name: "unsubscribe",
    arity: -1,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) with N the connections that already listen to a channel",
    usage: "[channel [channel ...]]",
    summary: "Ends what SUBSCRIBE began, for some channels or for all.",
    run: Run::Front(Front::Unsubscribe),
    ..Command::BASE
};

pub const PSUBSCRIBE: Command = Command {
    name: "psubscribe",
    arity: -2,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) with N the patterns that the connection has already",
    usage: "pattern [pattern ...]",
    summary: "Has the connection told of every message to channels whose names fit a pattern.",
    run: Run::Front(Front::PSubscribe),
    ..Command::BASE
};

pub const PUNSUBSCRIBE: Command = Command {
    name: "punsubscribe",
    arity: -1,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N+M) with N the patterns of the connection and M those of all clients",
    usage: "[pattern [pattern ...]]",
    summary: "Ends what PSUBSCRIBE began, for some patterns or for all.",
    run: Run::Front(Front::PUnsubscribe),
    ..Command::BASE
};

pub const SSUBSCRIBE: Command = Command {
    name: "ssubscribe",
    arity: -2,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "7.0.0",
    complexity: "O(N) with N the channels named",
    usage: "shardchannel [shardchannel ...]",
    summary: "Has the connection told of every message to some shard channels.",
    note: "At any server, whatever the channels' slots.",
    run: Run::Front(Front::SSubscribe),
    ..Command::BASE
};

pub const SUNSUBSCRIBE: Command = Command {
    name: "sunsubscribe",
    arity: -1,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "7.0.0",
    complexity: "O(N) with N the connections that already listen to a channel",
    usage: "[shardchannel [shardchannel ...]]",
    summary: "Ends what SSUBSCRIBE began, for some shard channels or for all.",
    run: Run::Front(Front::SUnsubscribe),
    ..Command::BASE
};

pub const SPUBLISH: Command = Command {
    name: "spublish",
    arity: 3,
    flags: Flags::PUBSUB.with(Flags::FAST).with(Flags::ANYTIME),
    group: "pubsub",
    since: "7.0.0",
    complexity: "O(N) with N the connections that listen to the channel",
    usage: "shardchannel message",
    summary: "Sends a message to all who listen to a shard channel.",
    note: "At any server. Between MULTI and EXEC as PUBLISH.",
    run: Run::Front(Front::SPublish),
    ..Command::BASE
};

pub const PUBLISH: Command = Command {
    name: "publish",
    arity: 3,
    flags: Flags::PUBSUB.with(Flags::FAST).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N+M) with N the connections that listen to the channel and M the patterns of all clients",
    usage: "channel message",
    summary: "Sends a message to all who listen to a channel.",
    note: "Between MULTI and EXEC the message goes out when the transaction has had its effect, and the reply counts the \
           subscribers of the server that is asked.",
    run: Run::Front(Front::Publish),
    ..Command::BASE
};

pub const PUBSUB: Command = Command {
    name: "pubsub",
    arity: -2,
    group: "pubsub",
    since: "2.8.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what tells who listens to what.",
    run: Run::Container(&[
        Command {
            name: "channels",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "2.8.0",
            complexity: "O(N) with N the channels that somebody listens to, if names and pattern are short",
            usage: "[pattern]",
            summary: "Lists the channels that somebody listens to.",
            run: Run::Front(Front::PubSubChannels),
            ..Command::BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "pubsub",
            since: "6.2.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "numpat",
            arity: 2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "2.8.0",
            complexity: "O(1)",
            usage: "",
            summary: "Tells how many different patterns clients listen to.",
            run: Run::Front(Front::PubSubNumPat),
            ..Command::BASE
        },
        Command {
            name: "numsub",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "2.8.0",
            complexity: "O(N) with N the channels named",
            usage: "[channel [channel ...]]",
            summary: "Tells how many connections listen to each channel that is named.",
            run: Run::Front(Front::PubSubNumSub),
            ..Command::BASE
        },
        Command {
            name: "shardchannels",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "7.0.0",
            complexity: "O(N) with N the shard channels that clients listen to",
            usage: "[pattern]",
            summary: "Lists the shard channels that clients listen to.",
            note: "",
            run: Run::Front(Front::PubSubShardChannels),
            ..Command::BASE
        },
        Command {
            name: "shardnumsub",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "7.0.0",
            complexity: "O(N) with N the shard channels named",
            usage: "[shardchannel [shardchannel ...]]",
            summary: "Tells how many connections listen to each shard channel that is named.",
            note: "",
            run: Run::Front(Front::PubSubShardNumSub),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};
