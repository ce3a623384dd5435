//! The model of time in a simulated cluster: processors, ports and devices of its hosts.
//!
//! A process has one core and does one step after the other, as under `io/runtime`. The cost of a step
//! follows from the frame that it was given, the data that a disk effect brought, and the frames that it
//! sends. These leave at its end, or one after the other (`Meter::one_by_one`). A master's step with a request to
//! read or to write one object costs what such a request was measured to cost; all other steps have one price.
//! Bytes of logs are weighed by the scale model (`scale`). A frame passes the ports between two hosts
//! (`fabric`). A backup has one device with a lane for reads and a lane for writes. Each lane works in order,
//! as under `io/runtime`, and reads go before writes.
//!
//! Not here: caches, memory bandwidth that processes of one host share, congestion within switches,
//! interrupts.

use crate::costs::{CHECKSUM, COPY, DECODE, ENCODE, MESSAGE, READ, RecordCost, SOCKET, STEP, WRITE};
use crate::fabric::{Fabric, Onward};
use crate::profile::{BYPASS_MESSAGE, Profile};
use crate::scale::Scale;
use ramhold_base::{DiskFile, DiskToken, Effect, Effects};
use ramhold_wire::Opcode;
use ramhold_wire::data::AppendRequest;
use ramhold_wire::frame::{HEADER_BYTES, Kind, glance};
use ramhold_wire::recovery::ReadTimes;
use ramhold_world::network::Way;
use ramhold_world::world::{DeviceWork, Given, Pace, Passed};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

const KIND_AT: usize = 20;
/// Nanoseconds of a step before charging begins, so that a cluster is filled in no time.
const FREE: u64 = 1000;
const GATHERING: u64 = 20_000_000;
/// Smaller reads do not read segments.
const SEGMENT_READ_BYTES_MIN: u64 = 1024;
/// A commit to the coordinator's store, on a local device.
const STORE: u64 = 1_000_000;
/// Copies of the common part of a `Recover`: into its frame, and to the send buffer.
const RECOVER_COPIES: f64 = 2.0;
/// Per byte of a message with fields at fixed places, which is copied and has a checksum: an append but for its
/// log, its answer, and a client's side of messages about one object.
const PLAIN: f64 = COPY + CHECKSUM;
/// A sync of a device that has nothing left to write.
const SYNC: u64 = 100_000;

/// The width of a bin of `Busy::fetched`, in nanoseconds.
pub const BIN: u64 = 10_000_000;

/// The busy time of everything since charging began: nanoseconds of nodes, bytes of ports.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    pub processors: Vec<u64>,
    pub ports: Vec<PortUse>,
    pub reading: Vec<u64>,
    /// Bytes of records that came into their recovery masters in each `BIN` since charging began.
    pub fetched: Vec<f64>,
    /// The work of processors and ports, of the coordinator (the first node) and of all other nodes together.
    pub work: BTreeMap<(bool, Work), Tally>,
}

/// The bytes that have passed a port, and the time that they took.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortUse {
    /// Records of the dead server's log, on their way to a recovery master.
    pub records: f64,
    /// Data on its way to a backup.
    pub replicas: f64,
    pub other: f64,
    /// Those of the records that this host passed on.
    pub relayed: f64,
    pub nanos: u64,
}

impl PortUse {
    fn take(&mut self, load: &Load, bytes: f64, onward: Onward) {
        match (load.opcode, load.is_reply) {
            (Some(Opcode::RecoveryRead), true) => {
                self.records += bytes;
                if matches!(onward, Onward::Relay { .. }) {
                    self.relayed += bytes;
                }
            }
            (Some(Opcode::Append), false) => self.replicas += bytes,
            _ => self.other += bytes,
        }
    }
}

