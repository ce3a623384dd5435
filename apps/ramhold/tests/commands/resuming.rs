//! `resume`: tokens of puts in quorum tables.

use crate::played::{Mischief, Played};
use ramhold_client::{Client, Durability, QuorumOptions, TableOptions, WriteProtocol};

fn quorum_table(played: &Played) {
    let quorum = QuorumOptions { bricks: 3, write: 2, read: 2, protocol: WriteProtocol::Adaptive };
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 0,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: Some(quorum),
    };
    Client::connect(&played.address.to_string()).unwrap().create_table("q", options).unwrap();
}

#[test]
fn an_unknown_put_tells_its_token_and_how_to_settle_it() {
    // I3
    let played = Played::start(Mischief { refuse_brick_writes: 30, ..Mischief::default() });
    quorum_table(&played);
    let error = played.ramhold(&["put", "q", "alice", "1", "--timeout", "400ms"]).failed(4);
    assert!(error.contains("whether it took effect is unknown"), "{error}");
    let (_, rest) = error.split_once("settle it with 'ramhold resume ").expect("the way out");
    let token = rest.trim_end().trim_end_matches('\'');
    let text = played.ramhold(&["resume", token]).ok().text();
    assert!(text.starts_with("the put of 'alice' took effect, version "), "{text}");
    assert_eq!(played.ramhold(&["get", "q", "alice"]).ok().text(), "1");
    let json = played.ramhold_with(format!("{token}\n").as_bytes(), &["resume", "-", "--json"]).ok().json();
    assert!(json["version"].as_u64().is_some_and(|version| text.contains(&version.to_string())));
    played.ramhold(&["del", "q", "alice"]).ok();
    let never = played.ramhold(&["resume", token]).failed(3);
    assert!(never.contains("never took effect, and never will"), "{never}");
    assert!(played.ramhold(&["resume", &token[1..]]).failed(2).contains("TOKEN: "));
    assert!(played.ramhold(&["resume", &token[..20]]).failed(2).contains("a part of the token is missing"));
}
