//! The kinds of entries, and the meaning of each kind for cleaning, division and recovery.
//!
//! One table describes every kind. A new kind needs a variant, a row here and its layout in `entry`. The compiler finds
//! all other places, because matches are exhaustive.
//!
//! Invariant: numbers are persisted, and a number is never used for another kind.
//! Bytes: docs/formats/log.md. Catalogue: C3.

/// The kind of an entry. The discriminant is the number in the entry's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    Object = 1,
    Tombstone = 2,
    SegmentHeader = 3,
    Digest = 4,
    SafeVersion = 5,
    TabletStats = 6,
    RpcResult = 7,
    /// In the log of a brick: one value of a key of a quorum table, or its tombstone.
    QuorumRecord = 12,
    /// In the heads of a brick's log: what is known of the segments that the digest names.
    Summaries = 13,
}

/// The partition of a recovery to which an entry goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// The partition that holds the hash of its key. A result carries that hash itself.
    ByKeyHash,
    /// No partition: the entry is about the log that it stands in, or nobody but its own log takes it.
    None,
}

/// How to tell whether an entry is still needed by its own log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alive {
    /// Needed while the index refers to it.
    WhileIndexed,
    /// Needed while a segment that it names may count in a recovery.
    WhileItsSegmentCounts,
    /// Needed until its client no longer needs it.
    WhileUnacknowledged,
    /// Needed for the recovery of its own segment. Cleaning never moves it.
    InItsSegment,
}

/// A row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    pub kind: Kind,
    pub name: &'static str,
    pub partition: Partition,
    pub alive: Alive,
}

/// All kinds, in the order of their numbers.
pub const KINDS: [KindRow; 9] = [
    row(Kind::Object, "object", Partition::ByKeyHash, Alive::WhileIndexed),
    row(Kind::Tombstone, "tombstone", Partition::ByKeyHash, Alive::WhileItsSegmentCounts),
    row(Kind::SegmentHeader, "segment header", Partition::None, Alive::InItsSegment),
    row(Kind::Digest, "log digest", Partition::None, Alive::InItsSegment),
    row(Kind::SafeVersion, "safe version", Partition::None, Alive::InItsSegment),
    row(Kind::TabletStats, "tablet statistics", Partition::None, Alive::InItsSegment),
    row(Kind::RpcResult, "RPC result", Partition::ByKeyHash, Alive::WhileUnacknowledged),
    row(Kind::QuorumRecord, "quorum record", Partition::None, Alive::WhileIndexed),
    row(Kind::Summaries, "segment summaries", Partition::None, Alive::InItsSegment),
];

/// Numbers that are reserved and have no layout yet. Until they have one, reading such a number is an error.
pub const RESERVED: [(u8, &str); 4] = [
    (8, "prepared operation"),
    (9, "prepared operation's tombstone"),
    (10, "transaction decision"),
    (11, "participant list"),
];

/// The largest number that fits the five bits of an entry's header.
pub const KIND_NUMBER_MAX: u8 = 31;

const fn row(kind: Kind, name: &'static str, partition: Partition, alive: Alive) -> KindRow {
    KindRow { kind, name, partition, alive }
}

impl Kind {
    /// The kind with a number. `None` for 0, for reserved numbers and for those of later versions.
    pub const fn from_number(number: u8) -> Option<Kind> {
        match number {
            1 => Some(Kind::Object),
            2 => Some(Kind::Tombstone),
            3 => Some(Kind::SegmentHeader),
            4 => Some(Kind::Digest),
            5 => Some(Kind::SafeVersion),
            6 => Some(Kind::TabletStats),
            7 => Some(Kind::RpcResult),
            12 => Some(Kind::QuorumRecord),
            13 => Some(Kind::Summaries),
            _ => None,
        }
    }

    pub const fn number(self) -> u8 {
        self as u8
    }

    pub const fn row(self) -> &'static KindRow {
        match self {
            Kind::QuorumRecord => &KINDS[7],
            Kind::Summaries => &KINDS[8],
            kind => &KINDS[kind as usize - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C3
    #[test]
    fn every_number_means_one_thing() {
        let mut seen = [false; KIND_NUMBER_MAX as usize + 1];
        for row in &KINDS {
            let number = usize::from(row.kind.number());
            assert!(!seen[number], "{}", row.name);
            assert_eq!(Kind::from_number(row.kind.number()), Some(row.kind));
            assert_eq!(row.kind.row().name, row.name);
            seen[number] = true;
        }
        for (number, name) in RESERVED {
            assert!(!seen[usize::from(number)], "{name}");
            assert_eq!(Kind::from_number(number), None);
            seen[usize::from(number)] = true;
        }
        assert_eq!(Kind::from_number(0), None);
    }
}
