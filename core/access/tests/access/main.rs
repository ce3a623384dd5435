//! Rules and decisions, from the outside.

mod decisions;
mod model;
mod rules;

use ramhold_access::{Catalog, Class, Classes, Entry};

/// Some of Redis's commands, and requests of Ramhold's own protocol.
fn catalog() -> Catalog {
    use Class::{Admin, Connection, Dangerous, Fast, Keyspace, PubSub, Read, Slow, String, Write};
    let entries: &[(&str, &[Class])] = &[
        ("client", &[Slow]),
        ("client|kill", &[Admin, Slow, Dangerous, Connection]),
        ("client|list", &[Admin, Slow, Dangerous, Connection]),
        ("client|setname", &[Slow, Connection]),
        ("del", &[Keyspace, Write, Slow]),
        ("flushall", &[Keyspace, Write, Slow, Dangerous]),
        ("get", &[Read, String, Fast]),
        ("keys", &[Keyspace, Read, Slow, Dangerous]),
        ("mget", &[Read, String, Fast]),
        ("native", &[Slow]),
        ("native|read", &[Read, Fast]),
        ("native|scan", &[Read, Slow]),
        ("native|write", &[Write, Fast]),
        ("publish", &[PubSub, Fast]),
        ("set", &[Write, String, Slow]),
        ("subscribe", &[PubSub, Slow]),
    ];
    let entry = |(name, classes): &(&str, &[Class])| Entry {
        name: (*name).to_owned(),
        classes: classes.iter().copied().collect::<Classes>(),
    };
    Catalog::new(entries.iter().map(entry).collect())
}