/// A kind of processor work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    Message {
        opcode: u16,
        is_reply: bool,
    },
    /// Segments are verified and divided.
    Divide,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Message { opcode, is_reply } => {
                let name = Opcode::from_code(*opcode).map_or("?", Opcode::name);
                write!(f, "{name}{}", if *is_reply { ", answer" } else { "" })
            }
            Work::Divide => f.write_str("dividing"),
        }
    }
}

/// The count, the bytes on the wire, and the nanoseconds of the processors that send and receive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub count: f64,
    pub bytes: f64,
    pub sending: f64,
    pub receiving: f64,
}

/// Shared with the code that runs the world.
#[derive(Debug, Default)]
pub struct Meter {
    pub on: bool,
    /// Servers come into the cluster. Frames then arrive late enough that one list tells of many servers.
    pub gathering: bool,
    /// Frames of one step leave one after the other, each when it is sent, as system calls have it. Otherwise all
    /// leave at the end of the step. Figures of recoveries have it so since they were first recorded.
    pub one_by_one: bool,
    /// When charging began.
    pub began: u64,
    pub busy: Busy,
}

#[derive(Clone, Copy, Debug, Default)]
struct Device {
    reads_until: u64,
    writes_until: u64,
    /// Time that reads have taken so far.
    read_time: u64,
}

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    opcode: Option<Opcode>,
    is_reply: bool,
    /// Bytes of a log, as in the simulation.
    log: f64,
    /// All other bytes, counted once for each message that the frame stands for.
    other: f64,
    /// The number of messages that the frame stands for.
    count: f64,
}

impl Load {
    /// The master's own cost of a request about one object. Its question and its answer are encoded and decoded
    /// in that time.
    fn own(&self) -> Option<f64> {
        match self.opcode {
            Some(Opcode::Read) => Some(READ),
            Some(Opcode::Write) => Some(WRITE),
            _ => None,
        }
    }
}

pub struct Charge {
    pub profile: Profile,
    pub scale: Scale,
    pub record: RecordCost,
    /// The host of each node.
    pub hosts: Vec<usize>,
    /// The speed of each node's device, relative to the profile's.
    pub speeds: Vec<f64>,
    meter: Rc<RefCell<Meter>>,
    fabric: Fabric,
    /// When each port has passed everything that has come to it.
    ports_until: Vec<u64>,
    devices: Vec<Device>,
    /// Whether each node was asked for records. Before that a node reads openings. Each read then counts as
    /// one segment, however many segments it stands for.
    is_asked: Vec<bool>,
    /// Nanoseconds that the present step is still to take for frames that have not left.
    unsent: f64,
    /// Writes that are not over, with the time that reads had taken when the write was last looked at.
    writes: BTreeMap<(usize, DiskToken), u64>,
}

impl Charge {
    pub fn new(
        profile: Profile,
        scale: Scale,
        record: RecordCost,
        fabric: Fabric,
        hosts: Vec<usize>,
        speeds: Vec<f64>,
        meter: Rc<RefCell<Meter>>,
    ) -> Charge {
        let (nodes, ports) = (hosts.len(), fabric.port_count());
        meter.borrow_mut().busy = Busy {
            processors: vec![0; nodes],
            ports: vec![PortUse::default(); ports],
            reading: vec![0; nodes],
            fetched: Vec::new(),
            work: BTreeMap::new(),
        };
        Charge {
            profile,
            scale,
            record,
            hosts,
            speeds,
            meter,
            fabric,
            ports_until: vec![0; ports],
            devices: vec![Device::default(); nodes],
            is_asked: vec![false; nodes],
            unsent: 0.0,
            writes: BTreeMap::new(),
        }
    }

