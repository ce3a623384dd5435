//! The client as its caller sees it.

use crate::played::{Mischief, Played};
use ramhold_client::{
    AccountObstacle, Client, ClusterTime, CommitAction, CommitItem, Durability, Error, LeftOpen, Number,
    Operation, Options, Outcome, PageLimits, Presence, PutOptions, RejectRules, Reply, ScanCursor, ServerId,
    Status, TableId, TableOptions, Version,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

fn options() -> TableOptions {
    TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    }
}

fn connect(played: &Played) -> (Client, TableId) {
    let mut client = Client::connect(&played.address.to_string()).unwrap();
    let table = client.create_table("things", options()).unwrap();
    (client, table)
}

#[test]
fn objects_are_written_read_and_removed() {
    // A3, A4
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    assert_eq!(client.table("things").unwrap(), table);
    assert_eq!(client.get(table, b"key").unwrap(), None);
    let version = client.put(table, b"key", b"\x00value").unwrap();
    let object = client.get(table, b"key").unwrap().unwrap();
    assert_eq!((object.version, &object.value[..]), (version, &b"\x00value"[..]));
    let absent = RejectRules { exists: true, ..RejectRules::default() };
    match client.put_if(table, b"key", b"", absent) {
        Err(Error::Refused { status: Status::Exists, version: Some(there), .. }) => {
            assert_eq!(there, version)
        }
        other => panic!("{other:?}"),
    }
    assert!(client.delete(table, b"key").unwrap().unwrap() > version);
    assert_eq!(client.delete(table, b"key").unwrap(), None);
    client.put(table, b"", b"").unwrap();
    client.put(table, b"large", &vec![7; 1024 * 1024]).unwrap();
    assert_eq!(client.get(table, b"large").unwrap().unwrap().value.len(), 1024 * 1024);
    assert_eq!(client.count(table).unwrap(), 2);
    client.drop_table(table).unwrap();
    assert!(client.tables().unwrap().is_empty());
}

