//! The front over a host that answers when the test says so: order, limits, transactions (J1, Z1, Z6, Z9).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod rig;

use ramhold_base::hash::slot_of;
use ramhold_base::*;
use ramhold_resp::CrossSlot;
use rig::{A, B, Rig};
use std::time::Duration;

#[test]
fn replies_come_in_the_order_of_requests() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "set a 1"), "+OK\r\n");
    rig.shelf.delays = true;
    // The first waits for replication; what is there at once waits behind it.
    assert_eq!(rig.ask(A, "get a\nping\nget b\nincr n"), "");
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n+PONG\r\n$-1\r\n:1\r\n");
}

// B1, J1: nothing waits for ever, and nothing waits without saying for what.
#[test]
fn a_command_that_this_server_cannot_answer_ends_with_the_reason() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "set a 2\nget b\nappend c x"), "");
    rig.pass(Duration::from_millis(9_999));
    assert_eq!(rig.said(A), "");
    rig.pass(Duration::from_millis(1));
    let said = rig.said(A);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("-UNKNOWN - it may have been done, or not: this server has waited 10.0s"),
        "{said}"
    );
    assert!(lines[1].starts_with("-TRYAGAIN"), "{said}");
    assert!(lines[2].starts_with("-TRYAGAIN"), "it has only read yet: {said}");
    assert_eq!(lines.len(), 3);
    // Answers that come later are for nobody, and the next command gets its own.
    rig.release();
    rig.shelf.delays = false;
    assert_eq!(rig.ask(A, "get a"), "$1\r\n2\r\n");
}

// J1: an answer to a part of a command that has failed already must not count the command's reply again: after many of
// them the connection would be held for ever.
#[test]
fn a_failed_command_gives_its_memory_back_whatever_comes_later() {
    let mut rig = Rig::with(|config| config.running_bytes_max = 256 << 10);
    rig.ask(A, "set b 1");
    for round in 0..4000 {
        rig.shelf.delays = true;
        assert_eq!(rig.ask(A, "get a\nlcs {b}1 {b}2"), "", "in round {round}");
        rig.shelf.waiting.rotate_left(1);
        rig.shelf.waiting[0].1 = Status::Corrupt;
        rig.release();
        let said = rig.said(A);
        assert!(said.starts_with("$-1\r\n-"), "in round {round}: {said}");
        rig.shelf.delays = false;
    }
}

// J1: a later request for the same key sees what the earlier one did, whatever steps that takes.
#[test]
fn requests_for_a_key_have_their_effects_in_order() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "append a 2\nget b\nget a\nappend a 3\nget a"), "");
    assert_eq!(rig.shelf.asked, ["read a", "read b"], "what concerns a waits; what does not has begun");
    let mut steps = 0;
    while rig.shelf.waiting.iter().len() > 0 {
        rig.release();
        steps += 1;
    }
    assert!(steps >= 5, "{steps}");
    assert_eq!(rig.said(A), ":2\r\n$-1\r\n$2\r\n12\r\n:3\r\n$3\r\n123\r\n");
}

// J1: MOVE and COPY concern a second database; what is asked there comes after them.
#[test]
fn a_request_in_another_database_waits_for_a_move_of_its_key() {
    let mut rig = Rig::new();
    rig.ask(A, "select 1\nget a\nselect 0\nset a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "move a 1\nselect 1\nset a 2"), "");
    assert_eq!(rig.shelf.asked, ["read a", "read a"], "in both databases, and nothing is written yet");
}

#[test]
fn what_was_changed_meanwhile_is_read_again() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "append a 2"), "");
    // Between its read and its write another client writes.
    rig.shelf.write(b"a", b"x");
    rig.release();
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), ":2\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"x2");
}

