//! docs/redis-commands.md is what the table of commands says. `UPDATE=1` writes it anew.

use ramhold_base::limits::{EXPIRY_MILLIS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_resp::Run;
use ramhold_resp::commands::describe::{class_names, full_name, rows};
use std::fmt::Write;
use std::path::Path;

/// Groups in the order of the page, as the table and as the page call them.
const GROUPS: &[(&str, &str)] = &[
    ("string", "Strings"),
    ("bitmap", "Bits"),
    ("generic", "Keys"),
    ("transactions", "Transactions"),
    ("pubsub", "Messages"),
    ("connection", "Connection"),
    ("scripting", "Functions"),
    ("server", "Server"),
    ("cluster", "Cluster"),
];

fn page() -> String {
    let mut out = format!(
        "# Redis commands

Every server answers these on its port, in RESP2 and RESP3, for the whole cluster.
Replies, errors and edge cases are those of Redis 7.0 unless the table says otherwise; what is not here is answered as an unknown command, and the error says what there is.
Written from the table in `core/resp/src/commands.rs` by `UPDATE=1 cargo test -p ramhold-resp --test document`.

## Limits
| what | here | Redis |
|---|---|---|
| bytes of a key | {KEY_BYTES_MAX} | 536870912 |
| bytes of a value, and so offsets of SETRANGE, SETBIT and BITFIELD | {VALUE_BYTES_MAX} | 536870912 |
| milliseconds until an object ends | {EXPIRY_MILLIS_MAX} | 2^63 less the time since 1970 |

What is larger is refused with an error that says so; GETBIT and the like read zeros behind a string as far as Redis does.

## Several keys
MGET, DEL, UNLINK, EXISTS and TOUCH, and MSET of keys with different hash slots, take keys from anywhere in the cluster, each by itself.
Every other command of several keys, and the commands between MULTI and EXEC with all their keys and the watched ones, take effect as one. Their keys must have one hash slot, as keys with the same hash tag have (`{{user7}}:name`, `{{user7}}:mail`), and be in one database; otherwise the command or the EXEC is refused with CROSSSLOT, whichever servers have the keys.
`ramhold server --resp-cross-slot allow` (also `ramhold dev`) lets keys of any slots and databases take effect together if one server has them all: always on a cluster of one server, where MSET of any keys is then one step, too. On several servers it depends on where the keys are at that moment.
The slot decides for tables placed by slots, as every table is that a Redis command has made. Keys of a table that was made otherwise and is given with `--resp-table` are refused with CROSSSLOT if several servers have them.
What takes effect as one has at most 256 keys and 4 MiB; more is refused with an error that says so.

## Quorum tables
`--resp-table 1=carts` makes a quorum table the table of database 1. Bricks hold its keys, and no server; any server answers.
The last column of the tables below says how each command works on such a database.
A quorum table takes no conditions: a command that changes a key depending on what the key holds is refused, and so is every transaction. The error names the command and the table, and nothing has taken effect.
Rules, errors and the limits of a command over several keys: [protocols/resp.md](protocols/resp.md), section 8.
"
    );
    for (group, title) in GROUPS {
        let _ = write!(
            out,
            "\n## {title}\n| command | since | classes | what | differences | quorum table |\n|---|---|---|---|---|---|\n"
        );
        for (container, row) in rows().filter(|(_, row)| row.group == *group) {
            if matches!(row.run, Run::Container(_)) && row.name != "command" {
                continue;
            }
            let name = full_name(container, row).replace('|', " ").to_ascii_uppercase();
            let form = format!("{name} {}", row.usage).trim_end().replace('|', "\\|");
            let classes = class_names(row).join(" ");
            let _ = writeln!(
                out,
                "| `{form}` | {} | {classes} | {} {} | {} | {} |",
                row.since,
                row.summary,
                complexity(row.complexity),
                row.note,
                row.on_quorum().text()
            );
        }
    }
    out
}

fn complexity(text: &str) -> String {
    let text = text.trim_end_matches('.');
    if text.is_empty() { String::new() } else { format!("{text}.") }
}

// J1: the page says what the table does.
#[test]
fn the_page_is_in_step_with_the_table() {
    assert!(rows().all(|(_, row)| GROUPS.iter().any(|(group, _)| row.group == *group)));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/redis-commands.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is there");
    assert!(written == page(), "write it anew: UPDATE=1 cargo test -p ramhold-resp --test document");
}
