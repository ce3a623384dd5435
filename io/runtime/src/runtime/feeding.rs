//! Hands the input of a turn to the machine: whose comes first, and how much of it.
//!
//! Connections of the cluster go first, and what they left of the last turn before anything new. The input of clients is
//! handed on a few connections at a time, after a look ahead at all of it. In between the loop looks at the connections of
//! the cluster, as in a short turn of their own.
//!
//! Invariant: while the input of a connection is lent out, nothing else hands on input.
//!
//! Not here: who goes first (network/first), when a turn begins and ends (runtime).

use super::Runtime;
use crate::clock;
use crate::network::{Event, Fed, Speaks};
use crate::poll::Ready;
use crate::receive::ReceiveBuffer;
use ramhold_base::{Coming, ConnId, Input, Instant, Machine, Rest};
use ramhold_wire::{Opcode, frame};
use std::time::Duration;

/// Frames of one connection handed on in one turn, so that one busy peer cannot keep the others waiting.
const FRAME_COUNT_MAX: u64 = 128;
/// Through shared memory, answers are shown after so many frames: who asked can work on them while the rest is done.
const SHOWN_COUNT: u64 = 4;
/// Over a socket that costs a system call. So it is done only for a connection that has sent much while all others were
/// silent: its peer would otherwise wait for all answers, and this process for the next requests. After the first
/// `SENT_FIRST` frames, for who has few under way, then after each `SENT_COUNT`.
const SENT_FIRST: u64 = 8;
const SENT_COUNT: u64 = 16;
/// Steps in one turn for the bytes of one connection that are no frames.
const BYTES_STEP_COUNT_MAX: u64 = 8;
/// Connections whose input is handed on together, after a look ahead at all of it, and about how much of it: no more
/// than the processor's nearest caches can hold with what it leads to.
const COME_COUNT_MAX: usize = 16;
const COME_BYTES_MAX: usize = 16 * 1024;
/// Input of one connection is prefetched from this size on: it may hold several requests.
const SEVERAL_BYTES: usize = 128;
/// While clients' requests are handed on, the connections of the cluster are looked at after so long. One client is heard
/// for about as long again. So pings and replication wait for half a millisecond, and never for all clients.
const CLIENTS_TIME: Duration = Duration::from_micros(250);
/// The clock is read after so many frames of one connection.
const TIMED_COUNT: u64 = 16;

