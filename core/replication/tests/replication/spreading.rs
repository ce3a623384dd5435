//! Segments whose copies are all in one zone: a replica of each moves when another zone is there. Catalogue: H1.

use crate::bench::{Backup, Bench, STREAM};
use ramhold_base::{SegmentId, ServerId, ShardId};
use ramhold_replication::{ReplicationConfig, Segments};

/// The master, and servers 1 to 9, are in zone a; servers from 10 on are in zone b.
fn zone(server: ServerId) -> &'static str {
    if (10..100).contains(&server.raw()) { "b" } else { "a" }
}

fn bench(seed: u64, segments: usize) -> Bench {
    let mut config = ReplicationConfig::new(ShardId(0));
    config.append_bytes_max = 64;
    config.copies_max = 2;
    bench_with(config, seed, segments)
}

fn bench_with(config: ReplicationConfig, seed: u64, segments: usize) -> Bench {
    let mut bench = Bench::with(config, seed, 4);
    bench.zone_of = Some(zone);
    bench.publish();
    for _ in 0..segments {
        write(&mut bench, 200);
        bench.pass(300);
        bench.roll();
        bench.pass(300);
    }
    bench
}

fn write(bench: &mut Bench, bytes: usize) {
    let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
    let length = segment.len() + bytes;
    segment.resize(length, 9);
}

fn add(bench: &mut Bench, server: u64) {
    bench.alive.insert(ServerId(server), Backup::default());
    bench.publish();
}

/// Lets time pass as the shard and the backups would: unspread heads are rolled, devices flush, replicas are asked about.
fn live(bench: &mut Bench, millis: u64) {
    bench.pass(millis);
    if bench.replicator.take_to_roll().contains(&STREAM) {
        bench.roll();
    }
    for server in bench.alive.keys().copied().collect::<Vec<_>>() {
        bench.flush(server);
    }
    bench.collect();
}

fn closed(bench: &Bench) -> Vec<SegmentId> {
    bench.log.0.iter().filter(|(_, (_, closed))| *closed).map(|(id, _)| *id).collect()
}

fn unspread(bench: &Bench) -> u64 {
    bench.replicator.unspread_count(STREAM, &bench.view)
}

#[test]
fn what_was_written_without_a_zone_moves_when_the_zone_is_back_and_never_lacks_a_replica() {
    let mut bench = bench(1, 8);
    for _ in 0..20 {
        live(&mut bench, 100);
    }
    assert!(bench.replicator.is_fully_replicated());
    assert_eq!(unspread(&bench), 0, "there is no other zone");
    add(&mut bench, 10);
    assert_eq!(unspread(&bench), 9, "eight closed segments and the head");
    let mut rounds = 0;
    while unspread(&bench) > 0 {
        live(&mut bench, 20);
        for segment in closed(&bench) {
            // The former head is still being closed.
            let is_former = bench.replicator.replicas_of(segment).any(|seen| !seen.closed);
            assert!(is_former || bench.whole_count(segment) >= 3, "{segment}");
        }
        rounds += 1;
        assert!(rounds < 1000, "{} are left", unspread(&bench));
    }
    live(&mut bench, 100);
    assert!(bench.replicator.is_fully_replicated());
    for segment in closed(&bench) {
        let backups: Vec<ServerId> = bench.replicator.replicas_of(segment).map(|seen| seen.backup).collect();
        assert_eq!(backups.len(), 3, "{segment}: {backups:?}");
        assert!(backups.contains(&ServerId(10)), "{segment}: {backups:?}");
        assert_eq!(bench.whole_count(segment), 3, "the replaced replica of {segment} is freed");
    }
}

#[test]
fn moves_keep_to_the_rate_of_copies() {
    let mut config = ReplicationConfig::new(ShardId(0));
    config.append_bytes_max = 20_000;
    config.copy_bytes_per_second = 200_000;
    let mut bench = bench_with(config, 1, 0);
    bench.calm = true;
    bench.wire.clear();
    bench.pass(1000);
    for _ in 0..8 {
        write(&mut bench, 100_000);
        bench.pass(100);
        bench.roll();
        bench.pass(100);
    }
    add(&mut bench, 10);
    bench.sent.clear();
    for _ in 0..38 {
        live(&mut bench, 100);
    }
    assert!(unspread(&bench) > 0, "not faster than the rate");
    for _ in 0..6 {
        live(&mut bench, 100);
    }
    assert_eq!(unspread(&bench), 0, "not much slower either");
    let is_closed = |id: &SegmentId| bench.log.tail(*id).is_some_and(|tail| tail.closed);
    let sent: usize = bench.sent.iter().filter(|(_, id, _)| is_closed(id)).map(|(.., bytes)| bytes).sum();
    assert!((800_000..801_000).contains(&sent), "one replica of each segment is sent once: {sent} bytes");
}

/// Backups elsewhere that have no room leave a head unspread, and the log does not grow by that.
#[test]
fn a_head_that_cannot_be_spread_is_rolled_ever_less_often() {
    let mut bench = bench(1, 0);
    (bench.calm, bench.full_from) = (true, Some(ServerId(10)));
    add(&mut bench, 10);
    for _ in 0..60 {
        live(&mut bench, 1000);
    }
    let segments = bench.log.0.len();
    assert!((4..=6).contains(&segments), "{segments} segments in a minute");
    bench.full_from = None;
    for _ in 0..70 {
        live(&mut bench, 1000);
    }
    assert_eq!(unspread(&bench), 0);
}

/// Backups die, also while replicas move there and away, and the network loses, doubles and delays.
#[test]
fn moves_and_losses_end_with_every_segment_spread_and_whole() {
    for seed in 0..300 {
        let mut bench = bench(seed, 3);
        bench.late = seed % 2 == 0;
        let mut next = [5, 10];
        for _ in 0..40 {
            match bench.rng.below(8) {
                0 => {
                    let some: Vec<ServerId> = bench.alive.keys().copied().collect();
                    let up = some.len();
                    let victim = *bench.rng.pick(&some).unwrap();
                    // Never more than one at a time: three replicas must outlive this.
                    if up > 4 && bench.replicator.is_fully_replicated() {
                        bench.kill(victim);
                    }
                }
                1 | 2 => {
                    let zone = bench.rng.below(2) as usize;
                    let most = [9, 30][zone];
                    if next[zone] <= most {
                        add(&mut bench, next[zone]);
                        next[zone] += 1;
                    }
                }
                3 => write(&mut bench, 70),
                4 if bench.log.0.len() < 12 => bench.roll(),
                5 => bench.refuse = !bench.refuse,
                _ => {}
            }
            let millis = bench.rng.between(1, 400);
            live(&mut bench, millis);
        }
        (bench.refuse, bench.late) = (false, false);
        add(&mut bench, 40);
        add(&mut bench, 99);
        add(&mut bench, 100);
        let is_at_rest = |bench: &Bench| unspread(bench) == 0 && bench.replicator.is_fully_replicated();
        for _ in 0..600 {
            live(&mut bench, 100);
            if is_at_rest(&bench) {
                break;
            }
        }
        assert!(is_at_rest(&bench), "seed {seed}: {} are unspread", unspread(&bench));
        for _ in 0..8 {
            live(&mut bench, 1000);
        }
        for segment in closed(&bench) {
            assert_eq!(bench.replicator.replicas_of(segment).count(), 3, "seed {seed}, {segment}");
            assert_eq!(bench.whole_count(segment), 3, "seed {seed}, {segment}");
        }
    }
}
