//! The front over a quorum table, whose bricks are played (J1, J3, A12).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod rig;

use ramhold_base::ConnId;
use ramhold_client_core::Token;
use ramhold_resp::commands::describe::rows;
use ramhold_resp::{CrossSlot, Flags, OnQuorum, Run};
use rig::bricks::{CARTS, address_of};
use rig::{A, B, Rig};
use std::collections::BTreeSet;
use std::time::Duration;

/// The time of the rig's host when a test begins, in milliseconds.
const NOW: u64 = 1_700_000_000_000;

/// A front whose database 1 is the quorum table, with a connection to it.
fn rig() -> Rig {
    let mut rig = Rig::with(|config| config.tables = vec![(1, CARTS.into())]);
    assert_eq!(rig.ask(A, "select 1\nget nothing"), "+OK\r\n$-1\r\n");
    rig
}

/// Commands that are carried out, with their replies, in this order. Each command that is carried out is here.
const CARRIED_OUT: &[(&str, &str)] = &[
    ("set k value", "+OK"),
    ("get k", "$5\r\nvalue"),
    ("strlen k", ":5"),
    ("getrange k 1 2", "$2\r\nal"),
    ("substr k 1 2", "$2\r\nal"),
    ("type k", "+string"),
    ("type nothing", "+none"),
    ("exists k k nothing", ":2"),
    ("touch k nothing", ":1"),
    ("mset a 1 b 2 a 3", "+OK"),
    ("mget a b nothing", "*3\r\n$1\r\n3\r\n$1\r\n2\r\n$-1"),
    ("ttl a", ":-1"),
    ("ttl nothing", ":-2"),
    ("set a 1 ex 100", "+OK"),
    ("ttl a", ":100"),
    ("set a 1 px 5000", "+OK"),
    ("pttl a", ":5000"),
    ("set a 1 exat 1700000100", "+OK"),
    ("expiretime a", ":1700000100"),
    ("set a 1 pxat 1700000100500", "+OK"),
    ("pexpiretime a", ":1700000100500"),
    ("setex a 7 1", "+OK"),
    ("ttl a", ":7"),
    ("psetex a 7000 1", "+OK"),
    ("pttl a", ":7000"),
    ("set a 1 ex 0", "-ERR invalid expire time in 'set' command"),
    ("set a 1 pxat 1", "+OK"),
    ("get a", "$-1"),
    ("del b b nothing", ":1"),
    ("del b", ":0"),
    ("unlink k", ":1"),
    ("get k", "$-1"),
];

#[test]
fn commands_about_single_keys_are_carried_out_by_bricks() {
    // J1, A12
    let mut rig = rig();
    for (command, reply) in CARRIED_OUT {
        assert_eq!(rig.ask(A, command), format!("{reply}\r\n"), "{command}");
    }
    assert_eq!(rig.shelf.asked, [""; 0], "this process's master has no such key");
}

#[test]
fn every_command_is_carried_out_or_refused() {
    // J1, J3
    let shown: BTreeSet<&str> = CARRIED_OUT.iter().map(|(text, _)| text.split(' ').next().unwrap()).collect();
    for (container, row) in rows() {
        let name = container.map_or(row.name.to_string(), |container| format!("{container} {}", row.name));
        let is_of_keys = matches!(row.run, Run::Keys(_) | Run::Fast(..));
        // Nobody would answer for the other servers, or for the connection that closes.
        if !is_of_keys && ["quit", "reset", "publish", "spublish", "pubsub"].contains(&&name[..]) {
            continue;
        }
        let words = name.split(' ').count();
        let args = " k".repeat(usize::try_from(row.arity.abs()).unwrap().saturating_sub(words));
        let mut rig = rig();
        let (before, asked) = (rig.bricks.ask_count, rig.described);
        let said = rig.ask(A, &format!("{name}{args}"));
        let is_refused = said.starts_with("-ERR") && said.contains("quorum table");
        match row.on_quorum() {
            OnQuorum::No => {
                assert!(is_refused, "{name}: {said}");
                let shown = name.to_ascii_uppercase();
                assert!(
                    said.contains(&format!("{shown} ")) || said.contains(&format!(" {shown},")),
                    "{said}"
                );
                assert!(said.contains("use an ordinary table"), "{said}");
                assert_eq!((rig.bricks.ask_count, rig.described), (before, asked), "{name} asks nobody");
            }
            OnQuorum::Yes | OnQuorum::EachKey | OnQuorum::ReadFirst | OnQuorum::Unconditional => {
                assert!(!is_refused, "{name}: {said}");
                assert_eq!(shown.contains(&name[..]), is_of_keys, "{name} is shown above");
            }
            OnQuorum::AllSlotsHere | OnQuorum::Aborts => assert!(!is_refused, "{name}: {said}"),
        }
        assert_eq!(rig.shelf.asked, [""; 0], "{name}");
        assert_eq!(rig.bricks.values("k").is_empty(), !["set", "mset"].contains(&&name[..]), "{name}");
    }
}

