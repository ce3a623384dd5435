//! Entries and their bytes: what comes back, and what is refused.

use super::*;
use ramhold_base::Stamp;

fn round_trip(entry: Entry<'_>) {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    assert_eq!(bytes.len(), entry.entry_bytes());
    assert_eq!(Entry::decode(&bytes), Ok((entry, bytes.len())));
    for cut in 0..bytes.len() {
        assert_eq!(Entry::decode(&bytes[..cut]), Err(Damage::Truncated));
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Entry::decode(&flipped).is_err(), "bit {bit} of {entry:?}");
    }
}

// C1, C3
#[test]
fn every_kind_comes_back_and_no_flipped_bit_does() {
    for version in [Version(1), Version(u64::from(u32::MAX)), Version(1 << 32), VERSION_MAX] {
        for (key, value) in [(&b""[..], &b""[..]), (b"key", b"value"), (b"", b"v"), (b"k", b"")] {
            let (table, time) = (TableId(7), 9);
            for count in [0, 1, 2, OBJECT_OLDER_COUNT_MAX as u64, TOMBSTONE_OLDER_COUNT_MAX as u64] {
                let older: OlderList = (0..count).map(|n| SegmentId(1 + n * (n << 30))).collect();
                round_trip(Entry::Tombstone(Tombstone { table, version, time, segments: older, key }));
                for expires in [None, Some(ClusterTime(0)), Some(ClusterTime(u64::MAX))] {
                    let object = Object { table, version, time, expires, key, value };
                    if count <= OBJECT_OLDER_COUNT_MAX as u64 {
                        round_trip(Entry::Object(object, older));
                    }
                }
            }
        }
    }
    round_trip(Entry::SegmentHeader(SegmentHeader {
        cluster: ClusterId(1),
        log: LogId { server: ServerId(2), shard: ShardId(3) },
        stream: StreamId(4),
        segment: SegmentId(5),
        created: ClusterTime(6),
    }));
    round_trip(Entry::Digest(Digest::new(
        StreamId(1),
        &encode_segments([1, 2, 9].map(SegmentId).into_iter()),
    )));
    let versions = [(0, 46), (u64::from(u32::MAX), 46), (1 << 32, 50), (VERSION_MAX.0, 50)];
    let numbers = [(None, 0), (Some(0), 8), (Some(u64::MAX), 8)];
    let both = versions.iter().flat_map(|version| numbers.map(|number| (*version, number)));
    for ((version, bytes), (number, number_bytes)) in both {
        let result = RpcResult {
            table: TableId(1),
            hash: KeyHash(u64::MAX),
            lease: LeaseId(1),
            sequence: Sequence(u64::MAX),
            floor: Sequence(u64::MAX - version % 9),
            status: Status::WrongVersion,
            version: Version(version),
            number,
        };
        round_trip(Entry::RpcResult(result));
        assert_eq!(result.entry_bytes(), bytes + number_bytes);
    }
    round_trip(Entry::SafeVersion(Version(0)));
    round_trip(Entry::SafeVersion(Version(77)));
    let stat = TabletStat { table: TableId(1), first: KeyHash(2), last: KeyHash(3), bytes: 4, records: 5 };
    let list = encode_stats(&[stat, stat]);
    assert!(TabletStats::new(&list).tablets().eq([stat, stat]));
    round_trip(Entry::TabletStats(TabletStats::new(&list)));
    let summaries = [0, 7, u64::MAX].map(|stamp_newest| Summary { stamp_newest, entry_count: 9 });
    let list = encode_summaries(summaries.into_iter());
    assert!(Summaries::new(&list).segments().eq(summaries));
    round_trip(Entry::Summaries(Summaries::new(&list)));
}

// C3
#[test]
fn an_object_costs_twenty_two_bytes_beyond_key_and_value() {
    let (table, version) = (TableId(1), Version(1));
    let object = Object { table, version, time: 0, expires: None, key: b"key", value: b"value" };
    assert_eq!(object.entry_bytes(), 22 + 3 + 5);
    let entry = |count| Entry::Object(object, (1..=count).map(SegmentId).collect()).entry_bytes();
    assert_eq!([0, 1, 8].map(entry), [30, 30 + 6, 30 + 41]);
    assert_eq!(Object { expires: Some(ClusterTime(1)), ..object }.entry_bytes(), 30 + 8);
}