    fn load(&self, frame: &[u8]) -> Load {
        let (opcode, body) = glance(frame);
        let is_reply = frame[KIND_AT] == Kind::Reply as u8;
        let segments = f64::from(self.scale.segments);
        let before_log = match opcode {
            Some(Opcode::RecoveryRead) if is_reply => Some((ReadTimes::BYTES, segments)),
            // These are as long as in a full-size cluster, so there are as many.
            Some(Opcode::Append) if !is_reply => Some((AppendRequest::HEAD_BYTES, 1.0)),
            _ => None,
        };
        match before_log {
            Some((head, count)) if body.len() > head => Load {
                opcode,
                is_reply,
                log: (body.len() - head) as f64,
                other: (HEADER_BYTES + head) as f64 * count,
                count,
            },
            _ => {
                // There is one such message for every segment, or the message tells of every segment.
                let count = match opcode {
                    Some(Opcode::RecoveryRead) => segments,
                    _ => 1.0,
                };
                let of_segments = match opcode {
                    Some(Opcode::RecoveryRead) => frame.len(),
                    Some(Opcode::Fence) if is_reply => frame.len(),
                    Some(Opcode::Recover) if !is_reply => segments_of_recover(body).unwrap_or(0),
                    _ => 0,
                } as f64;
                let other = frame.len() as f64 + of_segments * (segments - 1.0);
                Load { opcode, is_reply, log: 0.0, other, count }
            }
        }
    }

    /// The bytes that one byte of a segment stands for when the segment is read for its opening.
    fn opening_bytes(&self) -> f64 {
        self.scale.bytes() / f64::from(self.scale.segments)
    }

    fn message(&self) -> f64 {
        if self.profile.kernel { MESSAGE } else { BYPASS_MESSAGE }
    }

    fn socket(&self) -> f64 {
        if self.profile.kernel { SOCKET } else { 0.0 }
    }

    fn receiving(&self, frame: &[u8]) -> f64 {
        let load = self.load(frame);
        let mut per_byte = self.socket();
        match load.opcode {
            // The bytes are copied out of the connection, and into the log.
            Some(Opcode::RecoveryRead) => per_byte += COPY + self.record.replay / self.record.record_bytes,
            // The bytes are copied into the buffer, under its certificate.
            Some(Opcode::Append) => per_byte += COPY + CHECKSUM,
            _ => {}
        }
        let decode = match (load.own(), load.is_reply) {
            (Some(_), false) => 0.0,
            (Some(_), true) => PLAIN,
            (None, _) if load.opcode == Some(Opcode::Append) => PLAIN,
            (None, _) => DECODE,
        };
        load.count * self.message()
            + load.other * (self.socket() + decode)
            + load.log * self.scale.bytes() * per_byte
    }

    fn sending(&self, frame: &[u8]) -> f64 {
        let load = self.load(frame);
        let mut per_byte = self.socket();
        // The copy of divided records is part of the cost of dividing.
        if load.opcode == Some(Opcode::Append) {
            per_byte += COPY;
        }
        let encode = match load.opcode {
            // All but some bytes are encoded once for all masters.
            Some(Opcode::Recover) => RECOVER_COPIES * COPY + CHECKSUM,
            Some(Opcode::Append) => PLAIN,
            _ => match (load.own(), load.is_reply) {
                (Some(_), true) => 0.0,
                (Some(_), false) => PLAIN,
                (None, _) => ENCODE,
            },
        };
        load.count * self.message()
            + load.other * (self.socket() + encode)
            + load.log * self.scale.bytes() * per_byte
    }

    /// Notes the processor time of a node for a frame that it sends or has received, before the profile's
    /// factor.
    fn note(&self, node: usize, work: Work, tally: Tally) {
        let mut meter = self.meter.borrow_mut();
        let noted = meter.busy.work.entry((node == 0, work)).or_default();
        noted.count += tally.count;
        noted.bytes += tally.bytes;
        noted.sending += tally.sending * self.profile.slower;
        noted.receiving += tally.receiving * self.profile.slower;
    }

    fn work_of(load: &Load) -> Work {
        Work::Message { opcode: load.opcode.map_or(0, Opcode::code), is_reply: load.is_reply }
    }
}