#[test]
fn transactions_run_together_or_not_at_all() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "multi\nset a 1\nincr a\nget a\nexec"),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n"
    );
    assert_eq!(rig.shelf.objects[&b"a"[..]], (Version(1), b"2".to_vec()), "one write");
    // A watched key that somebody else has changed.
    assert_eq!(rig.ask(A, "watch a"), "+OK\r\n");
    rig.shelf.write(b"a", b"7");
    assert_eq!(rig.ask(A, "multi\nset a 9\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"7");
    // And one that nobody has.
    assert_eq!(
        rig.ask(A, "watch a\nmulti\nincr a\nexec\nget a"),
        "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:8\r\n$1\r\n8\r\n"
    );
    // A command that could not be queued makes all of it void.
    let aborted = rig.ask(A, "multi\nset a 1\nnosuch\nexec\nget a");
    assert!(aborted.contains("-EXECABORT") && aborted.ends_with("$1\r\n8\r\n"), "{aborted}");
    // An error of one leaves the others.
    assert_eq!(
        rig.ask(A, "set s x\nmulti\nincr s\nset s y\nexec").matches("-ERR value is not an integer").count(),
        1
    );
    assert_eq!(rig.shelf.objects[&b"s"[..]].1, b"y");
}

const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

// J1: whether keys take effect together is decided by their slots, not by where they happen to be.
#[test]
fn keys_of_several_slots_are_refused_although_one_server_has_them() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "mset a 1 b 2"), "+OK\r\n", "each by itself");
    rig.shelf.asked.clear();
    for command in [
        "rename a b",
        "renamenx none b",
        "copy a b",
        "msetnx c 1 d 2",
        "bitop or a a b",
        "lcs a b",
        "watch a b",
    ] {
        assert!(rig.ask(A, command).starts_with(CROSS_SLOT), "{command}");
    }
    let queued = rig.ask(A, "multi\nset a 1\nmget a b\nexec");
    assert!(queued.starts_with(&format!("+OK\r\n+QUEUED\r\n{CROSS_SLOT}")), "{queued}");
    assert!(queued.ends_with("-EXECABORT Transaction discarded because of previous errors.\r\n"), "{queued}");
    let refused = rig.ask(A, "multi\nset a 1\nset b 2\nexec");
    assert!(refused.starts_with(&format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{CROSS_SLOT}")), "{refused}");
    let watched = rig.ask(A, "watch a\nmulti\nset b 2\nexec");
    assert!(watched.starts_with(&format!("+OK\r\n+OK\r\n+QUEUED\r\n{CROSS_SLOT}")), "{watched}");
    assert_eq!(rig.shelf.asked, ["read a"], "only WATCH has looked at anything");
    // One tag is one slot, and a transaction that was refused is over.
    assert_eq!(rig.ask(A, "mset {t}a 1 {t}b 2\nrename {t}a {t}b\nget {t}b"), "+OK\r\n+OK\r\n$1\r\n1\r\n");
    // A command that takes each key by itself takes any.
    assert_eq!(
        rig.ask(A, "mget a b\nexists a b\ntouch a b\ndel a b"),
        "*2\r\n$1\r\n1\r\n$1\r\n2\r\n:2\r\n:2\r\n:2\r\n"
    );
}

// J1: tables of databases are placed independently, so one slot of two databases is no place.
#[test]
fn keys_of_several_databases_are_refused_although_one_server_has_them() {
    let mut rig = Rig::new();
    rig.ask(A, "select 1\nget a\nselect 0\nset a 1");
    const REFUSED: &str = "-CROSSSLOT Keys in request are in several databases";
    assert!(rig.ask(A, "move a 1").starts_with(REFUSED));
    assert!(rig.ask(A, "copy a a db 1").starts_with(REFUSED));
    let refused = rig.ask(A, "multi\nset a 2\nselect 1\nset a 3\nexec");
    assert!(refused.contains(REFUSED), "{refused}");
    assert_eq!(rig.ask(A, "get a"), "$1\r\n1\r\n", "and the database is the same");
    let refused = rig.ask(A, "watch a\nselect 1\nmulti\nset a 3\nexec");
    assert!(refused.contains(REFUSED), "{refused}");
}

// J1
#[test]
fn keys_of_several_slots_take_effect_together_where_the_operator_allows_it() {
    let mut rig = Rig::with(|config| config.cross_slot = CrossSlot::Allow);
    assert_eq!(rig.ask(A, "mset a 1 b 2"), "+OK\r\n");
    assert_eq!(rig.shelf.asked, ["commit a b"], "together, where there is one server");
    assert_eq!(
        rig.ask(A, "rename a c\nmulti\nset b 3\nget c\nexec"),
        "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n"
    );
}

// J1: commands about the connection have their place in a transaction, and none if it has no effect.
#[test]
fn a_transaction_changes_its_connection_as_it_has_effect() {
    let mut rig = Rig::new();
    let queued = "+QUEUED\r\n".repeat(5);
    let want = format!("+OK\r\n{queued}*5\r\n+OK\r\n+OK\r\n$3\r\nbob\r\n$1\r\n1\r\n+OK\r\n");
    assert_eq!(rig.ask(A, "multi\nset a 1\nclient setname bob\nclient getname\nget a\nselect 2\nexec"), want);
    assert!(rig.ask(A, "client info").contains(" name=bob ") && rig.ask(A, "client info").contains(" db=2 "));
    rig.ask(A, "select 0\nwatch a");
    rig.shelf.write(b"a", b"7");
    assert!(rig.ask(A, "multi\nselect 3\nclient setname eve\nexec").ends_with("*-1\r\n"));
    let info = rig.ask(A, "client info");
    assert!(info.contains(" db=0 ") && info.contains(" name=bob "), "{info}");
}

const CLUSTER_PORT: u16 = 9401;

/// A server with two tablets of several, and a client at each of its ports: `A` at its own, `B` at the one for clients of
/// Redis Cluster. With the keys that it has.
fn rig_with_a_cluster_port() -> (Rig, Vec<String>) {
    let mut rig = Rig::with(|config| config.cluster_port = Some(CLUSTER_PORT));
    let slot = |slot: u64| KeyHash(slot << 50);
    rig.shelf.served =
        vec![(slot(1000), KeyHash(slot(5000).0 - 1)), (slot(9000), KeyHash(slot(12_000).0 - 1))];
    rig.shelf.cluster_address = Some(format!("10.0.0.1:{CLUSTER_PORT}").parse().unwrap());
    let address = |port: u16| format!("10.0.0.1:{port}").parse().unwrap();
    rig.resp.on_met(rig.now, A, Some((address(50_001), address(7401))), &rig.shelf);
    rig.resp.on_met(rig.now, B, Some((address(50_002), address(CLUSTER_PORT))), &rig.shelf);
    let all: Vec<String> = (0..100).map(|n| format!("key{n}")).collect();
    all.iter().for_each(|key| {
        rig.shelf.write(key.as_bytes(), b"v");
    });
    let is_ours = |key: &&String| matches!(slot_of(key.as_bytes()), 1000..5000 | 9000..12_000);
    let ours: Vec<String> = all.iter().filter(is_ours).cloned().collect();
    assert!(ours.len() > 20 && ours.len() < 60, "{}", ours.len());
    (rig, ours)
}

/// All keys that a client meets which goes on until the cursor is 0, sorted.
fn scanned(rig: &mut Rig, conn: ConnId) -> Vec<String> {
    let (mut met, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = rig.ask(conn, &format!("scan {cursor} count 1000"));
        let mut words = page.lines().filter(|line| !line.starts_with(['*', '$']));
        cursor = words.next().unwrap().to_owned();
        met.extend(words.map(str::to_owned));
        if cursor == "0" {
            met.sort();
            return met;
        }
    }
}

// J1: a client of Redis Cluster asks every server; together they show each key once.
#[test]
fn a_client_of_the_cluster_port_walks_over_the_keys_of_its_server_alone() {
    let (mut rig, mut ours) = rig_with_a_cluster_port();
    ours.sort();
    assert_eq!(scanned(&mut rig, B), ours);
    assert_eq!(rig.ask(B, "dbsize"), format!(":{}\r\n", ours.len()));
    let keys = rig.ask(B, "keys *");
    assert!(keys.starts_with(&format!("*{}\r\n", ours.len())), "{keys}");
    for _ in 0..50 {
        let key = rig.ask(B, "randomkey");
        assert!(ours.iter().any(|ours| key.ends_with(&format!("\n{ours}\r\n"))), "{key}");
    }
    // Clients of the server's own port see all keys of the cluster.
    assert_eq!(scanned(&mut rig, A).len(), 100);
    assert_eq!(rig.ask(A, "dbsize"), ":100\r\n");
    // A server without tablets has nothing to walk over.
    rig.shelf.served.clear();
    assert_eq!(scanned(&mut rig, B), Vec::<String>::new());
    assert_eq!(rig.ask(B, "dbsize\nrandomkey"), ":0\r\n$-1\r\n");
}

// J1: so it does not matter to which port a client of Redis Cluster comes first.
#[test]
fn slots_are_told_with_the_port_for_clients_of_redis_cluster() {
    let (mut rig, _) = rig_with_a_cluster_port();
    for conn in [A, B] {
        assert!(rig.ask(conn, "cluster slots").contains(&format!(":{CLUSTER_PORT}\r\n")));
        assert!(rig.ask(conn, "cluster shards").contains(&format!(":{CLUSTER_PORT}\r\n")));
        assert!(rig.ask(conn, "cluster nodes").contains(&format!(" 10.0.0.1:{CLUSTER_PORT}@")));
    }
    assert!(rig.ask(A, "hello").contains("\r\nstandalone\r\n"));
    assert!(rig.ask(B, "hello").contains("\r\ncluster\r\n"));
    assert!(rig.ask(A, "info").contains("redis_mode:standalone\r\n"));
    let info = rig.ask(B, "info");
    assert!(info.contains("redis_mode:cluster\r\n") && info.contains("cluster_enabled:1\r\n"), "{info}");
}

// J1
#[test]
fn an_unknown_command_is_told_what_there_is() {
    let mut rig = Rig::new();
    let said = rig.ask(A, "HSET key field value");
    assert!(said.starts_with("-ERR unknown command 'HSET' (Ramhold "), "{said}");
    assert!(
        said.contains(env!("CARGO_PKG_VERSION")) && said.contains("see docs/redis-commands.md)"),
        "{said}"
    );
}

// J1
#[test]
fn replies_that_the_client_does_not_want_are_left_out() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "client reply skip\nset a 1\nget a"), "$1\r\n1\r\n");
    assert_eq!(rig.ask(A, "client reply skip\nclient reply on\nget a"), "+OK\r\n$1\r\n1\r\n");
    assert_eq!(rig.ask(A, "client reply skip\nclient reply skip\nget a\nget a"), "$1\r\n1\r\n");
    assert_eq!(rig.ask(A, "client reply off\nset a 2\nget a\nnosuch\nmulti\nincr a\nexec"), "");
    // Messages and what leads to them come all the same.
    assert_eq!(rig.ask(A, "subscribe news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    rig.ask(B, "publish news hello");
    assert_eq!(rig.said(A), "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert!(rig.ask(A, "unsubscribe").starts_with("*3\r\n$11\r\nunsubscribe\r\n"));
    assert_eq!(rig.ask(A, "client reply skip\nclient reply on\nget a"), "+OK\r\n$1\r\n3\r\n");
    // A command still under way keeps its place, and a reply that is not wanted takes none.
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "get a\nclient reply skip\nget b\nget c"), "");
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n3\r\n$-1\r\n");
    rig.shelf.delays = false;
    rig.ask(A, "client reply off\nreset");
    assert_eq!(rig.ask(A, "ping"), "+PONG\r\n");
    assert!(rig.ask(A, "client reply maybe").starts_with("-ERR syntax error"));
}