#[test]
fn a_set_that_depends_on_the_key_is_refused_as_a_whole() {
    // J3
    let mut rig = rig();
    rig.ask(A, "set k old");
    let before = rig.bricks.ask_count;
    for option in ["nx", "xx", "ifeq old", "ifver 1", "get", "keepttl", "ex 9 nx", "nx get"] {
        let said = rig.ask(A, &format!("set k new {option}"));
        let text = "-ERR SET with NX, XX, IFEQ, IFVER, GET or KEEPTTL needs a condition, which the quorum table \
                    'carts' does not take; use an ordinary table\r\n";
        assert_eq!(said, text, "{option}");
    }
    assert_eq!(rig.ask(A, "set k new nx xx"), "-ERR syntax error\r\n");
    assert_eq!(rig.bricks.ask_count, before);
    assert_eq!(rig.ask(A, "get k"), "$3\r\nold\r\n");
}

#[test]
fn a_transaction_is_refused_before_anything_of_it_is_done() {
    // J3
    let mut rig = rig();
    let said = rig.ask(A, "multi\nset k 1\nget k\nexec\nget k");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "+OK");
    assert!(lines[1].starts_with("-ERR SET inside MULTI needs a condition"), "{said}");
    assert!(lines[3].starts_with("-EXECABORT"), "{said}");
    assert_eq!(lines[4], "$-1");
    // The database may be chosen between MULTI and EXEC, in both directions.
    let said = rig.ask(A, "multi\nselect 0\nset k 1\nexec");
    assert_eq!(said, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(rig.shelf.objects[&b"k"[..]].1, b"1");
    let said = rig.ask(A, "multi\nset k 2\nselect 1\nset k 2\nexec\nget k");
    assert!(said.contains("-ERR SET inside MULTI"), "{said}");
    assert!(said.contains("-EXECABORT") && said.ends_with("$1\r\n1\r\n"), "{said}");
    assert_eq!(rig.ask(A, "select 1\nwatch k").lines().count(), 2);
}

#[test]
fn a_front_that_does_not_know_the_table_yet_refuses_all_the_same() {
    // J3
    let text = "needs a condition, which the quorum table 'carts' does not take; use an ordinary table\r\n";
    for (commands, last) in [
        ("select 1\nincr k", "-ERR INCR"),
        ("select 1\nappend k x", "-ERR APPEND"),
        ("select 1\nwatch k", "-ERR WATCH"),
        ("select 1\nmulti\nset k 1\nexec", "-ERR EXEC"),
        ("multi\nset {k}a 1\nselect 1\nset {k}b 1\nexec", "-ERR EXEC"),
        ("set k 1\nmove k 1", "-ERR MOVE"),
        ("set k 1\ncopy k k2{k} db 1", "-ERR COPY"),
    ] {
        let mut rig = Rig::with(|config| {
            config.tables = vec![(1, CARTS.into())];
            config.cross_slot = CrossSlot::Allow;
        });
        let said = rig.ask(A, commands);
        let (_, end) = said.split_at(said.find(last).unwrap_or_else(|| panic!("{commands}: {said}")));
        assert_eq!(end, format!("{last} {text}"), "{commands}");
        assert_eq!(rig.bricks.write_count, 0);
        assert!(rig.shelf.objects.len() <= 1, "{commands}");
    }
}

