//! Random appends, crashes and power cuts against a model of what was acknowledged.

use crate::rig::*;
use ramhold_backup::Buffers;
use ramhold_base::{Epoch, Rng, ServerId, Status, StreamId};
use ramhold_wire::Header;
use ramhold_wire::data::{AppendReply, AppendRequest};
use std::collections::BTreeMap;
use std::time::Duration;

/// A master's knowledge of one replica in this life of the backup.
struct Known {
    log: Log,
    synced: bool,
    /// The end of the bytes that were sent.
    sent: usize,
    closed: bool,
    acknowledged: AppendReply,
    /// The state that must be on the device.
    durable: AppendReply,
    pending: Vec<Header>,
}

struct Past {
    log: Log,
    synced: bool,
    acknowledged: AppendReply,
    durable: AppendReply,
    /// Buffers were lost since, and what was acknowledged counted from there.
    may_be_cut: bool,
}

struct Model {
    rng: Rng,
    seed: u64,
    next_segment: u64,
    /// Replicas that are being written in this life.
    live: Vec<Known>,
    /// Replicas of earlier lives, by segment.
    past: BTreeMap<u64, Past>,
    freed: Vec<u64>,
}

impl Model {
    fn step(&mut self, rig: &mut Rig) {
        match self.rng.below(14) {
            0 | 1 => self.open(rig),
            2..=6 => self.grow(rig),
            7 => self.close(rig),
            8 => self.raise(rig),
            9 => self.free(rig),
            11 | 12 => self.probe(rig),
            10 => {
                let millis = if self.rng.chance(1, 2) { 250 } else { self.rng.below(120) };
                let pause = Duration::from_millis(millis);
                rig.pass(pause);
                self.hear(rig);
                // Twice the flush interval, and nothing waits for the disk.
                if pause.as_millis() > 200 && !rig.hold && rig.fuse.is_none() {
                    self.live.iter_mut().for_each(|known| known.durable = known.acknowledged);
                }
            }
            _ => {
                for _ in 0..self.rng.below(6) {
                    rig.run_one();
                }
            }
        }
        self.hear(rig);
    }

    fn send(&mut self, rig: &mut Rig, index: usize, request: &AppendRequest<'_>) {
        let header = rig.append_header(&self.live[index].log);
        rig.request(&header, &body(request));
        self.live[index].pending.push(header);
    }

    fn open(&mut self, rig: &mut Rig) {
        let mut log = Log::new(self.next_segment);
        self.next_segment += 1;
        log.stream = StreamId(log.segment.raw() as u16); // So that a fence reads each.
        log.grow(self.rng.between(1, 200) as usize);
        let acknowledged = AppendReply::default();
        let sent = log.bytes.len();
        let synced = self.rng.chance(1, 3);
        self.live.push(Known {
            log: log.clone(),
            synced,
            sent,
            closed: false,
            acknowledged,
            durable: acknowledged,
            pending: Vec::new(),
        });
        self.send(rig, self.live.len() - 1, &AppendRequest { synced, ..log.from(0) });
    }