// J1: shard channels have names of their own.
#[test]
fn messages_to_shard_channels_reach_their_own_subscribers() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "subscribe a"), "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(
        rig.ask(A, "ssubscribe a b"),
        "*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:2\r\n"
    );
    assert_eq!(rig.ask(B, "spublish a one"), ":1\r\n");
    assert_eq!(rig.said(A), "*3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$3\r\none\r\n");
    assert_eq!(rig.ask(B, "publish a two"), ":1\r\n");
    assert_eq!(rig.said(A), "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\ntwo\r\n");
    assert_eq!(rig.ask(B, "pubsub shardchannels"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    assert_eq!(rig.ask(B, "pubsub shardchannels b*"), "*1\r\n$1\r\nb\r\n");
    assert_eq!(rig.ask(B, "pubsub channels"), "*1\r\n$1\r\na\r\n");
    assert_eq!(rig.ask(B, "pubsub shardnumsub b c"), "*4\r\n$1\r\nb\r\n:1\r\n$1\r\nc\r\n:0\r\n");
    // A pattern is for channels.
    rig.ask(B, "psubscribe *");
    assert_eq!(rig.ask(A, "unsubscribe"), "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
    assert!(
        rig.ask(A, "get a").starts_with("-ERR Can't execute 'get'"),
        "it still listens to shard channels"
    );
    let told = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\n";
    assert_eq!(rig.ask(A, "sunsubscribe b a"), format!("{told}b\r\n:1\r\n{told}a\r\n:0\r\n"));
    assert_eq!(rig.ask(A, "spublish a three"), ":0\r\n");
    assert_eq!(rig.said(B), "");
    assert_eq!(rig.ask(A, "sunsubscribe"), "*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n");
}

// J1
#[test]
fn who_was_reset_listens_to_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "subscribe a\npsubscribe a*\nssubscribe a");
    assert_eq!(rig.ask(A, "reset"), "+RESET\r\n");
    assert_eq!(
        rig.ask(B, "publish a x\nspublish a x\npubsub numpat\npubsub channels"),
        ":0\r\n:0\r\n:0\r\n*0\r\n"
    );
    assert_eq!(rig.said(A), "");
}

