//! Rules and decisions, from the outside.

mod decisions;
mod hostile;
mod logins;
mod model;
mod roster;
mod rules;

use ramhold_access::{Catalog, Class, Classes, Entry};

/// Commands beside those that the tests name: the bits of a permit fill several words.
const FURTHER_COUNT: usize = 150;

/// Some of Redis's commands, and requests of Ramhold's own protocol.
fn catalog() -> Catalog {
    use Class::{Admin, Connection, Dangerous, Fast, Keyspace, PubSub, Read, Slow, String, Write};
    let entries: &[(&str, &[Class])] = &[
        ("auth", &[Fast, Connection]),
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
        is_open: *name == "auth",
    };
    let further = (0..FURTHER_COUNT).map(|number| Entry {
        name: format!("further|{number}"),
        classes: Classes::from_iter([if number % 3 == 0 { Read } else { Write }]),
        is_open: false,
    });
    Catalog::new(entries.iter().map(entry).chain(further).collect())
}