/// Bytes with a matching checksum whose fields contradict the format are refused.
#[test]
fn intact_bytes_that_contradict_the_format_are_malformed() {
    let sealed = |number: u8, flags: u32, body: &[u8]| {
        let word = u32::from(number) << KIND_SHIFT | flags | body.len() as u32;
        let mut bytes = vec![0; 4];
        bytes.put_u32(word);
        bytes.put_bytes(body);
        let crc = crc_append(0, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    let object = |version: u32, key_bytes: u16| {
        let mut body = Vec::new();
        body.put_u32(1);
        body.put_u32(version);
        body.put_u32(0);
        body.put_u16(key_bytes);
        body.put_bytes(b"key");
        body
    };
    assert!(Entry::decode(&sealed(1, 0, &object(1, 3))).is_ok());
    let malformed = |kind| Err(Damage::Malformed(kind));
    assert_eq!(Entry::decode(&sealed(1, 0, &object(1, 4))), malformed(Kind::Object));
    assert_eq!(Entry::decode(&sealed(1, 0, &object(0, 3))), malformed(Kind::Object));
    assert_eq!(Entry::decode(&sealed(1, WIDE, &object(1, 3))), malformed(Kind::Object));
    assert_eq!(Entry::decode(&sealed(1, EXPIRES, &object(1, 3))), malformed(Kind::Object));
    assert_eq!(Entry::decode(&sealed(0, 0, b"")), Err(Damage::UnknownKind(0)));
    assert_eq!(Entry::decode(&sealed(8, 0, b"x")), Err(Damage::UnknownKind(8)));
    let result = |lease: u8, sequence: u8, status: u8| {
        let ids = [[lease, 0, 0, 0, 0, 0, 0, 0], [sequence, 0, 0, 0, 0, 0, 0, 0]].concat();
        [&[1; 12][..], &ids, &[sequence, 0, 0, 0], &[status, 0], &[9, 0, 0, 0]].concat()
    };
    assert!(Entry::decode(&sealed(7, 0, &result(1, 1, 0))).is_ok());
    let numbered = [result(1, 1, 0), vec![3; 8]].concat();
    assert!(Entry::decode(&sealed(7, NUMBER, &numbered)).is_ok());
    assert_eq!(Entry::decode(&sealed(7, 0, &numbered)), malformed(Kind::RpcResult));
    assert_eq!(Entry::decode(&sealed(7, NUMBER, &numbered[..45])), malformed(Kind::RpcResult));
    let mut below_zero = result(1, 1, 0);
    below_zero[28] = 2;
    for body in [result(0, 1, 0), result(1, 0, 0), result(1, 1, 200), vec![1; 12], below_zero] {
        assert_eq!(Entry::decode(&sealed(7, 0, &body)), malformed(Kind::RpcResult));
    }
    for flag in [WIDE, EXPIRES, OLDER] {
        assert_eq!(Entry::decode(&sealed(7, flag, &result(1, 1, 0))), malformed(Kind::RpcResult));
    }
    assert_eq!(Entry::decode(&sealed(31, FLAGS, b"x")), Err(Damage::UnknownKind(31)));
    assert_eq!(Entry::decode(&sealed(4, 0, &[0; 9])), malformed(Kind::Digest));
    assert_eq!(Entry::decode(&sealed(6, 0, &[0; 37])), malformed(Kind::TabletStats));
    assert_eq!(Entry::decode(&sealed(13, 0, &[0; 13])), malformed(Kind::Summaries));
    assert_eq!(Entry::decode(&sealed(5, 0, &[255; 8])), malformed(Kind::SafeVersion));
    assert_eq!(Entry::decode(&sealed(3, 0, &[2; 38])), Err(Damage::UnknownFormat(0x0202)));

    // Flags belong to records alone, and only objects expire.
    let header = [&[2, 0][..], &[1; 36]].concat();
    let bodies = [(Kind::Digest, &[0; 10][..]), (Kind::SafeVersion, &[0; 8]), (Kind::TabletStats, &[])];
    let others = [(Kind::SegmentHeader, &header[..]), (Kind::Summaries, &[0; 24])];
    for (kind, body) in bodies.into_iter().chain(others) {
        assert!(Entry::decode(&sealed(kind.number(), 0, body)).is_ok());
        for flag in [WIDE, EXPIRES, OLDER] {
            assert_eq!(Entry::decode(&sealed(kind.number(), flag, body)), malformed(kind));
        }
    }
    let tombstone = [&[1, 0, 0, 0, 1][..], &[0; 30]].concat();
    assert!(Entry::decode(&sealed(2, 0, &tombstone)).is_ok());
    assert_eq!(Entry::decode(&sealed(2, EXPIRES, &tombstone)), malformed(Kind::Tombstone));
}

// C1, C4
#[test]
fn a_list_that_names_too_many_segments_or_none_is_malformed() {
    let entry = |kind: Kind, count: u8, ids: &[u8]| {
        let fixed = [&[1, 0, 0, 0, 1][..], &[0; 7]].concat();
        let key_bytes: &[u8] = if kind == Kind::Object { &[0, 0] } else { &[] };
        let list: Vec<u8> = ids.iter().flat_map(|id| [*id, 0, 0, 0, 0]).collect();
        let body = [&fixed, key_bytes, &[count], &list].concat();
        let word = u32::from(kind.number()) << KIND_SHIFT | OLDER | body.len() as u32;
        let mut bytes = vec![0; 4];
        bytes.put_u32(word);
        bytes.put_bytes(&body);
        let crc = crc_append(0, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        Entry::decode(&bytes).map(|_| ()).map_err(|damage| assert_eq!(damage, Damage::Malformed(kind)))
    };
    for (kind, count_max) in [(Kind::Object, 8), (Kind::Tombstone, 9)] {
        let ids: Vec<u8> = (1..=10).collect();
        for count in 0..=10 {
            let is_fine = count >= 1 && count <= count_max;
            assert_eq!(entry(kind, count, &ids[..usize::from(count)]).is_ok(), is_fine, "{count}");
        }
        assert!(entry(kind, 2, &[1, 2]).is_ok());
        assert!(entry(kind, 2, &[2, 2]).is_err());
        assert!(entry(kind, 2, &[2, 1]).is_err());
        assert!(entry(kind, 2, &[0, 1]).is_err());
        assert!(entry(kind, 3, &[1, 2]).is_err(), "the list ends with the entry");
    }
}

// C1
#[test]
fn the_format_of_before_is_refused() {
    let header = SegmentHeader {
        cluster: ClusterId(1),
        log: LogId::default(),
        stream: StreamId(1),
        segment: SegmentId(1),
        created: ClusterTime(0),
    };
    let mut bytes = Vec::new();
    Entry::SegmentHeader(header).encode(&mut bytes);
    assert_eq!(bytes[HEADER_BYTES], 2);
    assert_eq!(bytes[4..8], [38, 0, 0, 3 << 2], "length and kind where format 1 had them");
    bytes[HEADER_BYTES] = 1;
    let crc = crc_append(0, &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Entry::decode(&bytes), Err(Damage::UnknownFormat(1)));
}

// C1, I1
#[test]
fn a_quorum_record_comes_back_and_contradictions_are_malformed() {
    let table = TableId(7);
    for time in [1, 1_700_000_000_000_000, VERSION_MAX.0] {
        for session in [1, 2, u64::MAX] {
            let stamp = Stamp { time, session };
            for (key, value) in [(&b""[..], Some(&b""[..])), (b"key", Some(b"value")), (b"k", None)] {
                for expires in [None, Some(ClusterTime(u64::MAX))] {
                    let record = QuorumRecord { table, stamp, expires, key, value };
                    if value.is_some() || expires.is_none() {
                        round_trip(Entry::QuorumRecord(record));
                    }
                }
            }
        }
    }
    let sealed = |flags: u32, time: u64, session: u64, key_bytes: u16, rest: &[u8]| {
        let fields = [&7_u32.to_le_bytes()[..], &time.to_le_bytes(), &session.to_le_bytes()].concat();
        let body = [&fields, &key_bytes.to_le_bytes()[..], rest].concat();
        let word = u32::from(Kind::QuorumRecord.number()) << KIND_SHIFT | flags | body.len() as u32;
        let covered = [&word.to_le_bytes()[..], &body].concat();
        let bytes = [&crc_append(0, &covered).to_le_bytes()[..], &covered].concat();
        Entry::decode(&bytes).map(|_| ())
    };
    // Bit 24 says that there is no value.
    const DELETED: u32 = WIDE;
    assert_eq!(sealed(0, 1, 1, 1, b"kv"), Ok(()));
    assert_eq!(sealed(DELETED, 1, 1, 1, b"k"), Ok(()));
    let malformed = Err(Damage::Malformed(Kind::QuorumRecord));
    for (flags, time, session, key_bytes, rest) in [
        (0, 0, 1, 1, &b"kv"[..]),
        (0, VERSION_MAX.0 + 1, 1, 1, b"kv"),
        (0, 1, 0, 1, b"kv"),
        (0, 1, 1, 3, b"kv"),
        (DELETED, 1, 1, 1, b"kv"),
        (OLDER, 1, 1, 1, b"kv"),
        (EXPIRES, 1, 1, 1, b"kv"),
        (DELETED | EXPIRES, 1, 1, 1, b"12345678k"),
    ] {
        assert_eq!(sealed(flags, time, session, key_bytes, rest), malformed, "{flags:x} {time} {session}");
    }
}