// J1: a transaction's messages are told if it has its effect, after it.
#[test]
fn messages_of_a_transaction_go_out_when_it_has_its_effect() {
    let mut rig = Rig::new();
    rig.ask(B, "subscribe news");
    let heard = |text: &str| format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n{text}\r\n");
    rig.shelf.delays = true;
    assert_eq!(
        rig.ask(A, "multi\nset a 1\npublish news 1\nspublish news 2\nexec"),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
    );
    assert_eq!(rig.said(B), "", "it is not replicated yet");
    rig.release();
    assert_eq!(rig.said(A), "*3\r\n+OK\r\n:1\r\n:0\r\n");
    assert_eq!(rig.said(B), heard("1"));
    rig.shelf.delays = false;
    rig.ask(A, "watch a");
    rig.shelf.write(b"a", b"7");
    assert!(rig.ask(A, "multi\npublish news 3\nexec").ends_with("*-1\r\n"));
    assert!(rig.ask(A, "multi\npublish news 4\nnosuch\nexec").contains("-EXECABORT"));
    assert!(rig.ask(A, "multi\npublish news 5\nsubscribe b\nexec").contains("-EXECABORT"));
    assert_eq!(rig.said(B), "");
    assert!(rig.ask(A, "multi\npublish news 6\nexec").ends_with("*1\r\n:1\r\n"));
    assert_eq!(rig.said(B), heard("6"));
}

// J1: names that clients and their tests read.
#[test]
fn info_has_what_clients_read() {
    let mut rig = Rig::with(|config| config.process.id = 77);
    rig.ask(A, "set a 1");
    let info = rig.ask(A, "info");
    for line in [
        "redis_version:7.",
        "redis_mode:standalone\r\n",
        "os:",
        "arch_bits:64\r\n",
        "process_id:77\r\n",
        "tcp_port:",
        "uptime_in_seconds:",
        "connected_clients:1\r\n",
        "blocked_clients:0\r\n",
        "used_memory:",
        "used_memory_human:",
        "maxmemory_policy:noeviction\r\n",
        "loading:0\r\n",
        "total_commands_processed:",
        "role:master\r\n",
        "connected_slaves:0\r\n",
        "cluster_enabled:0\r\n",
        "db0:keys=1,expires=0,avg_ttl=0\r\n",
    ] {
        assert!(info.contains(&format!("\r\n{line}")), "{line}");
    }
}

// C11: a number that cannot be known is not made up.
#[test]
fn keys_are_counted_one_by_one_where_objects_were_lost() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "mset a 1 b 2 c 3\ndbsize"), "+OK\r\n:3\r\n");
}

#[test]
fn slow_commands_are_told_by_latency_and_slowlog() {
    let mut rig = Rig::new();
    let slow = |rig: &mut Rig, lines: &str, millis: u64| {
        rig.shelf.delays = true;
        rig.ask(A, lines);
        rig.now = rig.now + std::time::Duration::from_millis(millis);
        while !rig.shelf.waiting.is_empty() {
            rig.release();
        }
        rig.said(A);
        rig.shelf.delays = false;
    };
    rig.ask(A, "set a 1");
    slow(&mut rig, "get a", 2000);
    assert_eq!(rig.ask(A, "latency latest\nlatency history fast-command"), "*0\r\n*0\r\n");
    assert!(rig.ask(A, "slowlog get").contains(":1700000002\r\n:2000000\r\n"), "when and how long");
    assert_eq!(rig.ask(A, "config set latency-monitor-threshold 100"), "+OK\r\n");
    slow(&mut rig, "get a", 99);
    assert_eq!(rig.ask(A, "latency latest"), "*0\r\n");
    slow(&mut rig, "get a", 301);
    slow(&mut rig, "get a", 100);
    slow(&mut rig, "get a", 1000);
    let latest = "*1\r\n*4\r\n$12\r\nfast-command\r\n:1700000003\r\n:1000\r\n:1000\r\n";
    assert_eq!(rig.ask(A, "latency latest"), latest);
    let history = "*2\r\n*2\r\n:1700000002\r\n:301\r\n*2\r\n:1700000003\r\n:1000\r\n";
    assert_eq!(
        rig.ask(A, "latency history fast-command\nlatency history command"),
        format!("{history}*0\r\n")
    );
    assert!(rig.ask(A, "latency doctor").contains("at most 1000 ms"));
    assert_eq!(rig.ask(A, "latency reset nosuch\nlatency reset\nlatency latest"), ":0\r\n:1\r\n*0\r\n");
}