impl Meter {
    /// Notes bytes of records that come in between two times, evenly over the bins.
    fn fetch(&mut self, bytes: f64, (begin, end): (u64, u64)) {
        let (begin, end) = (begin.saturating_sub(self.began), end.saturating_sub(self.began).max(1));
        let (first, last) = ((begin / BIN) as usize, (end.saturating_sub(1) / BIN) as usize);
        if self.busy.fetched.len() <= last {
            self.busy.fetched.resize(last + 1, 0.0);
        }
        let whole = (end - begin.min(end - 1)) as f64;
        for bin in first.min(last)..=last {
            let (from, to) = (bin as u64 * BIN, (bin as u64 + 1) * BIN);
            let part = to.min(end).saturating_sub(from.max(begin)) as f64;
            self.busy.fetched[bin] += bytes * part / whole;
        }
    }
}

/// The number of bytes of a `Recover` that tell of segments. The bytes before them tell of ranges.
fn segments_of_recover(body: &[u8]) -> Result<usize, minicbor::decode::Error> {
    let mut decoder = minicbor::Decoder::new(body);
    decoder.array()?;
    // Recovery, crashed server, partition, attempt, ranges.
    (0..5).try_for_each(|_| decoder.skip())?;
    let begin = decoder.position();
    decoder.skip()?;
    Ok(decoder.position() - begin)
}

impl Pace for Charge {
    fn step(&mut self, node: usize, given: Given<'_>, effects: &Effects) -> u64 {
        if !self.meter.borrow().on {
            return FREE;
        }
        // The inputs of a turn have paid for its end; only what it sends is left.
        let mut fixed = if given == Given::TurnOver { 0.0 } else { STEP };
        let given = match given {
            Given::Frame(frame) => {
                let (load, receiving) = (self.load(frame), self.receiving(frame));
                self.is_asked[node] |= load.opcode == Some(Opcode::RecoveryRead) && !load.is_reply;
                self.note(node, Charge::work_of(&load), Tally { receiving, ..Tally::default() });
                if let (Some(own), false) = (load.own(), load.is_reply) {
                    fixed = own;
                }
                receiving
            }
            Given::Disk { bytes } if bytes >= SEGMENT_READ_BYTES_MIN && !self.is_asked[node] => {
                bytes as f64 * self.opening_bytes() * CHECKSUM
            }
            Given::Disk { bytes } if bytes >= SEGMENT_READ_BYTES_MIN => {
                let per_byte = CHECKSUM + self.record.divide / self.record.record_bytes;
                let receiving = bytes as f64 * self.scale.bytes() * per_byte;
                let count = f64::from(self.scale.segments);
                self.note(node, Work::Divide, Tally { count, receiving, ..Tally::default() });
                receiving
            }
            Given::Disk { .. } | Given::TurnOver | Given::Other => 0.0,
        };
        let sent: f64 = effects
            .list
            .iter()
            .map(|effect| match effect {
                Effect::Send { frame, .. } => {
                    let frame = frame.of(&effects.bytes);
                    let (load, sending) = (self.load(&frame), self.sending(&frame));
                    let bytes = load.log * self.scale.bytes() + load.other;
                    let tally = Tally { count: load.count, bytes, sending, ..Tally::default() };
                    self.note(node, Charge::work_of(&load), tally);
                    sending
                }
                _ => 0.0,
            })
            .sum();
        self.unsent = sent * self.profile.slower;
        let cost = ((fixed + given + sent) * self.profile.slower) as u64;
        self.meter.borrow_mut().busy.processors[node] += cost;
        cost
    }

    fn leaves(&mut self, step_over: u64, frame: &[u8]) -> u64 {
        let meter = self.meter.borrow();
        if !meter.on || !meter.one_by_one {
            return step_over;
        }
        self.unsent = (self.unsent - self.sending(frame) * self.profile.slower).max(0.0);
        step_over - self.unsent as u64
    }