impl<M: Machine> Runtime<M> {
    /// Hands on all that was ready at `now`; false when there was nothing.
    pub(super) fn take_in(&mut self, now: Instant) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        let mut backlog = std::mem::take(&mut self.backlog);
        self.network.take_backlog(&mut backlog);
        let worked = !ready.is_empty() || !backlog.is_empty();
        if worked {
            self.machine.came_after(self.came_after);
        }
        self.looked_at_first = now;
        for id in &backlog {
            if self.network.goes_first(*id) {
                self.come(*id);
            }
        }
        let mut later = 0;
        for at in 0..ready.len() {
            if self.network.comes_first(&ready[at]) {
                self.on_ready(ready[at], now);
            } else {
                ready.swap(later, at);
                later += 1;
            }
        }
        ready.truncate(later);
        for id in backlog.drain(..) {
            if !self.network.goes_first(id) {
                self.come(id);
            }
        }
        for event in ready.drain(..) {
            self.on_ready(event, now);
        }
        self.feed_all();
        self.ready = ready;
        self.backlog = backlog;
        worked
    }

    fn on_ready(&mut self, event: Ready, now: Instant) {
        match self.network.on_ready(event, now) {
            Event::Done => {}
            Event::Feed(id) => self.come(id),
            Event::Woken => self.take_completions(),
        }
    }

    /// Hands on what has come from the cluster meanwhile, and ends a turn.
    fn look_at_first(&mut self, now: Instant) {
        let mut ready = std::mem::take(&mut self.ready_first);
        self.network.look_at_first(&mut ready).expect("the event queue is ours and open");
        for event in ready.drain(..) {
            match self.network.on_ready(event, now) {
                Event::Done => {}
                Event::Feed(id) => self.feed(id, false, clock::now()),
                Event::Woken => self.take_completions(),
            }
        }
        self.ready_first = ready;
        self.end_turn();
        self.tick(clock::now());
        let now = clock::now();
        self.network.flush(now);
        self.settle(now);
        self.looked_at_first = now;
    }

    /// Something of this connection can be handed on: together with that of others, so that the machine can look ahead.
    fn come(&mut self, id: ConnId) {
        // The poller and a look into shared memory may both have found it.
        if self.come.contains(&id) {
            return;
        }
        self.come.push(id);
        self.come_bytes += self.network.waiting(id).len();
        if self.come.len() == COME_COUNT_MAX || self.come_bytes >= COME_BYTES_MAX {
            self.feed_all();
        }
    }

    fn feed_all(&mut self) {
        let mut come = std::mem::take(&mut self.come);
        if come.len() > 1 || self.come_bytes >= SEVERAL_BYTES {
            let network = &self.network;
            let mut coming = come.iter().map(|id| Coming { from: *id, bytes: network.waiting(*id) });
            self.machine.prefetch(&mut coming);
        }
        self.come_bytes = 0;
        let is_alone = come.len() == 1;
        for id in come.drain(..) {
            let mut now = clock::now();
            if now.since(self.looked_at_first) >= CLIENTS_TIME {
                self.look_at_first(now);
                now = clock::now();
            }
            self.feed(id, is_alone, now);
        }
        self.come = come;
    }

    /// Hands on the frames of one connection from where they lie in its buffer. `is_alone`: no other one has sent anything.
    fn feed(&mut self, id: ConnId, is_alone: bool, now: Instant) {
        let Some(mut input) = self.network.take_input(id) else { return };
        match self.network.speaks(id, &input) {
            Speaks::Frames => {}
            Speaks::Bytes => return self.feed_bytes(id, input, is_alone, now),
            Speaks::BytesFirst => {
                if self.exit.is_none() {
                    let (peer, own) = (self.network.peer(id), self.network.own(id));
                    self.enter(now, Input::Met { conn: id, peer, own });
                }
                return self.feed_bytes(id, input, is_alone, now);
            }
        }
        let mut frame_count = 0;
        let mut goes_first = self.network.goes_first(id);
        let fed = loop {
            let is_over = frame_count == FRAME_COUNT_MAX
                || !goes_first
                    && frame_count > 0
                    && frame_count.is_multiple_of(TIMED_COUNT)
                    && clock::now().since(now) >= CLIENTS_TIME;
            if self.exit.is_some() || is_over || !self.network.is_heard(id) {
                break Fed::More;
            }
            match input.frame() {
                Ok(Some(range)) => {
                    let bytes = range.len();
                    if !goes_first && goes_first_with(input.bytes(range.clone())) {
                        goes_first = true;
                        self.network.let_first(id);
                    }
                    self.enter(now, Input::Frame { from: id, bytes: input.bytes(range) });
                    input.consume(bytes);
                    frame_count += 1;
                    self.settle(now);
                    if frame_count.is_multiple_of(SHOWN_COUNT) {
                        let sends = is_alone && frame_count % SENT_COUNT == SENT_FIRST;
                        self.network.show(id, sends, now);
                    }
                }
                Ok(None) => break Fed::Drained,
                Err(bad) => {
                    self.report_malformed(id, bad, now);
                    break Fed::Bad(bad);
                }
            }
        };
        self.network.give_back(id, input, frame_count, fed, now);
        self.settle(now);
    }

    /// Hands on what has come over a connection that does not speak in frames.
    fn feed_bytes(&mut self, id: ConnId, mut input: ReceiveBuffer, is_alone: bool, now: Instant) {
        let mut fed = Fed::More;
        let mut taken_count = 0;
        for step in 0..BYTES_STEP_COUNT_MAX {
            let is_over = step > 0 && clock::now().since(now) >= CLIENTS_TIME;
            if self.exit.is_some() || is_over || !self.network.is_heard(id) {
                break;
            }
            let bytes = input.waiting();
            let now = self.not_before(now);
            self.machine.step(now, Input::Bytes { from: id, bytes }, &mut self.effects);
            let taken = self.effects.taken;
            self.execute(now, &[]);
            input.consume(taken.bytes);
            taken_count += u64::from(taken.bytes > 0);
            fed = match taken.rest {
                Rest::Part => Fed::Drained,
                Rest::More => Fed::More,
                Rest::Held => Fed::Held,
            };
            if fed != Fed::More {
                break;
            }
            self.settle(now);
            self.network.show(id, is_alone, now);
        }
        self.network.give_back(id, input, taken_count, fed, now);
        self.settle(now);
    }
}

/// Whether this frame is a request that processes of the cluster send each other.
fn goes_first_with(frame: &[u8]) -> bool {
    frame::peek(frame).and_then(|(_, opcode)| opcode).is_some_and(Opcode::goes_first)
}