// J1: what is said of databases is what is here; what nobody knows is not said.
#[test]
fn info_tells_the_keys_of_databases() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "info keyspace"), "$12\r\n# Keyspace\r\n\r\n");
    rig.ask(A, "mset a 1 b 2");
    assert_eq!(rig.ask(A, "info keyspace"), "$44\r\n# Keyspace\r\ndb0:keys=2,expires=0,avg_ttl=0\r\n\r\n");
    rig.shelf.has_losses = true;
    assert_eq!(rig.ask(A, "info keyspace"), "$12\r\n# Keyspace\r\n\r\n");
}

#[test]
fn every_key_that_is_read_is_a_hit_or_a_miss() {
    let mut rig = Rig::new();
    let counts = |rig: &mut Rig| {
        let info = rig.ask(B, "info stats");
        let number = |name: &str| -> u64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.parse().unwrap()
        };
        [number("keyspace_hits:"), number("keyspace_misses:")]
    };
    rig.ask(A, "mset a 1 b 2\nincr n");
    assert_eq!(counts(&mut rig), [0, 0]);
    for (lines, want) in [
        ("get a\nget x", [1, 1]),
        ("mget a b x", [2, 1]),
        ("exists a x", [1, 1]),
        ("strlen a\nttl x", [1, 1]),
        ("multi\nget a\nget {a}x\nset a 2\nexec", [1, 1]),
    ] {
        rig.ask(A, lines);
        assert_eq!(counts(&mut rig), want, "{lines}");
        rig.shelf.delays = true;
        rig.ask(A, lines);
        while !rig.shelf.waiting.is_empty() {
            rig.release();
        }
        rig.said(A);
        rig.shelf.delays = false;
        assert_eq!(counts(&mut rig), [2 * want[0], 2 * want[1]], "{lines}, answered later");
        rig.ask(B, "config resetstat");
    }
}

#[test]
fn errors_come_as_far_as_redis_reads() {
    let mut rig = Rig::new();
    rig.ask(A, "client setname bob");
    assert!(
        rig.ask(A, "hello 3 setname eve nosuch").starts_with("-ERR Syntax error in HELLO option 'nosuch'")
    );
    assert_eq!(rig.ask(A, "client getname"), "$3\r\neve\r\n", "named, and not of version 3");
    assert!(rig.ask(A, "config set NoSuch 1").ends_with("- 'NoSuch'\r\n"));
}

// J1: seed 652035 of the simulator. A client that was told that its WATCH failed has nothing that a later EXEC of its
// could fail by.
#[test]
fn a_watch_that_came_too_late_watches_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "watch a"), "");
    rig.now = rig.now + Duration::from_secs(3600);
    rig.release();
    assert!(rig.said(A).starts_with("-TRYAGAIN "));
    rig.shelf.delays = false;
    rig.shelf.write(b"a", b"2");
    assert_eq!(rig.ask(A, "multi\nget a\nexec"), "+OK\r\n+QUEUED\r\n*1\r\n$1\r\n2\r\n");
}

#[test]
fn who_watches_is_not_disturbed_by_what_changes_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a v\nwatch a");
    rig.ask(B, "bitfield a incrby u1 #4 2 set u8 0 118\nsetbit a 0 0");
    assert_eq!(rig.ask(A, "multi\nexec\nwatch a"), "+OK\r\n*0\r\n+OK\r\n");
    rig.ask(B, "bitfield a set u8 0 119 set u8 0 118");
    assert_eq!(rig.ask(A, "multi\nexec"), "+OK\r\n*-1\r\n");
    assert_eq!(rig.ask(A, "client kill user \"a\\x00b\""), "-ERR No such user 'a'\r\n");
}

#[test]
fn clients_are_ended_by_what_they_are() {
    let mut rig = Rig::new();
    let (c, own) = (ConnId(3), |rig: &mut Rig| rig.ask(A, "client id"));
    assert_eq!(own(&mut rig), ":1\r\n");
    rig.ask(B, "subscribe news");
    rig.ask(c, "ping");
    for (options, want) in [
        ("id 0", "-ERR client-id should be greater than 0\r\n"),
        ("user nobody", "-ERR No such user 'nobody'\r\n"),
        ("type nosuch", "-ERR Unknown client type 'nosuch'\r\n"),
        ("skipme maybe", "-ERR syntax error\r\n"),
        ("type normal id", "-ERR syntax error\r\n"),
        ("type master", ":0\r\n"),
        ("id 1", ":0\r\n"),
        ("id 3 type pubsub", ":0\r\n"),
    ] {
        assert_eq!(rig.ask(A, &format!("client kill {options}")), want, "{options}");
    }
    assert!(rig.closed.is_empty());
    assert_eq!(rig.ask(A, "client kill type pubsub user default"), ":1\r\n");
    assert_eq!(rig.closed, [B]);
    rig.resp.on_closed(B);
    assert_eq!(rig.ask(A, "client kill type normal skipme no"), ":2\r\n");
    assert!(rig.closed.contains(&A) && rig.closed.contains(&c), "{:?}", rig.closed);
}