    fn pass(&mut self, now: u64, way: Way, index: usize, frame: &[u8]) -> Passed {
        let mut meter = self.meter.borrow_mut();
        if !meter.on {
            return match index {
                0 => Passed::Onward(now + if meter.gathering { GATHERING } else { FREE }),
                _ => Passed::Through(now),
            };
        }
        let (from, to) = (self.hosts[way.from], self.hosts[way.to]);
        let ends = if way.is_answer { (to, from) } else { (from, to) };
        let (port, onward) = self.fabric.step(ends, way.plane, way.is_answer, index);
        let (rate, load) = (self.fabric.rate(port), self.load(frame));
        let bytes = load.log * self.scale.bytes() + load.other;
        let begin = now.max(self.ports_until[port]);
        let nanos = (bytes / rate * 1e9) as u64;
        self.ports_until[port] = begin + nanos;
        let noted = &mut meter.busy.ports[port];
        noted.take(&load, bytes, onward);
        noted.nanos += nanos;
        match onward {
            Onward::Cable => Passed::Onward(begin + self.profile.latency),
            Onward::Switch => Passed::Onward(begin),
            Onward::Relay { packet_bytes } => {
                Passed::Onward(begin + (packet_bytes.min(bytes) / rate * 1e9) as u64)
            }
            Onward::End => {
                if load.opcode == Some(Opcode::RecoveryRead) && load.is_reply {
                    meter.fetch(load.log * self.scale.bytes(), (begin, begin + nanos));
                }
                Passed::Through(begin + nanos)
            }
        }
    }

    fn device(&mut self, now: u64, node: usize, token: DiskToken, file: DiskFile, work: DeviceWork) -> u64 {
        if !self.meter.borrow().on {
            return now + FREE;
        }
        let weight = match (file, work) {
            (DiskFile::Frames, DeviceWork::Read { .. }) if !self.is_asked[node] => self.opening_bytes(),
            (DiskFile::Frames, _) => self.scale.bytes(),
            _ => 1.0,
        };
        let time = |bytes: u64, rate: f64| (bytes as f64 * weight / (rate * self.speeds[node]) * 1e9) as u64;
        let mut meter = self.meter.borrow_mut();
        let device = &mut self.devices[node];
        match work {
            DeviceWork::Read { bytes } => {
                let time = time(bytes, self.profile.read);
                device.reads_until = device.reads_until.max(now) + time;
                device.read_time += time;
                meter.busy.reading[node] += time;
                device.reads_until
            }
            DeviceWork::Write { .. } | DeviceWork::Sync => {
                let time = match work {
                    DeviceWork::Write { bytes } => time(bytes, self.profile.write),
                    _ => SYNC,
                };
                device.writes_until = device.writes_until.max(now).max(device.reads_until) + time;
                self.writes.insert((node, token), device.read_time);
                device.writes_until
            }
        }
    }

    fn device_again(&mut self, now: u64, node: usize, token: DiskToken) -> Option<u64> {
        let seen = self.writes.get_mut(&(node, token))?;
        let device = &mut self.devices[node];
        let gone_before = device.read_time - *seen;
        if gone_before == 0 {
            self.writes.remove(&(node, token));
            return None;
        }
        *seen = device.read_time;
        let at = now + gone_before;
        device.writes_until = device.writes_until.max(at);
        Some(at)
    }

