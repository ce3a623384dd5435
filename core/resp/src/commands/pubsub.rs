//! Messages to whoever listens. The front carries these out.

use crate::command::{Command, Flags, Front, Run};

pub const SUBSCRIBE: Command = Command {
    name: "subscribe",
    arity: -2,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) where N is the number of channels to subscribe to.",
    usage: "channel [channel ...]",
    summary: "Listen for messages published to the given channels.",
    run: Run::Front(Front::Subscribe),
    ..Command::BASE
};

pub const UNSUBSCRIBE: Command = Command {
    name: "unsubscribe",
    arity: -1,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) where N is the number of clients already subscribed to a channel.",
    usage: "[channel [channel ...]]",
    summary: "Stop listening for messages posted to the given channels.",
    run: Run::Front(Front::Unsubscribe),
    ..Command::BASE
};

pub const PSUBSCRIBE: Command = Command {
    name: "psubscribe",
    arity: -2,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N) where N is the number of patterns the client is already subscribed to.",
    usage: "pattern [pattern ...]",
    summary: "Listen for messages published to channels matching the given patterns.",
    run: Run::Front(Front::PSubscribe),
    ..Command::BASE
};

pub const PUNSUBSCRIBE: Command = Command {
    name: "punsubscribe",
    arity: -1,
    flags: Flags::PUBSUB.with(Flags::NOSCRIPT).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N+M) where N is the number of patterns the client is already subscribed and M is the number of total patterns subscribed in the system (by any client).",
    usage: "[pattern [pattern ...]]",
    summary: "Stop listening for messages posted to channels matching the given patterns.",
    run: Run::Front(Front::PUnsubscribe),
    ..Command::BASE
};

pub const PUBLISH: Command = Command {
    name: "publish",
    arity: 3,
    flags: Flags::PUBSUB.with(Flags::FAST).with(Flags::ANYTIME),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
    usage: "channel message",
    summary: "Post a message to a channel.",
    run: Run::Front(Front::Publish),
    ..Command::BASE
};

pub const PUBSUB: Command = Command {
    name: "pubsub",
    arity: -2,
    group: "pubsub",
    since: "2.8.0",
    complexity: "Depends on subcommand.",
    usage: "",
    summary: "A container for Pub/Sub commands.",
    run: Run::Container(&[
        Command {
            name: "channels",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "2.8.0",
            complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
            usage: "[pattern]",
            summary: "List active channels.",
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
            summary: "Show helpful text about the different subcommands.",
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
            summary: "Get the count of unique patterns pattern subscriptions.",
            run: Run::Front(Front::PubSubNumPat),
            ..Command::BASE
        },
        Command {
            name: "numsub",
            arity: -2,
            flags: Flags::PUBSUB.with(Flags::ANYTIME),
            group: "pubsub",
            since: "2.8.0",
            complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
            usage: "[channel [channel ...]]",
            summary: "Get the count of subscribers for channels.",
            run: Run::Front(Front::PubSubNumSub),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};
