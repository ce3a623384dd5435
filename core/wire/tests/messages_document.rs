//! docs/formats/messages.md says what the code does: every opcode, status and field stands there, and no others.
//!
//! Opcodes and statuses are compared with the values themselves. Rust keeps no list of a structure's fields, so those
//! are read from the sources, which is why a structure of a message must stand in one of `SOURCES`, one field a line.

use ramhold_base::limits::{KEY_BYTES_MAX, LABEL_COUNT_MAX, REPLICA_COUNT_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, LogId, ServerId, ShardId, Status};
use ramhold_wire::control::encode_into;
use ramhold_wire::membership::{Durability, Label, ServerListUpdate, SuspectServer};
use ramhold_wire::recovery::RecoveryOutcome;
use ramhold_wire::status::Ping;
use ramhold_wire::table::{LeftOpen, TableCreate, TableOptions};
use ramhold_wire::{Opcode, decode};
use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../../docs/formats/messages.md");
const SOURCES: [&str; 16] = [
    include_str!("../src/accounts.rs"),
    include_str!("../src/brick_status.rs"),
    include_str!("../src/bricks.rs"),
    include_str!("../src/copies.rs"),
    include_str!("../src/lease.rs"),
    include_str!("../src/membership.rs"),
    include_str!("../src/neighbours.rs"),
    include_str!("../src/obstacle.rs"),
    include_str!("../src/outage.rs"),
    include_str!("../src/pubsub.rs"),
    include_str!("../src/quorum.rs"),
    include_str!("../src/recovery.rs"),
    include_str!("../src/restart.rs"),
    include_str!("../src/shortage.rs"),
    include_str!("../src/status.rs"),
    include_str!("../src/table.rs"),
];

/// The text below a heading, up to the next heading of any level.
fn below(heading: &str) -> &'static str {
    let from = DOCUMENT.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}")).1;
    from.split("\n#").next().expect("a split has a first part")
}

/// The cells of the first table of a text, without its head.
fn rows(text: &'static str) -> Vec<Vec<&'static str>> {
    let lines =
        text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The headings of a level, in order.
fn headings(level: &str) -> Vec<&'static str> {
    DOCUMENT.lines().filter_map(|line| line.strip_prefix(level)?.strip_prefix(' ')).collect()
}

/// A line of a structure or of a table of names: its numbers, its name, its type in the page's words.
type Field = (Vec<String>, String, String);

/// Every structure and enumeration of the sources, with its numbered lines.
fn structures() -> BTreeMap<String, Vec<Field>> {
    let mut found = BTreeMap::new();
    for source in SOURCES {
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            let head = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
            let Some((name, "{")) = head.and_then(|head| head.split_once(' ')) else { continue };
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").map(str::trim).collect();
            assert!(found.insert(name.to_string(), fields(&body)).is_none(), "{name} twice");
        }
    }
    found
}

fn fields(body: &[&str]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut number = None;
    let mut case: Option<String> = None;
    for line in body {
        if let Some(rest) = line.strip_prefix("#[n(") {
            number = rest.strip_suffix(")]").map(str::to_string);
        } else if *line == "}," {
            case = None;
        } else if !line.starts_with("//") && !line.starts_with("#[") {
            let number = number.take().unwrap_or_else(|| panic!("no number before {line}"));
            if let Some(name) = line.strip_suffix(" {") {
                case = Some(number.clone());
                fields.push((vec![number, String::new()], name.to_string(), String::new()));
                continue;
            }
            let line = line.trim_start_matches("pub ").trim_end_matches(',');
            let (name, kind) = line.split_once(": ").unwrap_or((line, ""));
            let numbers = case.iter().cloned().chain([number]).collect();
            fields.push((numbers, name.to_string(), in_words(kind)));
        }
    }
    fields
}

