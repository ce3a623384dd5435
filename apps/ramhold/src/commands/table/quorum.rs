//! Quorum tables for a human and as JSON: what is promised, what it costs, and which bricks hold which keys (I1).

use super::counted::Counted;
use crate::failure::{Failure, REFUSED};
use crate::output::{self, Columns};
use ramhold_base::hash::slot_of_hash;
use ramhold_client::{BrickTablet, Durability, KeyHash, QuorumOptions, TableDescription, TableOptions};
use serde_json::{Value, json};

pub fn by_slots(options: &TableOptions) -> &'static str {
    if options.slots { ", by slots" } else { "" }
}

/// `3 bricks (W 2, R 2, adaptive)`.
pub fn numbers(quorum: QuorumOptions) -> String {
    let QuorumOptions { bricks, write, read, protocol } = quorum;
    format!("{bricks} bricks (W {write}, R {read}, {})", protocol.name())
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

pub fn description_text(
    table: &TableDescription,
    quorum: QuorumOptions,
    tablets: &[BrickTablet],
    objects: Counted,
) -> String {
    let spare = quorum.bricks - quorum.write.max(quorum.read);
    let synced = table.options.durability == Durability::Synced;
    let power = if synced {
        "a power cut of all".to_owned()
    } else {
        format!("a power cut of {}", of_key(quorum.bricks - quorum.read))
    };
    let stands = match spare {
        0 => "writes wait while one of a key's bricks is away".to_owned(),
        1 => "reads and writes go on while one of a key's bricks is away".to_owned(),
        spare => format!("reads and writes go on while {spare} of a key's bricks are away"),
    };
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
        let bricks: Vec<String> = tablet.bricks.iter().map(|place| place.brick.to_string()).collect();
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
            "bricks": bricks
                .map(|place| json!({"brick": place.brick.raw(), "address": place.address.0.to_string()}))
                .collect::<Vec<_>>(),
        })
    };
    json!(tablets.iter().map(tablet).collect::<Vec<_>>())
}

/// A quorum table stays as it was created.
pub fn is_held_by_bricks(name: &str) -> Failure {
    let text = "bricks hold it, and a quorum table cannot be altered, split or merged; create another table and copy the \
                objects";
    Failure::new(REFUSED, text).about(&format!("table '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