    fn store(&mut self) -> u64 {
        if self.meter.borrow().on { STORE } else { FREE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::record_cost;
    use crate::layout::{Crowd, Layout};
    use crate::profile::SOSP11_DISK;
    use crate::scale::FINE;

    fn charge() -> Charge {
        let meter = Rc::new(RefCell::new(Meter { on: true, ..Meter::default() }));
        let fabric = Fabric::new(Layout::Star, 2, SOSP11_DISK.network);
        Charge::new(SOSP11_DISK, FINE, record_cost(1024), fabric, vec![0, 1], vec![1.0, 1.0], meter)
    }

    #[test]
    fn reads_go_before_writes() {
        let mut charge = charge();
        charge.is_asked[0] = true;
        let segment = u64::from(FINE.segment_bytes);
        let (write, read) = (DeviceWork::Write { bytes: segment }, DeviceWork::Read { bytes: segment });
        let (first, second) = (DiskToken(1), DiskToken(2));
        let written = charge.device(0, 0, first, DiskFile::Frames, write);
        assert_eq!(written, (8.0 * 1024.0 * 1024.0 / SOSP11_DISK.write * 1e9) as u64);
        let done = charge.device(10, 0, second, DiskFile::Frames, read);
        let reading = (8.0 * 1024.0 * 1024.0 / SOSP11_DISK.read * 1e9) as u64;
        assert_eq!(done, 10 + reading, "it does not wait for the write");
        assert_eq!(charge.device_again(done, 0, second), None);
        assert_eq!(charge.device_again(written, 0, first), Some(written + reading), "the write was put off");
        assert_eq!(charge.device_again(written + reading, 0, first), None);
    }

    #[test]
    fn a_port_passes_one_frame_after_the_other() {
        let mut charge = charge();
        let mut frame = vec![0; HEADER_BYTES + 2 * AppendRequest::HEAD_BYTES];
        frame[5] = (HEADER_BYTES / 8) as u8;
        let way = Way { plane: 0, from: 0, to: 1, is_answer: false };
        let (first, second) = (charge.pass(0, way, 0, &frame), charge.pass(0, way, 0, &frame));
        let pass = (frame.len() as f64 / SOSP11_DISK.network * 1e9) as u64;
        let latency = SOSP11_DISK.latency;
        assert_eq!((first, second), (Passed::Onward(latency), Passed::Onward(latency + pass)));
        assert_eq!(charge.pass(latency, way, 1, &frame), Passed::Through(latency + pass));
    }

    #[test]
    fn frames_of_a_step_leave_one_after_the_other_where_that_is_asked_for() {
        let mut charge = charge();
        let mut frame = vec![0; HEADER_BYTES];
        frame[5] = (HEADER_BYTES / 8) as u8;
        let sending = charge.sending(&frame) * charge.profile.slower;
        let mut leave = |one_by_one| {
            charge.meter.borrow_mut().one_by_one = one_by_one;
            charge.unsent = 2.0 * sending;
            (charge.leaves(10_000, &frame), charge.leaves(10_000, &frame))
        };
        assert_eq!(leave(false), (10_000, 10_000));
        assert_eq!(leave(true), (10_000 - sending as u64, 10_000));
    }

    #[test]
    fn a_host_passes_on_packet_by_packet() {
        let cube = Layout::Cube { radix: 2, order: 1, crowd: Crowd::Everywhere };
        let meter = Rc::new(RefCell::new(Meter { on: true, ..Meter::default() }));
        let fabric = Fabric::new(cube, 5, 1e9);
        // Hosts 1 and 4 are at 00 and 11.
        let mut charge =
            Charge::new(SOSP11_DISK, FINE, record_cost(1024), fabric, vec![1, 4], vec![1.0; 2], meter);
        let mut frame = vec![0; 10_000];
        frame[5] = (HEADER_BYTES / 8) as u8;
        let way = Way { plane: 1, from: 0, to: 1, is_answer: false };
        let mut now = 0;
        for index in 0..3 {
            match charge.pass(now, way, index, &frame) {
                Passed::Onward(at) => now = at,
                Passed::Through(at) => panic!("it is there at {at}"),
            }
        }
        assert_eq!(now, 2 * SOSP11_DISK.latency + 1500);
        assert_eq!(charge.pass(now, way, 3, &frame), Passed::Through(now + 10_000));
    }

    #[test]
    fn fetched_bytes_are_spread_over_the_time_that_they_take() {
        let mut meter = Meter { began: BIN, ..Meter::default() };
        meter.fetch(40.0, (BIN + BIN / 2, BIN * 5 / 2));
        assert_eq!(meter.busy.fetched, [20.0, 20.0]);
    }
}