fn in_words(kind: &str) -> String {
    let kind = kind.trim_start_matches("ramhold_base::");
    let inner = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>');
    if kind == "Vec<u8>" || kind == "ByteVec" {
        "bytes".to_string()
    } else if let Some(inner) = inner("Vec<") {
        format!("list of {}", in_words(inner))
    } else if let Some(inner) = inner("Option<") {
        format!("{} or null", in_words(inner))
    } else if kind == "String" {
        "text".to_string()
    } else {
        kind.to_string()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn encoded<T: minicbor::Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, value);
    bytes
}

// E1
#[test]
fn the_page_has_every_opcode_and_no_other() {
    let mut all = Opcode::ALL.to_vec();
    all.sort_unstable();
    let stated: Vec<(String, &str, &str, &str)> =
        rows(below("## Opcodes")).iter().map(|row| (row[0].to_string(), row[1], row[2], row[3])).collect();
    let known: Vec<(String, &str, &str, &str)> =
        all.iter().map(|o| (o.code().to_string(), o.name(), o.asker(), o.answerer())).collect();
    assert_eq!(stated, known);

    let described: Vec<&str> = headings("###");
    let known: Vec<String> = all.iter().map(|o| format!("{} {}", o.code(), o.name())).collect();
    assert_eq!(described, known, "each opcode has a part of its own, in the order of numbers");
}

// A3
#[test]
fn the_page_has_every_status_and_no_other() {
    let stated: Vec<Vec<String>> = rows(below("## Statuses"))
        .iter()
        .map(|row| row[..4].iter().map(|cell| cell.to_string()).collect())
        .collect();
    let known: Vec<Vec<String>> = Status::ALL
        .iter()
        .map(|s| {
            let retry = if s.is_retryable() { "yes" } else { "no" };
            vec![s.code().to_string(), format!("{s:?}"), retry.to_string(), s.text().to_string()]
        })
        .collect();
    assert_eq!(stated, known);
}

/// A name in backquotes that is written like a status must be one, so that none is listed under an old name.
// A3
#[test]
fn the_statuses_of_each_opcode_are_statuses() {
    let known: Vec<String> = Status::ALL.iter().map(|s| format!("{s:?}")).collect();
    for heading in headings("###") {
        let text = below(&format!("### {heading}"));
        let Some(line) = text.lines().find(|line| line.starts_with("Statuses: ")) else {
            assert_eq!(heading, "2 Malformed", "every request says how it may be answered");
            continue;
        };
        let named: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || line.contains("see above"), "{heading}");
        for name in named {
            let is_one = known.iter().any(|status| status == name);
            assert!(is_one || ["Recovered"].contains(&name), "{heading} names {name}");
        }
    }
}

// E1
#[test]
fn the_page_has_every_field_of_every_structure_and_no_other() {
    let known = structures();
    assert!(known.len() > 40, "the sources are read");
    let described = headings("####");
    let with_fields: Vec<&String> =
        known.iter().filter(|(_, f)| !f.is_empty()).map(|(name, _)| name).collect();
    let mut sorted = described.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, with_fields);
    for name in described {
        let stated: Vec<Field> =
            rows(below(&format!("#### {name}"))).iter().map(|row| field_of(row)).collect();
        assert_eq!(stated, known[name], "{name}");
    }
}

/// A row of the page: (n, field, type, meaning), or (number, name, meaning), or (case, n, field, type, meaning).
fn field_of(row: &[&str]) -> Field {
    let text = |cell: &str| cell.to_string();
    match row {
        [number, name, _] => (vec![text(number)], text(name), String::new()),
        [number, name, kind, _] => (vec![text(number)], text(name), text(kind)),
        [case, number, name, kind, _] => (vec![text(case), text(number)], text(name), text(kind)),
        _ => panic!("a row of {} cells: {row:?}", row.len()),
    }
}

// A2
#[test]
fn the_limits_that_the_page_tells_are_those_of_the_code() {
    for limit in [KEY_BYTES_MAX, VALUE_BYTES_MAX] {
        assert!(below("## Statuses").contains(&format!("at most {limit} bytes")));
    }
    assert!(below("#### TableOptions").contains(&format!("0 to {REPLICA_COUNT_MAX};")));
    assert!(below("#### Enlist").contains(&format!("at most {LABEL_COUNT_MAX} |")));
}

