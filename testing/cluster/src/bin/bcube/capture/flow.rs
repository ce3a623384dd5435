//! Streams of TCP put together from packets, and the frames in them.

use super::{At, Seen};
use ramhold_wire::frame::{length, parse};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Linux's header of a packet that was captured at any device.
const COOKED_BYTES: usize = 20;
const SYN: u8 = 2;

/// One direction of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
}

/// The news of one packet.
pub(super) struct Part<'a> {
    sequence: u32,
    begins: bool,
    data: &'a [u8],
}

impl Flow {
    /// None: not a packet of TCP over IPv4.
    pub(super) fn of(packet: &[u8]) -> Option<(Flow, Part<'_>)> {
        let ip = packet.get(COOKED_BYTES..)?;
        let short =
            |bytes: &[u8], at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?));
        if short(packet, 0)? != 0x0800 || ip.get(9)? != &6 {
            return None;
        }
        let tcp = ip.get(usize::from(ip[0] & 15) * 4..usize::from(short(ip, 2)?))?;
        let flow = Flow { from: (address(12)?, short(tcp, 0)?), to: (address(16)?, short(tcp, 2)?) };
        let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
        let data = tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?;
        Some((flow, Part { sequence, begins: tcp[13] & SYN != 0, data }))
    }

    pub(super) fn has(&self, address: Ipv4Addr) -> bool {
        [self.from.0, self.to.0].contains(&address)
    }
}

/// The bytes of a flow that no whole frame has taken yet.
#[derive(Default)]
struct Stream {
    /// The sequence number of the next byte. None: it is that of the next packet.
    next: Option<u32>,
    bytes: Vec<u8>,
    begun: Option<At>,
}

#[derive(Default)]
pub(super) struct Flows {
    streams: HashMap<Flow, Stream>,
    frames: Vec<Seen>,
    gaps: u64,
}

impl Flows {
    pub(super) fn take(&mut self, flow: Flow, part: &Part<'_>, at: At) {
        let stream = self.streams.entry(flow).or_default();
        if part.begins {
            *stream = Stream { next: Some(part.sequence.wrapping_add(1)), ..Stream::default() };
            return;
        }
        let mut data = part.data;
        if let Some(next) = stream.next {
            // Sent again, or beyond something that was not captured.
            let ahead = part.sequence.wrapping_sub(next).cast_signed();
            if ahead > 0 {
                self.gaps += 1;
                *stream = Stream::default();
            } else {
                data = data.get(ahead.unsigned_abs() as usize..).unwrap_or_default();
            }
        }
        if data.is_empty() {
            return;
        }
        stream.next = Some(part.sequence.wrapping_add(part.data.len() as u32));
        if stream.bytes.is_empty() {
            stream.begun = Some(at);
        }
        stream.bytes.extend_from_slice(data);
        loop {
            let whole = match length(&stream.bytes) {
                Ok(Some(whole)) if whole <= stream.bytes.len() => whole,
                Ok(_) => return,
                // Not Ramhold's, or the middle of a frame that began before the capture.
                Err(_) => return stream.bytes.clear(),
            };
            if let Ok((header, body)) = parse(&stream.bytes[..whole]) {
                let begun = stream.begun.unwrap_or(at);
                let (from, to) = (flow.from.0, flow.to.0);
                self.frames.push(Seen { from, to, header, body: body.to_vec(), begun, ended: at });
            } else {
                self.gaps += 1;
            }
            stream.bytes.drain(..whole);
            // Whatever is behind a frame came with its last packet.
            stream.begun = Some(at);
        }
    }

    /// The frames in the order in which they ended, and the number of gaps.
    pub(super) fn end(self) -> (Vec<Seen>, u64) {
        (self.frames, self.gaps)
    }
}
