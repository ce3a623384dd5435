//! The handlers answer the commands in tests/transcripts as redis-server 7.0 does (J1).
//!
//! A line that starts with `>` is a request as one types it, the next one its reply, with escapes and without its last
//! line break, and with `*` for the notes of key specifications. `! wait N` lets N milliseconds pass, `! resp2` and
//! `! resp3` change the protocol, `! db N` the database. The replies are
//! written by `tests/transcripts/record.py`, which asks a redis-server; those in `own.txt` are of commands that it does
//! not have.

mod model;

use model::Model;
use ramhold_resp::{Limits, Parsed, Parser, Protocol};
use std::path::Path;

const LIMITS: Limits = Limits { args: 1024, arg_bytes: 1 << 20, bytes: 1 << 21 };

/// How many requests there are, and those that were answered otherwise.
fn replay(text: &str, name: &str) -> (usize, Vec<String>) {
    let mut model = Model::new(1_790_000_000_000);
    let (mut count, mut wrong) = (0, Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let place = format!("{name}:{}", index + 1);
        if let Some(request) = line.strip_prefix("> ") {
            let bytes = format!("{request}\n").into_bytes();
            let mut parser = Parser::default();
            assert_eq!(parser.parse(&bytes, &LIMITS), Parsed::Whole(bytes.len()), "{place}");
            let mut args = Vec::new();
            parser.args(&bytes, &mut args);
            let (_, want) = lines.next().unwrap_or_else(|| panic!("{place}: no reply"));
            let got = model.run(&args);
            let got = got.strip_suffix(b"\r\n").expect("a reply ends with a line break").escape_ascii();
            let got = without_notes(&got.to_string());
            if got != want {
                wrong.push(format!("{place}: {request}\n  want {want}\n  got  {got}"));
            }
            count += 1;
        } else if let Some(directive) = line.strip_prefix("! ") {
            match directive.split_once(' ').unwrap_or((directive, "")) {
                ("wait", millis) => model.now += millis.parse::<u64>().expect("a number of milliseconds"),
                ("db", index) => model.db = index.parse().expect("a database"),
                ("resp2", "") => model.protocol = Protocol::Resp2,
                ("resp3", "") => model.protocol = Protocol::Resp3,
                other => panic!("{place}: {other:?}"),
            }
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{place}: {line}");
        }
    }
    (count, wrong)
}

/// Notes of key specifications are for people, and everybody's own: what remains is that there is one.
fn without_notes(reply: &str) -> String {
    const NOTES: &str = r"notes\r\n$";
    let mut parts = reply.split(NOTES);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let behind = part.splitn(3, r"\r\n").nth(2).expect("a length and a text");
        format!(r"{before}{NOTES}*\r\n{behind}")
    })
}

#[test]
fn handlers_answer_as_redis_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the transcripts are there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = std::fs::read_to_string(&path).expect("readable");
            let (requests, otherwise) = replay(&text, &path.display().to_string());
            count += requests;
            wrong.extend(otherwise);
        }
    }
    assert!(count > 0, "the transcripts hold requests");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