fn by_slots() -> TableOptions {
    TableOptions { slots: true, ..table_create(None).options }
}

fn table_create(left_open: Option<LeftOpen>) -> TableCreate {
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    TableCreate { name: "t".into(), options, left_open }
}

// E1
#[test]
fn structures_are_encoded_as_the_page_says() {
    let examples: BTreeMap<&str, String> = DOCUMENT
        .split_once("\n| example | bytes |\n")
        .map(|(_, rest)| rest.lines().skip(1).take_while(|line| line.starts_with('|')))
        .expect("the page has examples")
        .map(|line| line.trim_matches('|').split_once('|').expect("two cells"))
        .map(|(example, bytes)| (example.trim(), bytes.trim().trim_matches('`').to_string()))
        .collect();
    let label = Label { name: "host".into(), value: "a".into() };
    let said = table_create(None);
    let open = table_create(Some(LeftOpen::Replicas));
    let known = BTreeMap::from([
        ("`TableCreate`, table t, buffered, 3 replicas, all said", hex(&encoded(&said))),
        ("`TableCreate`, the same, the number left open", hex(&encoded(&open))),
        ("`SuspectServer`, server 5", hex(&encoded(&SuspectServer { server: ServerId(5) }))),
        ("`Label`, host = a", hex(&encoded(&label))),
        (
            "`RecoveryOutcome`, failed with reason x",
            hex(&encoded(&RecoveryOutcome::Failed { reason: "x".into(), no_room: false })),
        ),
    ]);
    assert_eq!(examples, known);
    assert_eq!(hex(&encoded(&Ping {})), "80");
    assert_eq!(hex(&encoded(&LogId { server: ServerId(7), shard: ShardId(1) })), "82 07 01");
}

// E1
#[test]
fn old_and_new_understand_each_other_as_the_page_says() {
    let update = ServerListUpdate {
        from: 0,
        to: 1,
        changed: Vec::new(),
        removed: Vec::new(),
        issued: ServerId(3),
        time: ClusterTime(4),
        coordinator: None,
        copyset_rings: None,
        placement: None,
        topology: Default::default(),
        bricks: None,
        accounts: None,
    };
    // Null at the end is left out, and may as well be written.
    assert_eq!(encoded(&update), [0x86, 0, 1, 0x80, 0x80, 3, 4]);
    assert_eq!(decode(&[0x87, 0, 1, 0x80, 0x80, 3, 4, 0xf6]), Ok(update));
    // A field that may not be null must be there.
    assert_eq!(decode::<ServerListUpdate>(&[0x85, 0, 1, 0x80, 0x80, 3]), Err(Status::BadRequest));
    // Fields of later versions, and bytes behind the structure, are passed over.
    assert_eq!(decode(&[0x82, 5, 0x61, b'x']), Ok(SuspectServer { server: ServerId(5) }));
    assert_eq!(decode(&[0x81, 5, 0x00]), Ok(SuspectServer { server: ServerId(5) }));
    // Before `left_open` was a field, all was said.
    assert_eq!(decode(&[0x83, 0x61, b't', 0x83, 1, 3, 0, 9]), Ok(table_create(None)));
    // Before `slots` was a field, no table was placed by them.
    let said = TableCreate { name: "t".into(), options: by_slots(), left_open: None };
    assert_eq!(decode(&[0x82, 0x61, b't', 0x84, 1, 3, 0, 0xf5]), Ok(said));
    // A value in the place of a former field is passed over.
    assert_eq!(decode(&[0x84, 0x61, b't', 0x83, 1, 3, 0, 9, 0]), Ok(table_create(Some(LeftOpen::Replicas))));
    // A name that is not known is refused.
    assert_eq!(decode::<TableCreate>(&[0x84, 0x61, b't', 0x83, 1, 3, 0, 9, 2]), Err(Status::BadRequest));
    assert_eq!(decode::<RecoveryOutcome>(&[0x82, 9, 0x80]), Err(Status::BadRequest));
}
