//! Redis clients beside native ones: nothing is lost, nothing takes effect twice, and order is kept, whatever
//! happens to servers.
//!
//! Catalogue: J1, J3, B5.

use ramhold_base::TableId;
use ramhold_world::history::Condition;
use ramhold_world::network::MILLI;
use ramhold_world::resp::Answer;
use ramhold_world::stage::{Setting, Stage};

fn stage(servers: u8, speakers: usize) -> (Stage, TableId) {
    let mut stage = Stage::with(Setting { speakers, ..Setting::of(servers) });
    let table = stage.table("world", 3);
    (stage, table)
}

fn bulk(text: &str) -> Answer {
    Answer::Bulk(Some(text.as_bytes().to_vec()))
}

fn ok() -> Answer {
    Answer::Simple("OK".into())
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(line).collect()
}

/// A server that does not own the table.
fn other(stage: &Stage, table: TableId) -> usize {
    stage.others(&[stage.owner(table).unwrap()])[0]
}

/// Every reply belongs to its command, and a read sees the write before it, at the owner and elsewhere. This
/// holds however the bytes are cut, and however the frames between the servers overtake each other.
#[test]
fn a_pipeline_of_writes_and_reads_of_one_key_keeps_its_order() {
    let (mut stage, table) = stage(4, 2);
    let owner = stage.owner(table).unwrap();
    let away = other(&stage, table);
    stage.connect(0, owner);
    stage.connect(1, away);
    stage.world.network.options.hold_ppm = 200_000;
    stage.world.network.options.hold_max = 3 * MILLI;
    for client in [0, 1] {
        let lines = lines(300, |n| match n % 3 {
            0 => format!("SET key{client} {n}"),
            1 => format!("GET key{client}"),
            _ => format!("ECHO {n}"),
        });
        stage.tell(client, &lines);
    }
    stage.wait("all replies", |stage| (0..2).all(|client| stage.replies(client).len() == 300));
    for client in [0, 1] {
        for (n, reply) in stage.replies(client).into_iter().enumerate() {
            let wanted = match n % 3 {
                0 => ok(),
                1 => bulk(&(n - 1).to_string()),
                _ => bulk(&n.to_string()),
            };
            assert_eq!(reply, wanted, "client {client}, reply {n}");
        }
    }
    assert!(stage.marks("resp_held") > 0 && stage.marks("resp_through_session") > 0);
    stage.close();
}

/// The owner dies under a pipeline of its Redis client: acknowledged writes are there, and every increment
/// counts at most once.
#[test]
fn a_server_killed_under_a_pipeline_loses_nothing_that_it_acknowledged() {
    for moment in [0, 1, 2, 3, 5, 8] {
        let (mut stage, table) = stage(5, 1);
        let owner = stage.owner(table).unwrap();
        stage.connect(0, owner);
        let lines = lines(600, |n| match n % 2 {
            0 => format!("SET key{n} value{n}"),
            _ => "INCR counter".to_string(),
        });
        for part in lines.chunks(100) {
            stage.tell(0, part);
            stage.world.run_until(stage.world.now() + 300_000);
        }
        stage.world.run_until(stage.world.now() + moment * 400_000);
        stage.crash(owner);
        stage.wait("the end of the connection", |stage| stage.is_lost(0));
        let replies = stage.replies(0);
        for (n, reply) in replies.iter().enumerate() {
            let count = n as i64 / 2 + 1;
            assert_eq!(*reply, if n % 2 == 0 { ok() } else { Answer::Integer(count) });
        }
        stage.wait("the recovery", |stage| stage.marks("recovery_published") > 0);
        let next = stage.others(&[owner])[0];
        stage.connect(0, next);
        for n in (0..replies.len()).step_by(2) {
            assert_eq!(stage.say(0, &format!("GET key{n}")), bulk(&format!("value{n}")));
        }
        let counted = match stage.say(0, "GET counter") {
            Answer::Bulk(Some(count)) => String::from_utf8(count).unwrap().parse().unwrap(),
            Answer::Bulk(None) => 0,
            other => panic!("{other:?}"),
        };
        let told = replies.len() / 2;
        assert!((told..=300).contains(&counted), "{told} increments told, {counted} counted");
        stage.close();
    }
}

