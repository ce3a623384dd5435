//! Quorum tables for a human and as JSON: what is promised, what it costs, and which bricks hold which keys (I1).

use super::counted::Counted;
use crate::failure::{Failure, REFUSED};
use crate::output::{self, Columns};
use ramhold_base::hash::slot_of_hash;
use ramhold_client::{
    BrickTablet, Durability, KeyHash, QuorumOptions, TableDescription, TableOptions, WriteProtocol,
};
use serde_json::{Value, json};

pub fn by_slots(options: &TableOptions) -> &'static str {
    if options.slots { ", by slots" } else { "" }
}

/// `3 bricks (W 2, R 2, adaptive)`.
pub fn numbers(quorum: QuorumOptions) -> String {
    let QuorumOptions { bricks, write, read, protocol } = quorum;
    let bricks = if bricks == 1 { "1 brick".to_owned() } else { format!("{bricks} bricks") };
    format!("{bricks} (W {write}, R {read}, {})", protocol.name())
}

/// The paper's name of a tablet: the bits of all its hashes, the first one last. `None`: it is no prefix range.
fn suffix(first: KeyHash, last: KeyHash) -> Option<String> {
    let varying = 64 - (first.0 ^ last.0).leading_zeros();
    let rest = if varying == 64 { u64::MAX } else { (1 << varying) - 1 };
    if first.0 & rest != 0 || last.0 & rest != rest {
        return None;
    }
    Some((varying..64).map(|bit| if first.0 >> bit & 1 == 1 { '1' } else { '0' }).collect())
}

fn suffix_text(tablet: &BrickTablet) -> String {
    match suffix(tablet.first, tablet.last) {
        None => "-".into(),
        Some(suffix) if suffix.is_empty() => "all".into(),
        Some(suffix) => suffix,
    }
}

fn of_key(bricks: u8) -> String {
    match bricks {
        0 => "none of a key's bricks".to_owned(),
        1 => "one of a key's bricks".to_owned(),
        count => format!("{count} of a key's bricks"),
    }
}

/// How many bricks may be away. A read needs W as well, and so does a write need R that asks for stamps first, as an
/// adaptive one does while a brick is away (docs/protocols/quorum.md, rules 6 and 7).
fn stands(quorum: QuorumOptions) -> String {
    let spare = quorum.bricks - quorum.write.max(quorum.read);
    let away = |count| match count {
        1 => "while one of a key's bricks is away".to_owned(),
        count => format!("while {count} of a key's bricks are away"),
    };
    match quorum.protocol {
        WriteProtocol::Single if quorum.read > quorum.write => {
            let writes = away(quorum.bricks - quorum.write);
            let reads =
                if spare == 0 { "reads wait then".to_owned() } else { format!("reads {}", away(spare)) };
            format!("writes go on {writes}; {reads}")
        }
        _ if spare == 0 => format!("reads and writes wait {}", away(1)),
        _ => format!("reads and writes go on {}", away(spare)),
    }
}

pub fn description_text(
    table: &TableDescription,
    quorum: QuorumOptions,
    tablets: &[BrickTablet],
    objects: Counted,
) -> String {
    let synced = table.options.durability == Durability::Synced;
    let power = if synced {
        "a power cut of all".to_owned()
    } else {
        format!("a power cut of {}", of_key(quorum.bricks - quorum.read))
    };
    let stands = stands(quorum);
    let mut text = format!(
        "table '{}' ({}): {}, held by {}, {}{}\n\
         holds        {}\n\
         promises     each key is linearizable; no conditions, increments or transactions\n\
         stands       {stands}\n\
         survives     the kill of all bricks, and {power}\n\
         costs        {}x DRAM, {}x disk\n",
        output::bytes_for_eyes(table.name.as_bytes()),
        table.table,
        table.options.durability.name(),
        numbers(quorum),
        match tablets.len() {
            1 => "1 tablet".to_owned(),
            count => format!("{count} tablets"),
        },
        by_slots(&table.options),
        objects.text(),
        quorum.bricks,
        quorum.bricks,
    );
    let bounds = if table.options.slots { ["first slot", "last slot"] } else { ["first hash", "last hash"] };
    let bound = |hash| match table.options.slots {
        true => slot_of_hash(hash).to_string(),
        false => format!("{hash:?}"),
    };
    let mut columns = Columns::new(["suffix", bounds[0], bounds[1], "epoch", "bricks"]);
    for tablet in tablets {
        let mut bricks: Vec<String> = tablet.bricks.iter().map(|place| place.brick.to_string()).collect();
        bricks.extend(
            tablet.giving.map(|giving| format!("({} takes it from {})", giving.new, giving.old.brick)),
        );
        columns.row([
            suffix_text(tablet),
            bound(tablet.first),
            bound(tablet.last),
            tablet.epoch.to_string(),
            bricks.join(" "),
        ]);
    }
    text.push_str(&columns.text());
    text
}