#[test]
fn requests_of_a_connection_take_effect_in_their_order() {
    // J1
    let mut rig = rig();
    let said = rig.ask(A, "set k 1\nget k\nset k 2\ndel k\nget k\nset k 3\nstrlen k\nping");
    assert_eq!(said, "+OK\r\n$1\r\n1\r\n+OK\r\n:1\r\n$-1\r\n+OK\r\n:1\r\n+PONG\r\n");
}

#[test]
fn a_silent_brick_is_not_noticed() {
    // I1, J1
    for silent in 21..=23 {
        let mut rig = rig();
        rig.bricks.silent = vec![silent];
        rig.feed(A, b"set k 1\r\nget k\r\nmset a 1 b 2\r\nmget a b\r\ndel a b k\r\n");
        rig.pass(Duration::from_secs(3));
        let said = rig.said(A);
        assert_eq!(said, "+OK\r\n$1\r\n1\r\n+OK\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n:3\r\n", "without {silent}");
    }
}

#[test]
fn a_front_that_was_never_asked_finds_its_quorum_table_without_the_coordinator() {
    // I1, J1: this server was told where bricks are.
    let mut rig = Rig::with(|config| config.tables = vec![(1, CARTS.into())]);
    rig.is_coordinator_silent = true;
    rig.shelf.bricks = vec![address_of(22)];
    rig.feed(A, b"select 1\r\nset k 1\r\nget k\r\n");
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.said(A), "+OK\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn too_few_bricks_end_a_command_with_their_names() {
    // J1, B1
    let mut rig = rig();
    rig.bricks.silent = vec![21, 23];
    rig.feed(A, b"get k\r\n");
    rig.pass(Duration::from_secs(11));
    let said = rig.said(A);
    assert!(
        said.starts_with("-NOQUORUM too few of the key's bricks answer: 1 of the key's 3 bricks"),
        "{said}"
    );
    assert!(said.contains("10.0.1.21:1") && said.contains("10.0.1.23:1"), "{said}");
}

#[test]
fn an_unknown_outcome_comes_with_its_token() {
    // I3, J1
    for (command, is_removal) in [("set k 1 ex 50", false), ("mset k 1 k2 1", false), ("del k", true)] {
        let mut rig = rig();
        rig.ask(B, "select 1\nset k 0");
        rig.bricks.lossy = vec![21, 22, 23];
        rig.feed(A, format!("{command}\r\n").as_bytes());
        rig.pass(Duration::from_secs(11));
        let said = rig.said(A);
        let mut words = said.split(' ');
        assert_eq!(words.next(), Some("-UNKNOWN"), "{said}");
        let token: Token = words.next().unwrap().parse().unwrap();
        assert_eq!((token.key(), token.is_removal()), (&b"k"[..], is_removal));
        rig.bricks.lossy.clear();
        assert_eq!(rig.ask(A, "get k"), if is_removal { "$-1\r\n" } else { "$1\r\n1\r\n" });
    }
}

#[test]
fn an_outcome_that_nobody_will_ever_know_has_a_dash_in_place_of_the_token() {
    // I3, J1: one brick has stored it, one has refused it, one no longer knows. The bricks are those of rule 5.
    let mut rig = rig();
    rig.ask(A, "set k 0");
    rig.bricks.torn = true;
    let said = rig.ask(A, "set k 1");
    let text = "-UNKNOWN - it may have been done, or not: the key was written again since, so nobody can tell any \
                more\r\n";
    assert_eq!(said, text);
    assert!("-".parse::<Token>().is_err(), "nobody takes it for a token");
}