/// The owner dies. A Redis client of another server notices only a pause: every increment of its pipeline is
/// answered, once, in order.
#[test]
fn a_client_of_another_server_goes_on_through_a_recovery() {
    let (mut stage, table) = stage(5, 1);
    let owner = stage.owner(table).unwrap();
    let away = other(&stage, table);
    stage.connect(0, away);
    let lines = lines(400, |n| match n % 4 {
        0 | 2 => "INCR counter".to_string(),
        1 => "INCRBYFLOAT counter 1".to_string(),
        _ => "GET counter".to_string(),
    });
    stage.tell(0, &lines);
    stage.wait("some replies", |stage| stage.replies(0).len() > 20);
    stage.crash(owner);
    stage.wait("all replies", |stage| stage.replies(0).len() == 400);
    for (n, reply) in stage.replies(0).into_iter().enumerate() {
        let count = n as i64 / 4 * 3;
        let wanted = match n % 4 {
            0 => Answer::Integer(count + 1),
            1 => bulk(&(count + 2).to_string()),
            2 => Answer::Integer(count + 3),
            _ => bulk(&(count + 3).to_string()),
        };
        assert_eq!(reply, wanted, "reply {n}");
    }
    assert!(!stage.is_lost(0));
    assert!(stage.marks("recovery_published") > 0);
    stage.close();
}

/// The table is dropped under the load of a client of another server. No earlier object is seen afterwards,
/// and the other client goes on in the new table.
#[test]
fn flushing_under_load_leaves_nothing_and_the_others_go_on() {
    let (mut stage, table) = stage(5, 4);
    let owner = stage.owner(table).unwrap();
    let others = stage.others(&[owner]);
    stage.connect(0, owner);
    for (client, server) in [(1, others[0]), (2, others[1]), (3, others[2])] {
        stage.connect(client, server);
        assert_eq!(stage.say(client, "GET nothing"), Answer::Bulk(None));
    }
    for n in 0..20 {
        assert_eq!(stage.say(1, &format!("SET old{n} {n}")), ok());
    }
    let before = stage.tell(1, &lines(400, |n| format!("SET new{} {n}", n % 50)));
    let flushed = stage.say(0, "FLUSHDB");
    assert_eq!(flushed, ok());
    stage.wait("all replies", |stage| stage.replies(1).len() == before + 400);
    // Servers that have only read before find the later writes the first time that they look.
    assert_eq!(stage.say(0, "SET since 1"), ok());
    assert_eq!(stage.say(2, "GET since"), bulk("1"));
    assert!(matches!(stage.say(3, "DBSIZE"), Answer::Integer(1..)));
    for n in 0..20 {
        for client in [0, 1] {
            assert_eq!(stage.say(client, &format!("GET old{n}")), Answer::Bulk(None), "client {client}");
        }
    }
    // Clients that used the old table find the new one.
    for n in 0..50 {
        assert_eq!(stage.say(1, &format!("SET new{n} again{n}")), ok());
        assert_eq!(
            stage.say(1, &format!("APPEND new{n} !")),
            Answer::Integer(format!("again{n}!").len() as i64)
        );
    }
    for n in 0..50 {
        assert_eq!(stage.say(0, &format!("GET new{n}")), bulk(&format!("again{n}!")));
    }
    stage.settle();
}

/// A server is cut off with its Redis client, while the cluster has declared it dead and clients write to its
/// successor. It tells its client nothing old.
#[test]
fn a_zombie_answers_its_redis_client_nothing_old() {
    let (mut stage, table) = stage(6, 1);
    stage.write(table, "key", b"0");
    let owner = stage.owner(table).unwrap();
    stage.connect(0, owner);
    let near = [stage.hosts(&[owner]), stage.speakers.clone()].concat();
    let others = stage.others(&[owner]);
    let far = [stage.hosts(&others), stage.clients.clone(), vec![stage.coordinator]].concat();
    let mut answered = 0;
    let mut ask = |stage: &mut Stage, millis: u32| {
        for _ in 0..millis {
            if !stage.is_lost(0) {
                stage.resp_read(0, table, "key");
            }
            stage.pass(1);
        }
        let before = answered;
        answered = stage.replies(0).len();
        answered - before
    };
    assert!(ask(&mut stage, 100) > 50);
    stage.part(&near, &far);
    ask(&mut stage, 200);
    let dead = stage.id(owner);
    let written = stage.begin_write(1, table, "key", b"1", Condition::Free);
    for _ in 0..6000 {
        if stage.is_done(written) {
            break;
        }
        ask(&mut stage, 1);
    }
    assert!(stage.is_done(written), "its successor serves");
    assert!(!stage.is_up(dead));
    // No further answer of the zombie may be the old value. The history is judged.
    ask(&mut stage, 1000);
    let successor = stage.others(&[owner])[0];
    stage.world.network.heal();
    stage.connect(0, successor);
    stage.resp_read(0, table, "key");
    stage.wait("the reply of the successor", |stage| !stage.replies(0).is_empty());
    assert!(matches!(&stage.replies(0)[0], Answer::Array(Some(parts)) if parts[0] == bulk("1")));
    stage.close();
}