// J1: where connections come from, as CLIENT LIST tells it and CLIENT KILL takes it.
#[test]
fn clients_are_ended_by_their_addresses() {
    let mut rig = Rig::new();
    let address = |text: &str| -> std::net::SocketAddr { text.parse().unwrap() };
    let own = address("10.0.0.1:6379");
    rig.resp.on_met(rig.now, A, Some((address("10.1.1.1:5000"), own)), &rig.shelf);
    rig.resp.on_met(rig.now, B, Some((address("10.1.1.2:5000"), own)), &rig.shelf);
    rig.ask(B, "ping");
    let list = rig.ask(A, "client list");
    assert!(list.contains("id=1 addr=10.1.1.1:5000 laddr=10.0.0.1:6379 "), "{list}");
    assert!(list.contains("id=2 addr=10.1.1.2:5000 laddr=10.0.0.1:6379 "), "{list}");
    assert_eq!(rig.ask(A, "client kill 10.1.1.3:5000"), "-ERR No such client\r\n");
    assert_eq!(rig.ask(A, "client kill addr 10.1.1.2:5001"), ":0\r\n");
    assert_eq!(rig.ask(A, "client kill addr 10.1.1.2:5000 id 1"), ":0\r\n");
    assert_eq!(rig.ask(A, "client kill 10.1.1.2:5000"), "+OK\r\n");
    assert_eq!(rig.closed, [B]);
    rig.resp.on_closed(B);
    assert_eq!(rig.ask(A, "client kill laddr 10.0.0.1:6379 skipme no"), ":1\r\n");
    assert_eq!(rig.closed, [B, A]);
}

// J1: what several keys are read for or changed in has effect at one moment.
#[test]
fn several_keys_are_committed_as_one() {
    let mut rig = Rig::with(|config| config.cross_slot = CrossSlot::Allow);
    rig.ask(A, "set a 1\nset b 2");
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "rename a c\nmultinone\nmsetnx c 1 d 2\nmsetnx d 1 e 2").matches("+OK").count(), 1);
    assert_eq!(rig.ask(A, "mget a b c d e"), "*5\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert!(rig.shelf.asked.contains(&"commit a c".to_owned()), "{:?}", rig.shelf.asked);
    // One of two watched keys is changed between the reading and the commit: nothing is done.
    rig.ask(A, "watch b c");
    rig.shelf.delays = true;
    rig.ask(A, "multi\nset b x\nset c y\nexec");
    rig.shelf.write(b"c", b"z");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    assert!(rig.said(A).ends_with("*-1\r\n"));
    assert_eq!(rig.shelf.objects[&b"b"[..]].1, b"2");
}

// J1: what comes behind a transaction in a pipeline comes after it.
#[test]
fn what_runs_alone_is_over_before_the_next_begins() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "watch a\nmulti\ndiscard\nset a 2\nmulti\nget a\nselect 3\nexec\nselect 0\nget a");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    let said = rig.said(A);
    assert!(said.ends_with("*2\r\n$1\r\n2\r\n+OK\r\n+OK\r\n$1\r\n2\r\n"), "{said}");
    rig.shelf.delays = false;
    assert!(rig.ask(A, "client info").contains(" db=0 "));
}

#[test]
fn many_keys_of_one_command_go_together() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "mset a 1 b 2 a 3\nmget a b c\ndel a b c a\nexists a"),
        "+OK\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$-1\r\n:2\r\n:0\r\n"
    );
}

// Z1: any split of the same bytes gives the same replies.
#[test]
fn cuts_change_no_reply() {
    let requests = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nwx\r\nget k\r\n*2\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n\
        *3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\n!\r\nMULTI\r\nget k\r\nincr n\r\nEXEC\r\nhello 3\r\nget none\r\n*1\r\n:5\r\n";
    let mut whole = Rig::new();
    whole.feed(A, requests);
    let want = whole.said(A);
    assert!(want.contains("Protocol error") && want.contains("_\r\n") && whole.closed == [A], "{want}");
    for cut in 1..requests.len() {
        let mut rig = Rig::new();
        rig.feed(A, &requests[..cut]);
        rig.feed(A, &requests[cut..]);
        assert_eq!(rig.said(A), want, "cut at {cut}");
    }
    let mut rig = Rig::new();
    requests.iter().for_each(|byte| rig.feed(A, &[*byte]));
    assert_eq!(rig.said(A), want);
}

// Z6: what a connection may have under way is bounded; the rest is not taken, and comes later.
#[test]
fn a_connection_is_held_when_too_much_is_under_way() {
    let mut rig = Rig::with(|config| config.running_count_max = 10);
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    rig.feed(A, "get a\r\n".repeat(25).as_bytes());
    assert_eq!(rig.shelf.asked.len(), 10);
    assert_eq!(rig.held, [A]);
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n".repeat(25));
    assert!(rig.held.is_empty());
}

// Z9: a stranger may say little, and gets little.
#[test]
fn who_has_not_given_the_password_may_say_little() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    for line in ["get a", "set a 1", "config get *", "client list", "subscribe x", "multi", "info", "command"]
    {
        assert!(rig.ask(A, line).starts_with("-NOAUTH"), "{line}");
    }
    assert!(rig.ask(A, "auth wrong").starts_with("-WRONGPASS"));
    assert!(rig.ask(A, "hello 3").starts_with("-NOAUTH"));
    assert_eq!(rig.ask(A, "auth secret\nset a 1"), "+OK\r\n+OK\r\n");
    rig.feed(B, b"*11\r\n");
    assert!(rig.said(B).contains("invalid multibulk length") && rig.closed == [B]);
    let c = ConnId(3);
    rig.feed(c, b"*2\r\n$4\r\nECHO\r\n$5000\r\n");
    assert!(rig.said(c).contains("invalid bulk length"));
}

