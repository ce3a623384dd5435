//! The model of time in a simulated cluster: processors, ports and devices of its hosts.
//!
//! A process has one core and does one step after the other, as under `io/runtime`. The cost of a step
//! follows from the frame that it was given, the data that a disk effect brought, and the frames that it
//! sends. Bytes of logs are weighed by the scale model (`scale`). A host has one port in each direction. A
//! backup has one device with a lane for reads and a lane for writes. Each lane works in order, as under
//! `io/runtime`, and reads go before writes.
//!
//! Not here: caches, memory bandwidth that processes of one host share, congestion within switches,
//! interrupts.

use crate::costs::{CHECKSUM, COPY, DECODE, ENCODE, MESSAGE, RecordCost, SOCKET, STEP};
use crate::profile::{BYPASS_MESSAGE, Profile};
use crate::scale::Scale;
use ramhold_base::{DiskFile, DiskToken, Effect, Effects};
use ramhold_wire::Opcode;
use ramhold_wire::data::AppendRequest;
use ramhold_wire::frame::{HEADER_BYTES, Kind, glance};
use ramhold_wire::recovery::ReadTimes;
use ramhold_world::world::{DeviceWork, Given, Pace};
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
/// A sync of a device that has nothing left to write.
const SYNC: u64 = 100_000;

/// The busy time of everything since charging began: nanoseconds of nodes, bytes of hosts.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    pub processors: Vec<u64>,
    pub sent: Vec<f64>,
    pub reading: Vec<u64>,
    /// The work of processors and ports, of the coordinator (the first node) and of all other nodes together.
    pub work: BTreeMap<(bool, Work), Tally>,
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

pub struct Charge {
    pub profile: Profile,
    pub scale: Scale,
    pub record: RecordCost,
    /// The host of each node.
    pub hosts: Vec<usize>,
    /// The speed of each node's device, relative to the profile's.
    pub speeds: Vec<f64>,
    meter: Rc<RefCell<Meter>>,
    out_until: Vec<u64>,
    in_until: Vec<u64>,
    devices: Vec<Device>,
    /// Whether each node was asked for records. Before that a node reads openings. Each read then counts as
    /// one segment, however many segments it stands for.
    is_asked: Vec<bool>,
    /// Writes that are not over, with the time that reads had taken when the write was last looked at.
    writes: BTreeMap<(usize, DiskToken), u64>,
}

impl Charge {
    pub fn new(
        profile: Profile,
        scale: Scale,
        record: RecordCost,
        hosts: Vec<usize>,
        speeds: Vec<f64>,
        meter: Rc<RefCell<Meter>>,
    ) -> Charge {
        let (nodes, host_count) = (hosts.len(), hosts.iter().max().map_or(0, |last| last + 1));
        meter.borrow_mut().busy = Busy {
            processors: vec![0; nodes],
            sent: vec![0.0; host_count],
            reading: vec![0; nodes],
            work: BTreeMap::new(),
        };
        Charge {
            profile,
            scale,
            record,
            hosts,
            speeds,
            meter,
            out_until: vec![0; host_count],
            in_until: vec![0; host_count],
            devices: vec![Device::default(); nodes],
            is_asked: vec![false; nodes],
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

    /// Bytes on the wire.
    fn bytes(&self, frame: &[u8]) -> f64 {
        let load = self.load(frame);
        load.log * self.scale.bytes() + load.other
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
        load.count * self.message()
            + load.other * (self.socket() + DECODE)
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
            _ => ENCODE,
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

    fn pass(until: &mut u64, now: u64, bytes: f64, rate: f64) -> u64 {
        let begin = now.max(*until);
        *until = begin + (bytes / rate * 1e9) as u64;
        begin
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
        let given = match given {
            Given::Frame(frame) => {
                let (load, receiving) = (self.load(frame), self.receiving(frame));
                self.is_asked[node] |= load.opcode == Some(Opcode::RecoveryRead) && !load.is_reply;
                self.note(node, Charge::work_of(&load), Tally { receiving, ..Tally::default() });
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
            Given::Disk { .. } | Given::Other => 0.0,
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
        let cost = ((STEP + given + sent) * self.profile.slower) as u64;
        self.meter.borrow_mut().busy.processors[node] += cost;
        cost
    }

    fn leave(&mut self, now: u64, from: usize, frame: &[u8]) -> u64 {
        if !self.meter.borrow().on {
            return now + if self.meter.borrow().gathering { GATHERING } else { FREE };
        }
        let (host, bytes) = (self.hosts[from], self.bytes(frame));
        self.meter.borrow_mut().busy.sent[host] += bytes;
        Charge::pass(&mut self.out_until[host], now, bytes, self.profile.network) + self.profile.latency
    }

    fn enter(&mut self, now: u64, to: usize, frame: &[u8]) -> u64 {
        if !self.meter.borrow().on {
            return now;
        }
        let (host, bytes) = (self.hosts[to], self.bytes(frame));
        Charge::pass(&mut self.in_until[host], now, bytes, self.profile.network);
        self.in_until[host]
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
    use crate::profile::SOSP11_DISK;
    use crate::scale::FINE;

    fn charge() -> Charge {
        let meter = Rc::new(RefCell::new(Meter { on: true, ..Meter::default() }));
        Charge::new(SOSP11_DISK, FINE, record_cost(1024), vec![0, 1], vec![1.0, 1.0], meter)
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
        let first = charge.leave(0, 0, &frame);
        let second = charge.leave(0, 0, &frame);
        let pass = (frame.len() as f64 / SOSP11_DISK.network * 1e9) as u64;
        assert_eq!((first, second), (SOSP11_DISK.latency, SOSP11_DISK.latency + pass));
        assert_eq!(charge.enter(first, 1, &frame), first + pass);
    }
}