#[test]
fn an_emptied_table_is_found_again() {
    // A1, J1
    let mut rig = rig();
    assert_eq!(rig.ask(A, "set k 1\nflushdb\nget k"), "+OK\r\n+OK\r\n$-1\r\n");
    // Another server has emptied it.
    rig.ask(A, "mset k 1 l 1");
    rig.bricks.replace();
    rig.feed(A, b"get k\r\n");
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.said(A), "$-1\r\n");
    rig.ask(A, "set k 1");
    rig.bricks.replace();
    rig.feed(A, b"del k\r\nexists k l\r\n");
    rig.pass(Duration::from_secs(3));
    assert_eq!(rig.said(A), ":0\r\n:0\r\n");
}

#[test]
fn a_write_that_was_sent_to_a_table_that_is_gone_is_unknown_once() {
    // I3, J1: bricks that have not heard of the drop may have stored it, and shown it to others.
    let mut rig = rig();
    rig.ask(A, "set k 1");
    rig.bricks.replace();
    rig.feed(A, b"set k 2\r\nset l 2\r\n");
    rig.pass(Duration::from_secs(11));
    assert_eq!(rig.said(A).matches("-UNKNOWN ").count(), 2);
    rig.feed(A, b"set k 3\r\nget k\r\n");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.said(A), "+OK\r\n$1\r\n3\r\n");
}

#[test]
fn a_command_over_several_keys_tells_the_error_of_one() {
    // J3
    let mut rig = rig();
    rig.bricks.stuck = vec!["b"];
    rig.feed(A, b"mset a 1 b 1 c 1\r\n");
    rig.pass(Duration::from_secs(11));
    let said = rig.said(A);
    assert!(said.starts_with("-UNKNOWN ") && said.lines().count() == 1, "{said}");
    let token: Token = said.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(token.key(), b"b");
    assert_eq!(rig.ask(A, "mget a c"), "*2\r\n$1\r\n1\r\n$1\r\n1\r\n", "the others are done");
    rig.feed(A, b"mget a b\r\n");
    rig.pass(Duration::from_secs(11));
    assert!(rig.said(A).starts_with("-NOQUORUM "));
}

#[test]
fn an_ordinary_table_may_take_the_place_of_a_quorum_table() {
    // A1, J1
    let mut rig = rig();
    rig.ask(A, "set k 1");
    rig.bricks.is_over = true;
    rig.feed(A, b"get k\r\n");
    rig.pass(Duration::from_secs(3));
    let said = rig.said(A);
    assert!(said.starts_with("-TRYAGAIN the table of the database was replaced"), "{said}");
    assert_eq!(rig.ask(A, "incr k\nget k"), ":1\r\n$1\r\n1\r\n");
    assert_eq!(rig.shelf.asked, ["increment k", "read k"]);
}

#[test]
fn values_have_their_ends() {
    // A12
    let mut rig = rig();
    rig.ask(A, "set k 1 ex 5\nset l 1 pxat 1700000004000");
    assert_eq!(rig.bricks.values("k"), [(&b"1"[..], Some(NOW + 5000)); 3]);
    assert_eq!(rig.bricks.values("l"), [(&b"1"[..], Some(NOW + 4000)); 3]);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.ask(A, "mget k l\nttl k"), "*2\r\n$-1\r\n$-1\r\n:-2\r\n");
    assert_eq!(rig.bricks.values("k"), [], "a tombstone stands in its place");
}

#[test]
fn clients_of_redis_cluster_stay_at_the_server_that_they_ask() {
    // J3
    let mut rig = Rig::with(|config| config.tables = vec![(0, CARTS.into())]);
    let said = rig.ask(A, "cluster slots");
    assert!(said.starts_with("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.0.0.1\r\n:1\r\n"), "{said}");
    assert!(rig.ask(A, "cluster shards").contains("*2\r\n:0\r\n:16383\r\n"));
    assert!(rig.ask(A, "cluster nodes").contains("myself,master - 0 0 1 connected 0-16383\n"));
    assert_eq!(rig.ask(A, "set k 1\nget k"), "+OK\r\n$1\r\n1\r\n");
    assert_eq!(rig.shelf.asked, [""; 0]);
}