// Z9: every command there is, told to a stranger.
#[test]
fn a_stranger_is_refused_every_command_but_those_to_become_known() {
    let mut allowed = Vec::new();
    for row in ramhold_resp::commands::ALL {
        let mut rig = Rig::with(|config| config.password = Some("secret".into()));
        // As many arguments as it takes at least; a subcommand's name has both words.
        let mut line = row.name.replace('|', " ");
        while line.split(' ').count() < row.arity.unsigned_abs() as usize {
            line += " x";
        }
        let said = rig.ask(A, &line);
        // As to Redis, what is no command is that to a stranger, too.
        let is_refused =
            said.contains("NOAUTH Authentication required.") || said.contains("unknown subcommand");
        if !(said.starts_with('-') && is_refused) {
            allowed.push(row.name);
        }
        assert!(rig.shelf.asked.is_empty(), "{line}");
    }
    assert_eq!(allowed, ["auth", "hello", "quit", "reset"]);
}

// Z9: who is told much without fetching it, and never says the password, is not told more.
#[test]
fn a_stranger_is_not_told_much() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    for _ in 0..10_000 {
        rig.feed(A, &b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(20));
        if rig.closed == [A] {
            break;
        }
    }
    assert_eq!(rig.closed, [A]);
    let told = rig.said(A).len();
    assert!((64 * 1024..80 * 1024).contains(&told), "{told} bytes");
    let many = "auth secret\n".to_owned() + &"get a\n".repeat(20_000);
    assert!(rig.ask(B, &many).ends_with("$-1\r\n$-1\r\n") && rig.closed == [A], "who is known is told all");
}

// Z7, Z9: a stranger has ten seconds, however busy; who was known and is a stranger again has them anew.
#[test]
fn who_does_not_give_the_password_is_shut_out() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    let c = ConnId(3);
    rig.ask(A, "get a");
    rig.ask(B, "auth secret");
    rig.ask(c, "auth secret");
    for second in 0..30 {
        rig.pass(Duration::from_secs(1));
        match second {
            0..8 => assert!(rig.ask_slowly(A, "hello 2 auth x y").starts_with("-WRONGPASS")),
            10 => drop(rig.ask(c, "reset")),
            12..19 => assert_eq!(rig.closed, [A]),
            _ => {}
        }
    }
    assert_eq!(rig.closed, [A, c]);
    assert_eq!(rig.resp.stats().idled, 2);
}

// Z7: if that is wanted, who asks for nothing is ended, but not who waits for what was promised.
#[test]
fn who_asks_for_nothing_is_shut_out_when_that_is_wanted() {
    let mut rig = Rig::with(|config| {
        config.idle = Some(Duration::from_secs(60));
        config.deadline = Duration::from_secs(1000);
    });
    let (c, d) = (ConnId(3), ConnId(4));
    rig.ask(A, "set a 1");
    rig.ask(B, "subscribe news");
    rig.ask(c, "get a");
    rig.shelf.delays = true;
    rig.ask(d, "get a");
    rig.pass(Duration::from_secs(40));
    rig.ask(c, "ping");
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.closed, [A]);
    rig.pass(Duration::from_secs(40));
    assert_eq!(rig.closed, [A, c]);
    rig.release();
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.said(d), "$1\r\n1\r\n");
    let mut unasked = Rig::new();
    unasked.ask(A, "set a 1");
    unasked.pass(Duration::from_secs(1_000_000));
    assert!(unasked.closed.is_empty());
}

// Z6: commands between MULTI and EXEC count with what each takes beside its arguments.
#[test]
fn what_is_queued_is_bounded_however_small_its_commands() {
    let mut rig = Rig::new();
    rig.ask(A, "multi");
    let mut queued = 0;
    let refused = loop {
        let said = rig.ask(A, &["get a"; 5_000].join("\n"));
        let taken = said.matches("+QUEUED").count();
        queued += taken;
        if taken < 5_000 {
            break said;
        }
        assert!(queued < 1_000_000, "{queued} are queued");
    };
    assert!(refused.contains("-ERR the commands of a transaction have at most 16777216 bytes"));
    assert!(queued < 200_000, "{queued} were queued");
    assert!(rig.ask(A, "exec").starts_with("-EXECABORT"));
    assert_eq!(rig.ask(A, "get a"), "$-1\r\n");
}