#[test]
fn counters_count_and_refuse_what_is_no_number() {
    // A7
    let played = Played::start(Mischief { break_every: 2, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    assert_eq!(client.increment(table, b"visits", 3).unwrap(), 3);
    assert_eq!(client.increment(table, b"visits", -5).unwrap(), -2);
    assert_eq!(client.get(table, b"visits").unwrap().unwrap().value, b"-2");
    assert_eq!(client.increment_float(table, b"visits", 0.5).unwrap(), -1.5);
    match client.increment(table, b"visits", 1) {
        Err(Error::Refused { status: Status::NotANumber, version: Some(_), .. }) => {}
        other => panic!("{other:?}"),
    }
    client.put(table, b"full", i64::MAX.to_string().as_bytes()).unwrap();
    match client.increment(table, b"full", 1) {
        Err(Error::Refused { status: Status::OutOfRange, .. }) => {}
        other => panic!("{other:?}"),
    }
    match client.increment_float(table, b"visits", f64::NAN) {
        Err(Error::Refused { status: Status::BadRequest, .. }) => {}
        other => panic!("{other:?}"),
    }
    let absent = RejectRules { exists: true, ..RejectRules::default() };
    let (sum, version) = client.increment_if(table, b"new", Number::Integer(7), absent).unwrap();
    assert_eq!((sum, client.get(table, b"new").unwrap().unwrap().version), (Number::Integer(7), version));
}

#[test]
fn several_objects_are_changed_as_one_or_not_at_all() {
    // A4, A10
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    let item = |key: &[u8], rules, action| CommitItem { table, key: key.to_vec(), rules, action };
    let put = |value: &[u8]| CommitAction::Write { value: value.to_vec(), expiry: None };
    let free = RejectRules::default();
    let absent = RejectRules { exists: true, ..free };
    let version = client.commit(vec![item(b"a", free, put(b"1")), item(b"b", absent, put(b"1"))]).unwrap();
    assert_eq!(client.get(table, b"a").unwrap().unwrap().version, version);
    assert_eq!(client.get(table, b"b").unwrap().unwrap().version, version);
    let items = vec![item(b"a", free, CommitAction::Remove), item(b"b", absent, CommitAction::Check)];
    match client.commit(items.clone()) {
        Err(Error::Refused { status: Status::Exists, version: Some(there), .. }) => {
            assert_eq!(there, version)
        }
        other => panic!("{other:?}"),
    }
    assert!(client.get(table, b"a").unwrap().is_some());
    let submitted = client.submit(Operation::Commit { items });
    let (id, outcome) = client.wait_any().unwrap();
    assert_eq!(id, submitted);
    assert!(matches!(outcome, Outcome::Refused { item: Some(1), .. }));
    assert!(matches!(client.commit(vec![]), Err(Error::Refused { status: Status::BadRequest, .. })));
}

#[test]
fn many_objects_in_one_call_each_end_on_their_own_in_the_order_given() {
    // A5
    for mischief in [
        Mischief::default(),
        Mischief { retry_every: 7, ..Mischief::default() },
        Mischief { break_every: 5, ..Mischief::default() },
    ] {
        let played = Played::start(mischief);
        let (mut client, table) = connect(&played);
        // These are more parts than a session may have under way, and more than one frame holds. One key
        // comes twice.
        let keys: Vec<String> = (0..3000).map(|n| format!("key {}", n % 2999)).collect();
        let written = client.multi_write(table, keys.iter().map(|key| (key, key)));
        assert!(written.iter().all(Result::is_ok), "{:?}", written.iter().find(|result| result.is_err()));
        let read = client.multi_read(table, keys.iter().chain([&"absent".to_owned()]));
        assert_eq!(read.len(), 3001);
        for (key, object) in keys.iter().zip(&read) {
            assert_eq!(object.as_ref().unwrap().as_ref().unwrap().value, key.as_bytes());
        }
        assert!(matches!(read[3000], Ok(None)));
        let counted = client.multi_increment(
            table,
            [("n", Number::Integer(2)), ("key 7", Number::Integer(1)), ("f", Number::Float(0.5))],
        );
        assert!(matches!(counted[0], Ok(Number::Integer(2))), "{counted:?}");
        assert!(matches!(&counted[1], Err(Error::Refused { status: Status::NotANumber, .. })));
        assert!(matches!(counted[2], Ok(Number::Float(half)) if half == 0.5));
        let removed = client.multi_remove(table, ["key 0", "absent", "key 1"]);
        assert!(matches!(removed[..], [Ok(Some(_)), Ok(None), Ok(Some(_))]), "{removed:?}");
        assert_eq!(client.get(table, b"key 0").unwrap(), None);
        // The operations have their own rules and are of mixed kinds. An operation submitted before can still
        // be waited for.
        let rules = RejectRules { exists: true, ..RejectRules::default() };
        let write = |key: &str| Operation::Write {
            table,
            key: key.into(),
            value: b"v".to_vec(),
            rules,
            expiry: None,
        };
        let before = client.submit(write("before"));
        let read = Operation::Read { table, key: b"key 2".to_vec(), rules: RejectRules::default() };
        let mixed = client.multi([write("key 2"), read, write("key 0")]);
        assert!(matches!(&mixed[0], Err(Error::Refused { status: Status::Exists, .. })), "{mixed:?}");
        assert!(matches!(&mixed[1], Ok(Reply::Read { .. })));
        assert!(matches!(&mixed[2], Ok(Reply::Written { .. })));
        assert_eq!(client.wait_any().unwrap().0, before);
        assert!(client.multi([]).is_empty());
    }
}

#[test]
fn what_does_not_end_is_waited_for_so_long() {
    // B5
    let played = Played::start(Mischief { retry_every: 1, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    assert!(client.wait_any_within(Duration::from_secs(3600)).is_none(), "nothing is under way");
    let read = Operation::Read { table, key: b"key".to_vec(), rules: RejectRules::default() };
    let (asked, began) = (client.submit_within(read, Duration::from_millis(500)), Instant::now());
    assert!(client.wait_any_within(Duration::from_millis(50)).is_none());
    assert!(began.elapsed() >= Duration::from_millis(50));
    let (id, outcome) = client.wait_any_within(Duration::from_secs(3600)).unwrap();
    assert_eq!(id, asked);
    assert!(matches!(outcome, Outcome::Refused { status: Status::Retry, .. }), "{outcome:?}");
}

#[test]
fn a_scan_gives_every_object_once_and_goes_on_from_a_text() {
    // A6
    let played = Played::start(Mischief { retry_every: 5, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    assert_eq!(client.scan(table).count(), 0);
    let keys: Vec<String> = (0..50).map(|n| format!("key {n}")).collect();
    client.multi_write(table, keys.iter().map(|key| (key, b"value")));
    let mut met: Vec<_> = client.scan(table).map(|object| object.unwrap().key).collect();
    met.sort_unstable();
    let mut wanted: Vec<_> = keys.iter().map(|key| key.clone().into_bytes()).collect();
    wanted.sort_unstable();
    assert_eq!(met, wanted);
    // Reads page by page, each page with another client that knows only the cursor's text.
    let limits = PageLimits { count: 2, keys_only: true, ..PageLimits::default() };
    let mut met = Vec::new();
    let mut next = Some(ScanCursor::new(table).to_string());
    while let Some(text) = next {
        let page = client.scan_page(&text.parse().unwrap(), limits).unwrap();
        assert!(page.objects.len() <= 2);
        assert!(page.objects.iter().all(|object| object.value.is_empty()));
        met.extend(page.objects.into_iter().map(|object| object.key));
        next = page.next.map(|cursor| cursor.to_string());
    }
    met.sort_unstable();
    assert_eq!(met, wanted);
    match client.scan_page(&ScanCursor::new(table), PageLimits { count: 0, ..limits }) {
        Err(Error::Refused { status: Status::BadRequest, .. }) => {}
        other => panic!("{other:?}"),
    }
    match client.scan(TableId(99)).next() {
        Some(Err(Error::Refused { status: Status::UnknownTable, .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_ends_when_its_writer_said() {
    // A12
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    let put = PutOptions::default();
    let expires = |client: &mut Client| client.get(table, b"key").unwrap().map(|object| object.expires);
    client.put_with(table, b"key", b"1", put.time_to_live(Duration::from_secs(60))).unwrap();
    let end = expires(&mut client).unwrap().unwrap();
    // The time to live is rounded up to a whole millisecond.
    client.put_with(table, b"key", b"1", put.time_to_live(Duration::from_nanos(60_001_000_001))).unwrap();
    assert_eq!(expires(&mut client), Some(Some(ClusterTime(end.0 + 2))));
    client.put_with(table, b"key", b"1", put.expires_at(ClusterTime(end.0 + 77))).unwrap();
    assert_eq!(expires(&mut client), Some(Some(ClusterTime(end.0 + 77))));
    client.put(table, b"key", b"2").unwrap();
    assert_eq!(expires(&mut client), Some(None), "a plain write takes it away");
    let exists = RejectRules { exists: true, ..RejectRules::default() };
    let refused = client.put_with(table, b"key", b"3", put.unless(exists).expires_at(ClusterTime(1)));
    assert!(matches!(refused, Err(Error::Refused { status: Status::Exists, .. })), "{refused:?}");
    client.put_with(table, b"key", b"3", put.expires_at(ClusterTime(1))).unwrap();
    assert_eq!(client.get(table, b"key").unwrap(), None);
    let outside = [
        put.time_to_live(Duration::ZERO),
        put.time_to_live(Duration::from_secs(36_526 * 86_400)),
        put.time_to_live(Duration::MAX),
        put.expires_at(ClusterTime(0)),
        put.expires_at(ClusterTime(u64::MAX)),
    ];
    for options in outside {
        let refused = client.put_with(table, b"key", b"4", options);
        assert!(matches!(refused, Err(Error::Refused { status: Status::BadRequest, .. })), "{refused:?}");
    }
}

#[test]
fn many_operations_are_under_way_at_once_and_each_ends_once() {
    // B5
    let played = Played::start(Mischief { retry_every: 7, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    let mut wanted = BTreeMap::new();
    for number in 0..500u32 {
        let key = number.to_le_bytes().to_vec();
        let operation = Operation::Write {
            table,
            key: key.clone(),
            value: key,
            rules: RejectRules::default(),
            expiry: None,
        };
        wanted.insert(client.submit(operation), number);
    }
    // A blocking call in between does not wait for the submitted operations, and loses no outcome that comes
    // meanwhile.
    client.put(table, b"between", b"").unwrap();
    let mut versions = BTreeSet::new();
    while let Some((id, outcome)) = client.wait_any() {
        assert!(wanted.remove(&id).is_some());
        let Outcome::Done(Reply::Written { version }) = outcome else { panic!("{outcome:?}") };
        assert!(versions.insert(version));
    }
    assert!(wanted.is_empty());
    for number in 0..500u32 {
        let object = client.get(table, &number.to_le_bytes()).unwrap().unwrap();
        assert_eq!(object.value, number.to_le_bytes());
    }
}

#[test]
fn a_write_whose_connection_breaks_is_done_and_once() {
    // A3, B5
    let played = Played::start(Mischief { break_every: 3, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    for number in 1..=12u64 {
        assert_eq!(client.put(table, b"key", &number.to_le_bytes()).unwrap(), Version(number));
    }
    assert_eq!(client.get(table, b"key").unwrap().unwrap().value, 12u64.to_le_bytes());
}

#[test]
fn a_refusal_for_the_time_being_ends_at_the_deadline() {
    // B5
    let played = Played::start(Mischief { refuse_writes: Some(Status::OutOfMemory), ..Mischief::default() });
    let (mut client, table) = connect(&played);
    client.set_deadline(Duration::from_millis(300));
    let began = Instant::now();
    let error = client.put(table, b"key", b"value").unwrap_err();
    assert_eq!(error.status(), Some(Status::OutOfMemory));
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(error.to_string().contains("attempts"), "{error}");
    // Reads still succeed.
    assert_eq!(client.get(table, b"key").unwrap(), None);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    // B5
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // Closed again at once.
    let options = Options { connect_timeout: Duration::from_millis(200), ..Options::default() };
    match Client::connect_with(&[nobody], options) {
        Err(Error::Unreachable { detail }) => assert!(detail.contains(&nobody.to_string()), "{detail}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("connected to nobody"),
    }
}

#[test]
fn a_coordinator_that_is_not_there_is_passed_over() {
    // B5, G4
    let nobody: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let played = Played::start(Mischief::default());
    let mut client = Client::connect(&format!("{nobody},{}", played.address)).unwrap();
    assert!(client.tables().unwrap().is_empty());
}

#[test]
fn clients_of_many_threads_work_side_by_side() {
    // B5
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let played = &played;
            scope.spawn(move || {
                let mut client = Client::connect(&played.address.to_string()).unwrap();
                for number in 0..50u8 {
                    client.put(table, &[thread, number], &[thread]).unwrap();
                }
            });
        }
    });
    for thread in 0..4u8 {
        for number in 0..50u8 {
            assert_eq!(client.get(table, &[thread, number]).unwrap().unwrap().value, [thread]);
        }
    }
}

#[test]
fn the_state_of_the_cluster_can_be_asked_for() {
    let played = Played::start(Mischief::default());
    let (mut client, _) = connect(&played);
    assert_eq!(client.tables().unwrap()[0].name, "things");
    assert_eq!(client.cluster_status().unwrap().servers.len(), 3);
    assert_eq!(client.recoveries().unwrap().len(), 1);
    assert_eq!(client.server_status(played.address).unwrap().server.raw(), 1);
    client.acknowledge_loss(4).unwrap();
    // B1
    let status = client.cluster_status().unwrap();
    assert_eq!((status.expected, status.gone.unwrap()[0].server), (Some(4), ServerId(6)));
    client.forget_server(ServerId(6)).unwrap();
    assert_eq!(client.cluster_status().unwrap().gone, Some(vec![]));
    assert_eq!(client.forget_server(ServerId(6)).unwrap_err().status(), Some(Status::NotFound));
    assert!(client.cluster_status().unwrap().losses.is_empty());
    client.ping(Some(played.address)).unwrap();
    assert_eq!(client.table("nothing").unwrap_err().status(), Some(Status::UnknownTable));
    let error = client.put_if(TableId(99), b"key", b"", RejectRules::default()).unwrap_err();
    assert_eq!(error.status(), Some(Status::UnknownTable));
}

// J4
#[test]
fn accounts_are_made_changed_listed_and_removed() {
    let played = Played::start(Mischief::default());
    let (mut client, _) = connect(&played);
    let rules = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let made = client.set_account("ann", rules(&["on", ">secret"]), Presence::New).unwrap();
    assert_eq!((made.version, made.count, made.obstacle), (1, 1, None));
    let again = client.set_account("ann", rules(&["on"]), Presence::New).unwrap();
    assert_eq!(again.obstacle, Some(AccountObstacle::Exists));
    let names = |client: &mut Client| {
        client.accounts().unwrap().accounts.into_iter().map(|account| account.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut client), ["default", "ann"]);
    assert_eq!(client.remove_accounts(vec!["ann".into(), "bob".into()]).unwrap().count, 1);
    assert_eq!(names(&mut client), ["default"]);
    let kept = client.remove_accounts(vec!["default".into()]).unwrap();
    assert_eq!(kept.obstacle, Some(AccountObstacle::IsDefault));
}

#[test]
fn a_table_that_is_there_with_other_options_is_not_the_one_asked_for() {
    // A1, D2
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    assert_eq!(client.create_table_if_absent("things", options(), None).unwrap(), table);
    let synced = TableOptions {
        durability: Durability::Synced,
        replicas: 2,
        tablets: 4,
        slots: true,
        zone: None,
        quorum: None,
    };
    match client.create_table_if_absent("things", synced.clone(), None) {
        Err(error @ Error::TableDiffers { table: there, .. }) => {
            assert_eq!(there, table);
            assert_eq!(
                error.to_string(),
                "a table of this name exists with other options: its durability is buffered, not synced, it has 3 \
                 replicas, not 2, it has 1 tablet, not 4, it is not by slots"
            );
        }
        other => panic!("{other:?}"),
    }
    // An option that is left to the cluster may have any value.
    let open = TableOptions { durability: Durability::Synced, replicas: 2, ..options() };
    let left = Some(LeftOpen::Durability);
    assert_eq!(client.create_table_if_absent("things", open, left).unwrap(), table);
    let one = TableOptions { tablets: 1, ..options() };
    assert_eq!(client.create_table_if_absent("things", one, None).unwrap(), table);
    assert_ne!(client.create_table_if_absent("others", synced, None).unwrap(), table);
}
