//! The client with a table that bricks hold.

use crate::played::{Mischief, Played};
use ramhold_client::{
    Client, Durability, Error, QuorumOptions, RejectRules, Status, TableId, TableOptions, Token,
    WriteProtocol,
};
use std::time::Duration;

fn connect(played: &Played) -> (Client, TableId) {
    let quorum = QuorumOptions { bricks: 3, write: 2, read: 2, protocol: WriteProtocol::Single };
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 0,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: Some(quorum),
    };
    let mut client = Client::connect(&played.address.to_string()).unwrap();
    let table = client.create_table("things", options).unwrap();
    (client, table)
}

#[test]
fn objects_of_a_quorum_table_are_written_read_and_removed() {
    // I1
    let played = Played::start(Mischief::default());
    let (mut client, table) = connect(&played);
    assert_eq!(client.get(table, b"key").unwrap(), None);
    let version = client.put(table, b"key", b"value").unwrap();
    let object = client.get(table, b"key").unwrap().unwrap();
    assert_eq!((object.version, &object.value[..]), (version, &b"value"[..]));
    assert!(client.delete(table, b"key").unwrap().unwrap() > version);
    assert_eq!(client.get(table, b"key").unwrap(), None);
    let absent = RejectRules { exists: true, ..RejectRules::default() };
    let refused = client.put_if(table, b"key", b"", absent).unwrap_err();
    assert_eq!(refused.status(), Some(Status::Unsupported));
    assert_eq!(client.increment(table, b"key", 1).unwrap_err().status(), Some(Status::Unsupported));
}

#[test]
fn an_unknown_put_is_settled_by_its_token_in_another_client() {
    // I3
    let played = Played::start(Mischief { refuse_brick_writes: 30, ..Mischief::default() });
    let (mut client, table) = connect(&played);
    client.set_deadline(Duration::from_millis(300));
    let token = match client.put(table, b"key", b"value") {
        Err(Error::Unknown { token: Some(token), .. }) => token.to_string(),
        other => panic!("{other:?}"),
    };
    let mut other = Client::connect(&played.address.to_string()).unwrap();
    let token: Token = token.parse().unwrap();
    let version = other.resume(token.clone()).unwrap();
    assert_eq!(other.get(table, b"key").unwrap().unwrap().version, version);
    // Once more, it changes nothing.
    assert_eq!(other.resume(token.clone()).unwrap(), version);
    other.put(table, b"key", b"newer").unwrap();
    let never = other.resume(token).unwrap_err();
    assert!(matches!(never, Error::Refused { status: Status::WrongVersion, .. }), "{never:?}");
}