/// The cursor and the keys of a page, or of `KEYS` behind no cursor.
fn words(reply: &str) -> Vec<String> {
    reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

/// The keys that a walk shows, sorted, each as often as it comes, and the number of its pages.
fn walked(rig: &mut Rig, conn: ConnId, options: &str) -> (Vec<String>, usize) {
    let (mut met, mut cursor, mut pages) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let page = rig.ask(conn, &format!("scan {cursor}{options}"));
        let mut words = words(&page).into_iter();
        cursor = words.next().unwrap();
        met.extend(words);
        pages += 1;
        if cursor == "0" {
            met.sort();
            return (met, pages);
        }
    }
}

/// A table of 200 keys, with the keys, sorted. Beside them it has a removed key and one whose end has come.
fn rig_with_keys() -> (Rig, Vec<String>) {
    let mut rig = rig();
    let mut keys: Vec<String> = (0..200).map(|number| format!("key:{number}")).collect();
    keys.sort();
    rig.ask(A, &format!("mset removed 1 {}", keys.join(" 1 ") + " 1"));
    rig.ask(A, "del removed\nset ended 1 px 1000");
    rig.pass(Duration::from_secs(2));
    rig.said(A);
    (rig, keys)
}

#[test]
fn walks_show_every_key_once_and_nothing_else() {
    // A6, J1: the table has two tablets.
    let (mut rig, keys) = rig_with_keys();
    let (met, pages) = walked(&mut rig, A, " count 7");
    assert_eq!(met, keys);
    assert!(pages >= 200 / 7, "{pages}");
    assert!(walked(&mut rig, A, "").1 >= 200 / 10, "ten at a time, if the client does not say how many");
    assert_eq!(walked(&mut rig, A, " count 100000000000").0, keys);
    let some: Vec<String> = keys.iter().filter(|key| key.starts_with("key:1")).cloned().collect();
    assert_eq!(walked(&mut rig, A, " match key:1* count 9").0, some);
    assert_eq!(walked(&mut rig, A, " match key:1* type string").0, some);
    assert_eq!(walked(&mut rig, A, " type list count 50").0, [""; 0]);
    let mut found = words(&rig.ask(A, "keys key:1*"));
    found.sort();
    assert_eq!(found, some);
    assert_eq!(rig.ask(A, "dbsize"), ":200\r\n");
    let drawn: BTreeSet<String> = (0..40).map(|_| words(&rig.ask(A, "randomkey")).remove(0)).collect();
    assert!(drawn.len() > 10 && drawn.iter().all(|key| keys.contains(key)), "{drawn:?}");
    assert_eq!(rig.ask(A, "flushdb\nrandomkey\ndbsize\nkeys *"), "+OK\r\n$-1\r\n:0\r\n*0\r\n");
    for (wrong, fault) in
        [("x", "ERR invalid cursor"), ("0 count 0", "ERR syntax error"), ("0 match", "ERR syntax error")]
    {
        assert_eq!(rig.ask(A, &format!("scan {wrong}")), format!("-{fault}\r\n"));
    }
    assert_eq!(rig.shelf.asked, [""; 0], "masters have nothing to do with it");
}

#[test]
fn a_walk_shows_a_key_that_is_there_all_the_time_whatever_else_changes() {
    // A6, J1
    let (mut rig, keys) = rig_with_keys();
    let (mut met, mut cursor, mut round) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let page = rig.ask(A, &format!("scan {cursor} count 20"));
        let mut words = words(&page).into_iter();
        cursor = words.next().unwrap();
        met.extend(words);
        round += 1;
        rig.ask(A, &format!("set new:{round} 1\nset key:0 {round}\ndel new:{}", round / 2));
        if cursor == "0" {
            break;
        }
    }
    assert!(keys.iter().all(|key| met.contains(key)));
}

