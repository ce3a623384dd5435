//! A replica that a device has changed. The damage is found when the replica is read, and the next replica
//! serves.

use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_client::{Durability, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const SERVER_COUNT: usize = 4;
const OBJECT_COUNT: u64 = 24;
const OBJECT_BYTES: usize = 1 << 20;
const HEAD_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 512;
const CLOSED: u16 = 1;
const PRIMARY: u16 = 2;

fn value(number: u64) -> Vec<u8> {
    (0..OBJECT_BYTES as u64).map(|at| (at * 31 + (at >> 8) * 7 + number * 17) as u8).collect()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// For each segment, the place of its bytes in the frames of the backup that is asked first: the member, and
/// the offset in its file.
type Primaries = BTreeMap<(u64, u64), (usize, u64)>;

/// All closed primary replicas by server and segment; docs/formats/replica.md.
fn closed_primaries(cluster: &Cluster) -> io::Result<Primaries> {
    let mut found = BTreeMap::new();
    for member in 1..=SERVER_COUNT {
        let file = File::open(cluster.data_dir(member).join("frames"))?;
        let place_bytes = HEAD_BYTES + u64::from(SEGMENT_BYTES);
        for place in 0..file.metadata()?.len() / place_bytes {
            let mut head = [0; HEAD_BYTES as usize];
            file.read_exact_at(&mut head, place * place_bytes)?;
            let slots = head.chunks_exact(SLOT_BYTES).take(4);
            let newest = slots.max_by_key(|slot| number(slot, 8)).expect("a head has slots");
            let flags = u16::from_le_bytes([newest[6], newest[7]]);
            if flags & CLOSED != 0 && flags & PRIMARY != 0 {
                let segment = (number(newest, 32), number(newest, 40));
                found.insert(segment, (member, place * place_bytes + HEAD_BYTES));
            }
        }
    }
    Ok(found)
}

fn flip_bit(cluster: &Cluster, (member, at): (usize, u64)) -> io::Result<()> {
    let path = cluster.data_dir(member).join("frames");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let at = at + u64::from(SEGMENT_BYTES) / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1;
    file.write_all_at(&byte, at)
}

/// The damaged replica is the one that a recovery asks first. Its segment is one that only a recovery reads:
/// a start trusts closed segments, and a fence opens only the newest ones.
// F9, F4
#[test]
fn a_recovery_that_reads_a_flipped_bit_takes_the_next_replica() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options { servers: SERVER_COUNT, ..Options::default() })?;
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 1,
        slots: false,
        zone: None,
        quorum: None,
    };
    let mut client = cluster.client(PATIENCE)?;
    let table = client.create_table("data", options)?;
    for key in 0..OBJECT_COUNT {
        client.put(table, &key.to_le_bytes(), &value(key))?;
    }
    drop(client);
    cluster.stop_all()?;
    let primaries = closed_primaries(&cluster).expect("the frames can be read");
    assert!(primaries.len() > 1, "several segments are closed: {primaries:?}");
    let (_, damaged) = primaries.first_key_value().expect("there are some");
    flip_bit(&cluster, *damaged).expect("the frames can be written");

    cluster.start_all();
    cluster.wait_up(SERVER_COUNT)?;
    let mut client = cluster.client(PATIENCE)?;
    for key in 0..OBJECT_COUNT {
        let object = client.get(table, &key.to_le_bytes())?;
        assert!(object.is_some_and(|object| object.value == value(key)), "object {key}");
    }
    // A process's reports reach its log a little later.
    wait_for("a report of the damage", PATIENCE, || {
        let printed = cluster.process(damaged.0).printed();
        Ok(if printed.contains("is corrupt") { Ok(()) } else { Err(printed) })
    })?;
    assert!(cluster.status()?.losses.is_empty());
    Ok(())
}