/// `WATCH` sees the writes of native clients, also a write that leaves the same value and one that makes the
/// key anew. If no client touched the key, the transaction succeeds.
#[test]
fn a_watched_key_is_watched_against_native_writers() {
    let (mut stage, table) = stage(4, 1);
    let owner = stage.owner(table).unwrap();
    for server in [owner, other(&stage, table)] {
        stage.connect(0, server);
        for round in 0..4 {
            let before = format!("before{server}-{round}");
            stage.write(table, "watched", before.as_bytes());
            assert_eq!(stage.say(0, "WATCH watched"), ok());
            match round {
                0 => {}
                1 => drop(stage.write(table, "watched", b"other")),
                2 => drop(stage.write(table, "watched", before.as_bytes())),
                _ => {
                    stage.remove(table, "watched");
                    stage.write(table, "watched", before.as_bytes());
                }
            }
            assert_eq!(stage.say(0, "MULTI"), ok());
            let value = format!("exec{server}-{round}");
            assert_eq!(stage.say(0, &format!("SET result {value}")), Answer::Simple("QUEUED".into()));
            let done = stage.say(0, "EXEC");
            if round == 0 {
                assert_eq!(done, Answer::Array(Some(vec![ok()])));
                assert_eq!(stage.say(0, "GET result"), bulk(&value));
            } else {
                assert_eq!(done, Answer::Array(None), "round {round} at server {server}");
                assert_eq!(stage.say(0, "GET result"), bulk(&format!("exec{server}-0")));
            }
        }
    }
    assert!(stage.marks("resp_watch_failed") >= 6);
    stage.close();
}

/// Two Redis clients at different servers and a native one append and increment one key: no update is lost.
#[test]
fn read_and_write_commands_of_several_servers_lose_no_update() {
    let (mut stage, table) = stage(4, 2);
    let owner = stage.owner(table).unwrap();
    let away = other(&stage, table);
    stage.connect(0, owner);
    stage.connect(1, away);
    for client in [0, 1] {
        stage.tell(
            client,
            &lines(200, |n| if n % 2 == 0 { "APPEND log x".into() } else { "INCRBYFLOAT sum 1".into() }),
        );
    }
    stage.wait("all replies", |stage| (0..2).all(|client| stage.replies(client).len() == 200));
    assert_eq!(stage.say(0, "STRLEN log"), Answer::Integer(200));
    assert_eq!(stage.say(1, "GET sum"), bulk("200"));
    assert!(stage.marks("resp_retried") > 0, "they came in each other's way");
    stage.close();
}

/// The owner carries a write out, and no answer reaches the client's server. The client is told that the fate
/// is unknown, and never that nothing was done.
#[test]
fn a_write_whose_answer_is_lost_is_told_as_unknown() {
    let (mut stage, table) = stage(5, 1);
    let owner = stage.owner(table).unwrap();
    let away = other(&stage, table);
    stage.connect(0, away);
    assert_eq!(stage.say(0, "SET key 0"), ok());
    let (from, to) = (stage.hosts(&[owner]), stage.hosts(&[away]));
    stage.world.network.cut(&from, &to);
    let reply = stage.resp_write(0, table, "key", "1");
    stage.wait("the reply", |stage| stage.replies(0).len() > reply);
    let answer = stage.replies(0).swap_remove(reply);
    assert!(matches!(&answer, Answer::Error(text) if text.starts_with("UNKNOWN ")), "{answer:?}");
    stage.world.network.heal();
    stage.expect(table, "key", b"1");
    stage.close();
}
