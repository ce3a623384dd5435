//! A backup tells what its device has.

use crate::rig::*;
use ramhold_base::{Epoch, Rng, Status};
use ramhold_wire::data::{AppendReply, AppendRequest};
use std::time::Duration;

/// Asks what is held and flushed; answered at once, whatever the disk does.
fn probe(rig: &mut Rig, log: &Log) -> AppendReply {
    let (status, reply) = rig.append(log, AppendRequest::default());
    assert_eq!(status, Status::Ok);
    reply
}

/// The least that any loss of power just now would leave of a segment: bytes, and whether closed and whole.
fn left_by_power_cuts(rig: &Rig, log: &Log) -> (u32, bool) {
    let left = |seed: u64| {
        let mut after = Rig::asleep(rig.config.clone(), rig.disk.clone(), rig.life + 1);
        after.cut_power(&mut Rng::new(seed));
        after.wake();
        let mut replicas = after.backup.replicas();
        let Some(replica) = replicas.find(|replica| replica.segment == log.segment) else {
            return (0, false);
        };
        let length = replica.certificate.map_or(0, |certificate| certificate.length);
        (length, replica.closed && !replica.cut)
    };
    (0..20).map(left).min().unwrap()
}

/// Executes what waits for the disk step by step; at each step, a loss of power leaves at least what is told. Gives what
/// was told before each step and after the last.
fn step_through(rig: &mut Rig, log: &Log) -> Vec<u32> {
    let mut told = Vec::new();
    loop {
        let reply = probe(rig, log);
        let (length, is_closed) = left_by_power_cuts(rig, log);
        assert!(reply.flushed <= length, "told {told:?}, then {reply:?}");
        assert!(is_closed || !reply.closed || reply.flushed == 0, "told {told:?}, then {reply:?}");
        told.push(reply.flushed);
        if !rig.run_one() {
            return told;
        }
    }
}

// D1, C4
#[test]
fn bytes_are_told_as_flushed_only_when_data_and_certificate_are_synced() {
    // Copy, sync, certificate, sync; without buffers only a sync.
    for (config, expected) in [(config(), vec![0, 0, 0, 0, 100]), (in_frames(), vec![0, 100])] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, log.from(0)).1.flushed, 0);
        rig.hold = true;
        rig.pass(Duration::from_millis(100));
        assert_eq!(step_through(&mut rig, &log), expected);
    }
}

// D1, C4
#[test]
fn bytes_appended_while_a_flush_runs_wait_for_the_next() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        rig.hold = true;
        rig.pass(Duration::from_millis(100));
        let first = log.clone();
        log.grow(50);
        let header = rig.append_header(&log);
        rig.request(&header, &body(&log.from(100)));
        while rig.run_one() {
            // Also when the answer to the new bytes comes first.
            let flushed = rig.backup.replicas().next().unwrap().flushed;
            assert!(flushed <= left_by_power_cuts(&rig, &first).0);
        }
        assert_eq!(
            probe(&mut rig, &log),
            AppendReply { length: 150, certified: 150, flushed: 100, ..Default::default() }
        );
        rig.pass(Duration::from_millis(100));
        assert_eq!(*step_through(&mut rig, &log).last().unwrap(), 150);
    }
}

// D1, C4
#[test]
fn an_idle_head_is_flushed_within_the_interval_and_probes_write_nothing() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let log = Log::head(1, &[1]);
        let opening = log.bytes.len() as u32;
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        rig.trace.clear();
        for _ in 0..9 {
            rig.pass(Duration::from_millis(10));
            assert_eq!(probe(&mut rig, &log).flushed, 0);
        }
        assert!(rig.trace.is_empty(), "probes neither write nor hasten anything");
        rig.pass(Duration::from_millis(10));
        assert_eq!(probe(&mut rig, &log).flushed, opening, "probes do not put the flush off either");
        let flush = rig.trace.len();
        assert!((1..=4).contains(&flush), "{:?}", rig.trace);
        let certificate = rig.state(&log).certificate;
        for _ in 0..100 {
            rig.pass(Duration::from_millis(20));
            let expected =
                AppendReply { length: opening, certified: opening, flushed: opening, ..Default::default() };
            assert_eq!(probe(&mut rig, &log), expected);
        }
        assert_eq!(rig.trace.len(), flush);
        assert_eq!(rig.state(&log).certificate, certificate);
    }
}

// D1, D9, C4
#[test]
fn a_closed_replica_is_flushed_when_the_device_has_its_closing() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        rig.pass(Duration::from_millis(100));
        assert_eq!(probe(&mut rig, &log).flushed, 100);
        rig.hold = true;
        let header = rig.append_header(&log);
        rig.request(&header, &body(&log.close()));
        assert!(rig.run_one(), "the certificate that closes it");
        let (_, answer) = rig.answer(&header).unwrap();
        let answer = AppendReply::decode(&answer).unwrap();
        assert_eq!((answer.closed, answer.flushed), (true, 0), "the device has all bytes, but open");
        let told = step_through(&mut rig, &log);
        assert_eq!((told.first(), told.last()), (Some(&0), Some(&100)));
        let expected =
            AppendReply { length: 100, certified: 100, closed: true, flushed: 100, ..Default::default() };
        assert_eq!(probe(&mut rig, &log), expected);
        rig.run();
        rig.trace.clear();
        for _ in 0..10 {
            rig.pass(Duration::from_millis(20));
            assert_eq!(probe(&mut rig, &log), expected);
            rig.run();
        }
        assert!(rig.trace.is_empty(), "{:?}", rig.trace);
        let rig = rig.power_cut(&mut Rng::new(1));
        let state = rig.state(&log);
        assert_eq!((state.closed, state.cut, state.flushed), (true, false, 100));
    }
}

// D8, C4
#[test]
fn an_epoch_counts_as_flushed_when_the_device_has_it() {
    for config in [config(), in_frames()] {
        let mut rig = Rig::new(config);
        let mut log = Log::new(1);
        log.grow(100);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        rig.pass(Duration::from_millis(100));
        log.epoch = Epoch(1);
        let raised = AppendRequest { raise_epoch: true, ..log.from(100) };
        assert_eq!(
            rig.append(&log, raised).1,
            AppendReply { length: 100, certified: 100, epoch: Epoch(1), ..Default::default() }
        );
        rig.pass(Duration::from_millis(100));
        assert_eq!(probe(&mut rig, &log).flushed, 100);
        let rig = rig.power_cut(&mut Rng::new(1));
        assert_eq!(rig.state(&log).epoch, Epoch(1));
    }
}

// D1, C4
#[test]
fn after_a_start_what_the_device_certifies_is_flushed() {
    let mut rig = Rig::new(config());
    let mut log = Log::new(1);
    log.grow(100);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
    rig.pass(Duration::from_millis(100));
    log.grow(50);
    assert_eq!(rig.append(&log, log.from(100)).1.flushed, 100);
    // The buffers are there: the rest follows from them.
    let mut kept = Rig::on(rig.config.clone(), rig.disk.clone(), rig.life + 1);
    kept.pass(Duration::from_millis(200));
    assert_eq!(kept.state(&log).flushed, 150);
    assert_eq!(left_by_power_cuts(&kept, &log).0, 150);
    // They are gone.
    let cut = rig.power_cut(&mut Rng::new(1));
    let state = cut.state(&log);
    assert_eq!((state.flushed, state.certificate, state.cut), (100, Some(log.certificate(100)), true));
    assert_eq!(left_by_power_cuts(&cut, &log).0, 100);
}