// Z7: replies that are there at once are not piled up for one who may not fetch them.
#[test]
fn a_step_gives_few_large_replies() {
    let mut rig = Rig::new();
    let value = vec![b'v'; 1_000_000];
    rig.feed(A, &[&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"[..], &value, b"\r\n"].concat());
    assert_eq!(rig.said(A), "+OK\r\n");
    let requests = b"get k\r\n".repeat(100);
    let mut effects = Effects::new();
    rig.resp.on_bytes(rig.now, A, &requests, &mut rig.shelf, &mut effects);
    assert_eq!((effects.taken.bytes, effects.taken.rest), (2 * b"get k\r\n".len(), Rest::More));
    rig.execute(effects);
    assert_eq!(rig.said(A).len(), 2 * "$1000000\r\n\r\n".len() + 2_000_000);
}

const MEGABYTE: usize = 1_000_000;

/// `k` has a megabyte, and answers come when they are let.
fn rig_with_a_large_value() -> Rig {
    let mut rig = Rig::with(|config| config.cross_slot = CrossSlot::Allow);
    rig.ask(A, "set a 1");
    rig.shelf.write(b"k", &vec![b'v'; MEGABYTE]);
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    rig
}

// Z6, Z7: what is under way is bounded by what its replies will be, as far as anybody can know.
#[test]
fn few_replies_are_under_way_when_they_may_be_large() {
    let mut rig = rig_with_a_large_value();
    rig.feed(A, &b"get k\r\n".repeat(200));
    let first = rig.shelf.asked.len();
    assert!((20..=50).contains(&first), "{first}");
    rig.release();
    // Now it is known how large they are.
    assert!(rig.shelf.asked.len() - first <= 10, "{} more", rig.shelf.asked.len() - first);
    while rig.shelf.asked.len() < 200 {
        rig.release();
    }
    rig.release();
    let said = rig.said(A);
    assert_eq!(said.matches("$1000000\r\n").count(), 200);
    // Small ones make room for more.
    rig.shelf.asked.clear();
    rig.feed(A, &b"get a\r\n".repeat(1000));
    while rig.shelf.asked.len() < 1000 {
        rig.release();
    }
    rig.release();
    rig.shelf.asked.clear();
    rig.feed(A, &b"get a\r\n".repeat(1000));
    assert!(rig.shelf.asked.len() > 200, "{}", rig.shelf.asked.len());
}

// Z6: who asks for small values first and then for large ones gets errors, not memory; changes are always answered.
#[test]
fn replies_that_wait_are_bounded() {
    let mut rig = rig_with_a_large_value();
    rig.feed(A, &b"get a\r\n".repeat(255));
    while rig.shelf.asked.len() < 255 {
        rig.release();
    }
    rig.release();
    rig.said(A);
    rig.feed(A, &[b"get k\r\n".repeat(60), b"incr a\r\n".to_vec()].concat());
    rig.release();
    let said = rig.said(A);
    let given = said.matches("$1000000\r\n").count();
    assert!(given <= 50, "50 megabytes are 48 MiB, about");
    assert_eq!(given + said.matches("-ERR replies of 50331648 bytes wait").count(), 60);
    assert!(given > 40, "{given}");
    assert!(said.ends_with("\r\n:2\r\n"));
}

// Z6
#[test]
fn one_reply_and_what_a_transaction_reads_are_bounded() {
    let mut rig = rig_with_a_large_value();
    rig.shelf.delays = false;
    let keys = " k".repeat(33);
    assert_eq!(rig.ask(A, &format!("mget{keys}")).matches("$1000000\r\n").count(), 33);
    let refused = "-ERR a command reads and answers at most 33554432 bytes: ask for less at once\r\n";
    assert_eq!(rig.ask(A, &format!("mget{keys} k")), refused);
    let commands = "get k\n".repeat(34);
    assert!(
        rig.ask(A, &format!("multi\nset a 5\n{commands}exec")).ends_with(&format!("QUEUED\r\n{refused}"))
    );
    assert_eq!(rig.ask(A, "get a"), "$1\r\n1\r\n", "nothing had an effect");
    for number in 0..34 {
        rig.shelf.write(format!("k{number}").as_bytes(), &vec![b'v'; MEGABYTE]);
    }
    let keys: String = (0..34).map(|number| format!(" k{number}")).collect();
    assert_eq!(rig.ask(A, &format!("bitop or d{keys}")), refused);
}

// Z6: names of channels are held for as long as a connection listens.
#[test]
fn what_a_connection_listens_to_is_bounded() {
    let mut rig = Rig::new();
    let name = |number: usize| number.to_string().repeat(1_000_000);
    for number in 0..4 {
        assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(number)])).contains("subscribe"));
        assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(number)])).contains("subscribe"), "no second time");
    }
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(5)])).contains("at most 4194304 bytes"));
    assert!(rig.ask(A, &request(&["UNSUBSCRIBE", &name(1), &name(7)])).contains("unsubscribe"));
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(5)])).ends_with(":4\r\n"));
    assert!(rig.ask(A, "reset").ends_with("+RESET\r\n"));
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(6)])).ends_with(":1\r\n"));
}

/// A request as an array; `ask` ends it.
fn request(args: &[&str]) -> String {
    let args: Vec<String> = args.iter().map(|arg| format!("${}\n{arg}", arg.len())).collect();
    format!("*{}\n{}", args.len(), args.join("\n"))
}

#[test]
fn messages_reach_who_listens() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "subscribe news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(rig.ask(A, "psubscribe n*"), "*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    assert!(rig.ask(A, "get a").contains("only (P|S)SUBSCRIBE"));
    assert_eq!(rig.ask(B, "publish news hi"), ":2\r\n");
    assert_eq!(
        rig.said(A),
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert_eq!(rig.ask(B, "pubsub channels\npubsub numpat"), "*1\r\n$4\r\nnews\r\n:1\r\n");
    rig.resp.on_closed(A);
    assert_eq!(rig.ask(B, "publish news hi\npubsub numpat"), ":0\r\n:0\r\n");
}

#[test]
fn a_connection_that_ends_leaves_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "get a\nappend a 2");
    rig.resp.on_closed(A);
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "");
    assert_eq!(rig.resp.connection_count(), 0);
}

// J1: the limit is of keys.
#[test]
fn a_connection_watches_as_many_keys_as_it_is_told() {
    let mut rig = Rig::new();
    let watch = |round: usize, count: usize| {
        (0..count).fold("watch".to_owned(), |line, n| format!("{line} {{t}}{round}-{n}"))
    };
    for round in 0..4 {
        assert_eq!(rig.ask(A, &watch(round, 256)), "+OK\r\n");
    }
    let refused = "-ERR a connection watches at most 1024 keys";
    assert!(rig.ask(A, &watch(4, 1)).starts_with(refused));
    assert_eq!(rig.ask(A, "unwatch"), "+OK\r\n");
    assert_eq!(rig.ask(A, &watch(4, 1)), "+OK\r\n");
}
