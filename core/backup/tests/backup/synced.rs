//! Replicas whose acknowledgements wait for the device.

use crate::rig::*;
use ramhold_backup::BackupConfig;
use ramhold_base::{Epoch, Rng, ServerId, Status};
use ramhold_wire::Opcode;
use ramhold_wire::data::{AppendReply, AppendRequest};

fn open(log: &Log) -> AppendRequest<'_> {
    AppendRequest { synced: true, ..log.from(0) }
}

/// The rest of a segment that each loss of power just now would leave, if any: its length, and whether it counts as
/// whole.
fn left(rig: &Rig, log: &Log) -> Vec<Option<(u32, bool)>> {
    let after = |seed: u64| {
        let mut after = Rig::asleep(rig.config.clone(), rig.disk.clone(), rig.life + 1);
        after.cut_power(&mut Rng::new(seed));
        after.wake();
        let mut replicas = after.backup.replicas();
        let replica = replicas.find(|replica| replica.segment == log.segment)?;
        Some((replica.certificate.map_or(0, |certificate| certificate.length), !replica.cut))
    };
    (0..20).map(after).collect()
}

// D2
#[test]
fn an_answer_waits_until_any_loss_of_power_leaves_what_it_tells() {
    // The operator's word is about buffers: what has none waits.
    let past_buffers = BackupConfig { buffers_survive_power: true, ..in_frames() };
    for config in [config(), in_frames(), past_buffers] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, open(&log)).1.certified, 100, "no time has to pass");
        for round in 1..5u32 {
            let before = 100 * round;
            log.grow(100);
            rig.hold = true;
            let header = rig.append_header(&log);
            rig.request(&header, &body(&AppendRequest { open: false, ..log.from(before as usize) }));
            while rig.answer(&header).is_none() {
                for left in left(&rig, &log) {
                    let (length, is_whole) = left.expect("what was acknowledged is there");
                    assert!(length >= before && is_whole, "{length} {is_whole} after {before}");
                }
                assert!(rig.run_one(), "it is answered when the disk is done");
            }
            let (status, reply) = rig.answer(&header).unwrap();
            let reply = AppendReply::decode(&reply).unwrap();
            assert_eq!((status, reply.certified, reply.flushed), (Status::Ok, before + 100, before + 100));
            let whole = Some((before + 100, true));
            assert!(left(&rig, &log).iter().all(|left| *left == whole), "round {round}");
            rig.hold = false;
            rig.run();
        }
    }
}

// D2, F2: recovery shows what a synced log ends with to readers, so power must not take what a fence tells.
#[test]
fn a_fence_is_answered_when_the_device_has_what_it_tells() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    rig.append(&log, open(&log));
    log.grow(100);
    rig.hold = true;
    let append = rig.append_header(&log);
    rig.request(&append, &body(&AppendRequest { open: false, ..log.from(100) }));
    let fence = rig.header(Opcode::Fence, ServerId::NONE);
    rig.request(&fence, &cbor(&ramhold_wire::recovery::Fence { crashed: MASTER }));
    while rig.answer(&fence).is_none() {
        assert!(rig.run_one(), "it is answered when the disk is done");
    }
    let (_, told) = rig.answer(&fence).unwrap();
    let told: ramhold_wire::recovery::Fenced = ramhold_wire::decode(&told).unwrap();
    assert_eq!(told.replicas[0].certified, 200);
    assert!(left(&rig, &log).iter().all(|left| *left == Some((200, true))), "whenever power goes");
}

// D2, D8: also a raised epoch and the closing.
#[test]
fn an_epoch_and_a_closing_are_told_when_the_device_has_them() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, open(&log)).0, Status::Ok);
        rig.hold = true;
        log.epoch = Epoch(1);
        let raise = rig.append_header(&log);
        rig.request(&raise, &body(&AppendRequest { raise_epoch: true, ..log.from(100) }));
        let close = rig.append_header(&log);
        rig.request(&close, &body(&log.close()));
        rig.run();
        for header in [raise, close] {
            let (_, reply) = rig.answer(&header).expect("the disk is done");
            let reply = AppendReply::decode(&reply).unwrap();
            assert_eq!((reply.epoch, reply.certified), (Epoch(1), 100));
        }
        assert!(rig.append(&log, AppendRequest::default()).1.closed);
        let mut after = rig.power_cut(&mut Rng::new(7));
        let reports = after.fence(MASTER).replicas;
        assert_eq!((reports[0].epoch, reports[0].closed, reports[0].cut), (Epoch(1), true, false));
    }
}

// D2: an answer that was lost is asked for again; the second one does not come sooner than the first.
#[test]
fn a_repetition_waits_for_the_device_too() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    rig.hold = true;
    let first = rig.append_header(&log);
    rig.request(&first, &body(&open(&log)));
    let again = rig.append_header(&log);
    rig.request(&again, &body(&open(&log)));
    while rig.answer(&first).is_none() {
        assert!(rig.answer(&again).is_none());
        assert!(rig.run_one());
    }
    let (_, reply) = rig.answer(&again).expect("one sync serves both");
    assert_eq!(AppendReply::decode(&reply).unwrap().certified, 100);
}

// D2, D8: opened anew at a higher epoch; until the new one is on the device the old one is all that power leaves.
#[test]
fn what_is_replaced_stays_until_the_new_one_is_on_the_device() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, open(&log)).0, Status::Ok);
    log.epoch = Epoch(1);
    rig.hold = true;
    let header = rig.append_header(&log);
    rig.request(&header, &body(&open(&log)));
    while rig.answer(&header).is_none() {
        assert!(left(&rig, &log).iter().all(|left| *left == Some((100, true))));
        assert!(rig.run_one());
    }
    rig.run();
    assert!(left(&rig, &log).iter().all(|left| *left == Some((100, true))));
}

// D2: the operator's word.
#[test]
fn buffers_that_survive_power_count_as_the_device() {
    let mut rig = Rig::new(BackupConfig { buffers_survive_power: true, ..config() });
    let mut log = Log::new(1);
    log.grow(100);
    let (status, reply) = rig.append(&log, open(&log));
    assert_eq!((status, reply.certified, reply.flushed), (Status::Ok, 100, 0));
    // And if they did not, that is known.
    let mut after = rig.power_cut(&mut Rng::new(3));
    assert!(after.fence(MASTER).replicas.iter().all(|report| report.cut));
}