pub fn numbers_json(quorum: QuorumOptions) -> Value {
    json!({
        "bricks": quorum.bricks,
        "write": quorum.write,
        "read": quorum.read,
        "protocol": quorum.protocol.name(),
    })
}

pub fn tablets_json(tablets: &[BrickTablet]) -> Value {
    let tablet = |tablet: &BrickTablet| {
        let bricks = tablet.bricks.iter();
        json!({
            "suffix": suffix(tablet.first, tablet.last),
            "first_hash": format!("{:?}", tablet.first),
            "last_hash": format!("{:?}", tablet.last),
            "epoch": tablet.epoch,
            "moves": tablet.giving.map(|it| json!({"from": it.old.brick.raw(), "to": it.new.raw()})),
            "bricks": bricks
                .map(|place| json!({"brick": place.brick.raw(), "address": place.address.0.to_string()}))
                .collect::<Vec<_>>(),
        })
    };
    json!(tablets.iter().map(tablet).collect::<Vec<_>>())
}

/// A quorum table keeps its options, and is cut and joined as bricks come and go.
pub fn is_held_by_bricks(name: &str) -> Failure {
    let text = "bricks hold it, and its tablets are cut and joined as bricks are added and removed: 'ramhold brick add', \
                'ramhold brick remove'; its options cannot be altered: create another table and copy the objects";
    Failure::new(REFUSED, text).about(&format!("table '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // I1: as a session does with one brick away (core/client/tests/transcripts/thresholds.rs).
    #[test]
    fn the_larger_quorum_says_how_many_bricks_may_be_away() {
        let stands =
            |bricks, write, read, protocol| super::stands(QuorumOptions { bricks, write, read, protocol });
        for protocol in [WriteProtocol::Adaptive, WriteProtocol::TwoPhase, WriteProtocol::Single] {
            let one = "reads and writes go on while one of a key's bricks is away";
            assert_eq!(stands(3, 2, 2, protocol), one);
            assert_eq!(stands(4, 3, 2, protocol), one, "the default of four bricks");
            assert_eq!(
                stands(5, 3, 3, protocol),
                "reads and writes go on while 2 of a key's bricks are away"
            );
            let none = "reads and writes wait while one of a key's bricks is away";
            assert_eq!(stands(3, 3, 1, protocol), none);
            assert_eq!(stands(3, 3, 3, protocol), none);
        }
        assert_eq!(stands(3, 2, 3, WriteProtocol::Adaptive), stands(3, 3, 1, WriteProtocol::Single));
        let alone = "writes go on while one of a key's bricks is away; reads wait then";
        assert_eq!(stands(3, 2, 3, WriteProtocol::Single), alone);
        let both =
            "writes go on while 2 of a key's bricks are away; reads while one of a key's bricks is away";
        assert_eq!(stands(5, 3, 4, WriteProtocol::Single), both);
    }

    // I4: the golden ranges of the paper's suffixes, by the first bits of the hash.
    #[test]
    fn a_prefix_range_is_named_by_its_bits_reversed() {
        let half = 1 << 63;
        let named = |first, last| suffix(KeyHash(first), KeyHash(last));
        assert_eq!(named(0, u64::MAX).as_deref(), Some(""));
        assert_eq!(named(0, half - 1).as_deref(), Some("0"));
        assert_eq!(named(half, half + (half / 2 - 1)).as_deref(), Some("01"));
        assert_eq!(named(half, half + (half / 4 - 1)).as_deref(), Some("001"));
        assert_eq!(named(half + half / 4, half + half / 2 - 1).as_deref(), Some("101"));
        assert_eq!(named(1, u64::MAX), None);
        assert_eq!(named(5, 5).map(|suffix| suffix.len()), Some(64));
    }
}