#[test]
fn walks_go_on_without_one_brick_and_end_without_two() {
    // I1, J1
    for silent in 21..=23 {
        let (mut rig, keys) = rig_with_keys();
        rig.bricks.silent = vec![silent];
        rig.feed(A, b"keys *\r\n");
        rig.pass(Duration::from_secs(3));
        let mut found = words(&rig.said(A));
        found.sort();
        assert_eq!(found, keys, "without {silent}");
    }
    let (mut rig, _) = rig_with_keys();
    rig.bricks.silent = vec![21, 22];
    for command in ["scan 0", "keys *", "dbsize", "randomkey"] {
        rig.feed(A, format!("{command}\r\n").as_bytes());
        rig.pass(Duration::from_secs(11));
        let said = rig.said(A);
        assert!(said.starts_with("-NOQUORUM ") && said.lines().count() == 1, "{command}: {said}");
        assert!(said.contains("10.0.1.21:1") && said.contains("10.0.1.22:1"), "{command}: {said}");
    }
}

#[test]
fn a_walk_begins_anew_in_the_table_that_took_the_place() {
    // A6, J1
    let (mut rig, _) = rig_with_keys();
    let cursor = words(&rig.ask(A, "scan 0 count 50")).remove(0);
    rig.bricks.replace();
    rig.feed(A, format!("scan {cursor} count 50\r\ndbsize\r\n").as_bytes());
    rig.pass(Duration::from_secs(3));
    let said = rig.said(A);
    assert!(said.ends_with(":0\r\n") && !said.contains("key:"), "{said}");
    rig.ask(A, "set only 1");
    assert_eq!(walked(&mut rig, A, "").0, ["only"]);
}

#[test]
fn a_client_of_redis_cluster_walks_over_all_keys_of_a_quorum_table() {
    // A6, J3: the server that it asks tells it that all slots are there.
    let mut rig = Rig::with(|config| {
        config.tables = vec![(0, CARTS.into())];
        config.cluster_port = Some(9401);
    });
    let address = |port: u16| std::net::SocketAddr::from(([10, 0, 0, 1], port));
    rig.shelf.cluster_address = Some(address(9401));
    rig.resp.on_met(rig.now, B, Some((address(50_002), address(9401))), &rig.shelf);
    assert_eq!(rig.ask(B, "mset a 1 b 2 c 3"), "+OK\r\n");
    assert!(rig.ask(B, "hello").contains("\r\ncluster\r\n"));
    assert_eq!(walked(&mut rig, B, "").0, ["a", "b", "c"]);
    assert_eq!(rig.ask(B, "dbsize"), ":3\r\n");
}

#[test]
fn keys_that_are_asked_for_are_counted() {
    // J1
    let mut rig = rig();
    rig.ask(ConnId(9), "select 1\nset k 1\nmget k k nothing\nget k\nstrlen nothing");
    let stats = rig.resp.stats();
    assert_eq!((stats.hits, stats.misses), (3, 1 + 2));
}

#[test]
fn commands_that_write_and_are_carried_out_never_read() {
    // J3: between a read and a write another client's write may fall.
    for (container, row) in rows().filter(|(_, row)| matches!(row.run, Run::Keys(_) | Run::Fast(..))) {
        let writes = row.flags.has(Flags::WRITE);
        let expected = match row.on_quorum() {
            OnQuorum::EachKey => row.name == "mset" || !writes,
            OnQuorum::Yes => ["setex", "psetex"].contains(&row.name) || !writes,
            OnQuorum::ReadFirst => writes && ["del", "unlink"].contains(&row.name),
            OnQuorum::Unconditional => row.name == "set",
            OnQuorum::AllSlotsHere | OnQuorum::Aborts => false,
            OnQuorum::No => true,
        };
        assert!(expected, "{container:?} {}", row.name);
    }
}