    fn pick(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.live.len()).filter(|i| !self.live[*i].closed).collect();
        self.rng.pick(&open).copied()
    }

    fn grow(&mut self, rig: &mut Rig) {
        let Some(index) = self.pick() else { return };
        let known = &mut self.live[index];
        if known.log.bytes.len() > 1500 {
            return;
        }
        known.log.grow(self.rng.between(1, 150) as usize);
        let from = known.sent - self.rng.below(known.sent as u64 / 2 + 1) as usize;
        known.sent = known.log.bytes.len();
        let log = known.log.clone();
        let mut request = AppendRequest { open: false, ..log.from(from) };
        if self.rng.chance(1, 5) {
            request.certificate = None;
        }
        self.send(rig, index, &request);
    }

    fn close(&mut self, rig: &mut Rig) {
        let Some(index) = self.pick() else { return };
        self.live[index].closed = true;
        let log = self.live[index].log.clone();
        let from = self.live[index].acknowledged.certified as usize;
        let synced = self.live[index].synced;
        let request = AppendRequest { open: from == 0, close: true, synced, ..log.from(from) };
        self.send(rig, index, &request);
    }

    fn raise(&mut self, rig: &mut Rig) {
        let Some(index) = self.pick() else { return };
        self.live[index].log.epoch = Epoch(self.live[index].log.epoch.raw() + 1);
        let log = self.live[index].log.clone();
        let from = self.live[index].acknowledged.certified as usize;
        if from > 0 {
            self.send(rig, index, &AppendRequest { raise_epoch: true, open: false, ..log.from(from) });
        } else {
            self.live[index].log.epoch = Epoch(self.live[index].log.epoch.raw() - 1);
        }
    }

    /// Asks what is held and flushed.
    fn probe(&mut self, rig: &mut Rig) {
        if !self.live.is_empty() {
            let index = self.rng.below(self.live.len() as u64) as usize;
            self.send(rig, index, &AppendRequest::default());
        }
    }

    fn free(&mut self, rig: &mut Rig) {
        let Some(index) = self.rng.pick(&(0..self.live.len()).collect::<Vec<_>>()).copied() else { return };
        if rig.fuse.is_some() || self.live[index].pending.is_empty() {
            let known = self.live.swap_remove(index);
            if rig.free(&known.log) == Status::Ok {
                self.freed.push(known.log.segment.raw());
            }
        }
    }

    /// Takes in what the backup has answered so far.
    fn hear(&mut self, rig: &mut Rig) {
        for known in &mut self.live {
            // In the order of the answers: a probe is not held up by the device.
            known.pending.sort_by_key(|header| {
                let at = rig.sent.iter().position(|(_, sent, _)| sent.rpc == header.rpc);
                at.unwrap_or(usize::MAX)
            });
            known.pending.retain(|header| {
                let Some((status, body)) = rig.answer(header) else { return true };
                let reply = AppendReply::decode(&body).unwrap();
                if status == Status::Ok {
                    let before = known.acknowledged;
                    assert!(reply.certified >= before.certified, "seed {}", self.seed);
                    assert!(reply.epoch >= before.epoch, "seed {}", self.seed);
                    known.acknowledged = reply;
                    assert!(reply.flushed <= reply.certified, "seed {}", self.seed);
                    assert!(
                        !known.synced || reply.flushed == reply.certified,
                        "seed {}: {reply:?}",
                        self.seed
                    );
                    if reply.flushed > 0 {
                        // Whatever happens to the power from now on.
                        known.durable =
                            AppendReply { length: reply.flushed, certified: reply.flushed, ..reply };
                    }
                }
                false
            });
        }
        rig.sent.clear();
    }

    /// The backup's life is over.
    fn bury(&mut self, is_power_cut: bool) {
        for known in self.live.drain(..) {
            let Known { log, synced, acknowledged, durable, .. } = known;
            self.past
                .insert(log.segment.raw(), Past { log, synced, acknowledged, durable, may_be_cut: false });
        }
        if is_power_cut {
            self.past.values_mut().for_each(|past| past.may_be_cut = !past.synced);
        }
    }

    fn check(&mut self, rig: &mut Rig) {
        let states: Vec<_> = rig.backup.replicas().collect();
        let is_in_frames = rig.config.buffers == Buffers::InFrames;
        for (segment, Past { log, acknowledged, durable, may_be_cut, .. }) in &mut self.past {
            let what = format!("seed {} segment {segment}", self.seed);
            let state = states.iter().find(|state| state.segment.raw() == *segment);
            let Some(state) = state else {
                assert!(
                    *may_be_cut || acknowledged.certified == 0,
                    "{what}: an acknowledged replica is gone"
                );
                assert_eq!(durable.certified, 0, "{what}: a replica on the device is gone");
                continue;
            };
            let certificate = state.certificate.expect("what is found has a certificate");
            assert_eq!(certificate, log.certificate(certificate.length as usize), "{what}");
            assert!(!state.corrupt, "{what}");
            assert!(state.flushed <= certificate.length, "{what}");
            let is_all = certificate.length >= acknowledged.certified
                && state.epoch >= acknowledged.epoch
                && (state.closed || !acknowledged.closed);
            assert!(certificate.length >= durable.certified, "{what}: shorter than what was on the device");
            assert!(state.epoch >= durable.epoch, "{what}");
            if durable.closed {
                assert!(state.closed, "{what}");
                assert!(!state.cut, "{what}");
            }
            if is_in_frames {
                // Nothing serves before what was found is on the device.
                let (certified, epoch, closed) =
                    (certificate.length, state.epoch, state.closed && !state.cut);
                *durable = AppendReply { length: certified, certified, epoch, closed, flushed: certified };
            }
            if *may_be_cut {
                assert!(is_all || state.cut, "{what}: shorter than acknowledged and not cut");
            } else {
                assert!(is_all, "{what}: {state:?} {acknowledged:?}");
                assert!(!state.cut, "{what}");
            }
        }
        assert!(!rig.has_error(), "seed {}: {:?}", self.seed, rig.reports);
        // Every replica's bytes are what its certificate says: another life reads them all.
        let mut reader = Rig::on(rig.config.clone(), rig.disk.clone(), rig.life + 1);
        assert_eq!(reader.fence(MASTER).replicas.len(), states.len(), "seed {}", self.seed);
        assert!(!reader.has_error(), "seed {}: {:?}", self.seed, reader.reports);
        rig.backup.check_invariants();
    }
}

fn torture(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut config = if rng.chance(1, 2) { config() } else { in_frames() };
    config.frames_max = 40;
    let mut rig = Rig::new(config);
    let mut model = Model {
        rng: rng.clone(),
        seed,
        next_segment: 1,
        live: Vec::new(),
        past: BTreeMap::new(),
        freed: Vec::new(),
    };
    for _ in 0..6 {
        rig.hold = rng.chance(1, 2);
        for _ in 0..rng.below(40) {
            model.step(&mut rig);
        }
        // The process dies after some more disk effects, perhaps in the midst of a stop.
        rig.fuse = Some(rng.below(30) as u32);
        if rng.chance(1, 4) {
            rig.with(|backup, now, _, effects| backup.stop(now, effects));
        }
        rig.hold = false;
        for _ in 0..5 {
            model.step(&mut rig);
        }
        rig.run();
        model.hear(&mut rig);
        let is_power_cut = rng.chance(1, 2);
        let was_clean = rig.backup.is_stopped() && rig.backup.status(rig.now).failed.is_none();
        if is_power_cut {
            rig.cut_power(&mut rng);
        }
        model.bury(is_power_cut && !was_clean);
        // Starts may be cut short too.
        while rng.chance(1, 3) {
            let mut half = Rig::asleep(rig.config.clone(), rig.disk, rig.life + 1);
            half.fuse = Some(rng.below(40) as u32);
            half.wake();
            rig = half;
            if rng.chance(1, 3) {
                rig.cut_power(&mut rng);
                model.bury(true);
            }
        }
        rig = Rig::on(rig.config.clone(), rig.disk, rig.life + 1);
        model.check(&mut rig);
    }
    assert!(model.next_segment > 1 || model.freed.is_empty());
    assert_eq!(rig.view.me, ServerId(100 + rig.life));
}

// D1, D2, D6, F9
#[test]
fn what_was_acknowledged_is_there_or_known_to_be_cut() {
    for seed in 0..600 {
        torture(seed);
    }
}
