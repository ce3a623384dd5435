//! Moves every replica from its reached state towards the wanted state.

use crate::copies::message_bytes_max;
use crate::{Context, Event, Replicator, Segments, Tail};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Peer, Position, SegmentId, ServerId, StreamId, time::earliest};
use ramhold_placement::{Wish, choose_backup};
use ramhold_wire::data::{AppendRequest, Certificate};
use ramhold_wire::membership::{Durability, HeadRecord, StreamRegister};
use ramhold_wire::{Header, Opcode, View, frame, request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The time after which a call to the coordinator, or a `ReplicaFree`, is repeated.
const COORDINATOR_TIMEOUT: Duration = Duration::from_millis(500);
/// The bytes per millisecond that even a busy backup takes in.
const INTAKE_PER_MILLI: u32 = 2048;

fn transfer_time(bytes: u32) -> Duration {
    Duration::from_millis(u64::from(bytes / INTAKE_PER_MILLI))
}

/// The log's bytes in an append, after the fields of the message.
pub(crate) enum Data<'a> {
    None,
    /// Bytes that this function appends, and their number.
    Copied(&'a dyn Fn(&mut Vec<u8>), u32),
    /// Bytes that are sent to several replicas.
    Shared(Arc<Vec<u8>>),
}

impl Data<'_> {
    fn bytes(&self) -> u32 {
        match self {
            Data::None => 0,
            Data::Copied(_, bytes) => *bytes,
            Data::Shared(piece) => piece.len() as u32,
        }
    }
}

/// The pause before the next choice when no backup fits.
const NONE_FITS_PAUSE: Duration = Duration::from_millis(50);

impl Replicator {
    /// Sends everything that can be sent now. Safe to call at any time, any number of times.
    pub fn advance(&mut self, now: Instant, log: &dyn Segments, view: &View, effects: &mut Effects) {
        self.retry = None;
        self.pieces.shrink(now);
        self.advance_spreading(now, log, view, effects);
        self.admit_copies(now, log, effects);
        let (mut segments, mut streams) = std::mem::take(&mut self.scratch);
        segments.extend(self.active.iter().copied().chain(self.copies.running()));
        for segment in segments.drain(..) {
            self.advance_segment(now, segment, log, view, effects);
        }
        streams.extend(self.streams.keys().copied());
        for stream in streams.drain(..) {
            self.settle(now, stream, log, view, effects);
            self.settle_flushed(stream);
        }
        self.scratch = (segments, streams);
        self.advance_probes(now, view, effects);
        self.advance_frees(now, view, effects);
    }

    /// Sends newly appended bytes. Looks at the heads alone, so that a write costs the same however much is being
    /// copied.
    pub fn advance_heads(&mut self, now: Instant, log: &dyn Segments, view: &View, effects: &mut Effects) {
        let (mut segments, mut streams) = std::mem::take(&mut self.scratch);
        segments.extend(self.streams.values().flat_map(|s| s.order.iter().take(2)));
        for segment in segments.drain(..) {
            self.advance_segment(now, segment, log, view, effects);
        }
        streams.extend(self.streams.keys().copied());
        for stream in streams.drain(..) {
            self.settle(now, stream, log, view, effects);
            self.settle_flushed(stream);
        }
        self.scratch = (segments, streams);
        self.advance_probes(now, view, effects);
    }

    pub fn deadline(&self) -> Option<Instant> {
        earliest(self.retry, self.calls.deadline())
    }

    /// Whether replicas may be made from a segment: if it was compacted, its stream must be flushed up to `copy_after`.
    pub(crate) fn may_copy(&self, id: SegmentId, log: &dyn Segments) -> bool {
        let stream = self.segments[&id].stream;
        log.copy_after(id) <= self.flushed(stream) || planted(Defect::CopiedEarly)
    }

    /// How much of a segment may be sent, and whether it may be closed. `None` if nothing may be sent yet.
    fn wanted(&self, id: SegmentId, log: &dyn Segments) -> Option<(Tail, bool)> {
        let segment = &self.segments[&id];
        if segment.held {
            return Some((segment.opening, false));
        }
        let tail = log.tail(id)?;
        if !self.may_copy(id, log) {
            return None;
        }
        if segment.side {
            return Some((tail, tail.closed));
        }
        let order = &self.streams[&segment.stream].order;
        match order.iter().position(|s| *s == id) {
            // The segment was durably closed earlier, and is being copied again.
            None => Some((tail, true)),
            Some(0) => {
                let next_is_open = order.get(1).is_some_and(|next| {
                    let next = &self.segments[next];
                    next.holds(next.opening.length)
                });
                Some((tail, tail.closed && (next_is_open || planted(Defect::ClosedEarly))))
            }
            Some(1) if planted(Defect::NextHeadEarly) => Some((tail, false)),
            Some(1) => Some((segment.opening, false)),
            Some(_) => None,
        }
    }

    fn advance_segment(
        &mut self,
        now: Instant,
        id: SegmentId,
        log: &dyn Segments,
        view: &View,
        effects: &mut Effects,
    ) {
        let Some((limit, may_close)) = self.wanted(id, log) else { return };
        for place in 0..self.segments[&id].places.len() {
            if self.segments[&id].places[place].backup.is_none() {
                self.fill_place(now, id, place, view);
            }
            while self.send_next(now, id, place, limit, may_close, log, view, effects) {}
        }
    }

    fn fill_place(&mut self, now: Instant, id: SegmentId, place: usize, view: &View) {
        let segment = &self.segments[&id];
        if segment.places[place].retry_at > now {
            self.retry = earliest(self.retry, Some(segment.places[place].retry_at));
            return;
        }
        let (taken, avoided) = (segment.taken(), segment.avoided(now));
        let replicas = segment.places.len();
        let own = self.streams[&segment.stream].neighbourhood.as_deref();
        let neighbourhood = own.and_then(|name| {
            let all = self.neighbourhoods.of(view)?;
            Some((all, all.named(name)?))
        });
        let wish = Wish {
            neighbourhood,
            taken: &taken,
            avoided: &avoided,
            primary: place == 0,
            replicas,
            primaries: &self.primaries,
            local_allowed: self.config.local_allowed,
            copysets: self.copysets.of(view, replicas, self.config.local_allowed),
        };
        let chosen = choose_backup(view, &wish, &mut self.rng);
        let segment = self.segments.get_mut(&id).expect("looked up above");
        segment.avoided.retain(|(_, until)| *until > now);
        segment.places[place].backup = chosen;
        match chosen {
            Some(backup) => {
                segment.none_fits_since = None;
                if place == 0 {
                    *self.primaries.entry(backup).or_insert(0) += 1;
                }
            }
            None => {
                segment.none_fits_since.get_or_insert(now);
                segment.places[place].retry_at = now + NONE_FITS_PAUSE;
                self.retry = earliest(self.retry, Some(now + NONE_FITS_PAUSE));
                self.put_off_copy(now, id);
            }
        }
    }

    /// Sends one message for a replica if there is one to send.
    fn send_next(
        &mut self,
        now: Instant,
        id: SegmentId,
        index: usize,
        limit: Tail,
        may_close: bool,
        log: &dyn Segments,
        view: &View,
        effects: &mut Effects,
    ) -> bool {
        let (is_head, is_copy) = (self.is_in_order(id), self.copies.is_running(id));
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let (side, held, epoch) = (segment.side, segment.held, segment.epoch);
        let synced = self.streams[&segment.stream].class.durability == Durability::Synced;
        let is_primary = segment.is_primary(index);
        let place = &mut segment.places[index];
        let Some(backup) = place.backup else { return false };
        let changes = place.sent_epoch != Some(epoch) || (may_close && !place.sent_close);
        let missing = place.sent < limit.length || changes;
        // Copies send one message at a time: many run side by side, and heads must not wait behind them.
        let window = if is_head && place.patience == 0 { self.config.in_flight_max } else { 1 };
        if !missing || place.in_flight >= window {
            return false;
        }
        // Bytes that are under way collect what is appended meanwhile, up to a full message. An append without bytes,
        // which only renews a grant, holds up nothing. The backup of a synced stream collects by itself while its device
        // syncs.
        let is_collecting = place.in_flight > 0 && place.sent > place.certified && !place.is_cut && !synced;
        let waiting_bytes = limit.length.saturating_sub(place.sent);
        let enough = self.config.collected_bytes_max.min(self.config.append_bytes_max);
        if is_collecting && !changes && waiting_bytes < enough {
            return false;
        }
        if place.retry_at > now {
            self.retry = earliest(self.retry, Some(place.retry_at));
            return false;
        }
        let Some(address) = view.list.address(backup) else { return false };
        let mut bytes_max = self.config.append_bytes_max;
        if is_copy {
            if self.copies.next() > now {
                self.retry = earliest(self.retry, Some(self.copies.next()));
                return false;
            }
            bytes_max = message_bytes_max(bytes_max, self.config.copy_bytes_per_second);
        }
        let from = place.sent.min(limit.length);
        let mut to = limit.length.min(from.saturating_add(bytes_max));
        if let Some(end) = self.pieces.end(id, from) {
            to = to.min(end);
        }
        if is_copy {
            self.copies.sent(now, to - from, self.config.copy_bytes_per_second);
        }
        let whole = to == limit.length;
        let close = whole && may_close;
        let request = AppendRequest {
            open: from == 0,
            close,
            primary: is_primary,
            side,
            // Only a replica that is known to hold a lower epoch is raised as it is. A replica that an earlier choice
            // of the same backup left behind is opened anew instead: if it were raised before it is whole, it would
            // pass for a head.
            raise_epoch: place.epoch.is_some_and(|held| held != epoch),
            synced,
            certificate: (whole && !held).then(|| Certificate {
                length: to,
                crc: limit.crc,
                time: view.time(now),
            }),
            offset: from,
            data: &[],
        };
        if request.open {
            place.opens(epoch);
        }
        place.sent = to;
        place.is_cut = !whole;
        if whole {
            place.sent_epoch = Some(epoch);
            place.sent_close = close;
            segment.closing |= close;
        }
        let copy = |out: &mut Vec<u8>| log.copy(id, from, to, out);
        let replica_count = if segment.was_complete { 1 } else { segment.places.len() };
        let data = match self.pieces.take(now, id, (from, to), replica_count, copy) {
            Some(piece) => Data::Shared(piece),
            None if from == to => Data::None,
            None => Data::Copied(&copy, to - from),
        };
        self.send_append(now, (id, index), address, &request, &data, view, effects);
        true
    }

    /// Sends one message for a replica.
    pub(crate) fn send_append(
        &mut self,
        now: Instant,
        (id, index): (SegmentId, usize),
        address: SocketAddr,
        request: &AppendRequest<'_>,
        data: &Data<'_>,
        view: &View,
        effects: &mut Effects,
    ) {
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let (stream, epoch) = (segment.stream, segment.epoch);
        let place = &mut segment.places[index];
        let backup = place.backup.expect("callers pass places that are taken");
        place.touched = true;
        place.in_flight += 1;
        let traffic = if segment.was_complete { &mut self.traffic.1 } else { &mut self.traffic.0 };
        traffic.count(view, backup, data.bytes() as u64);
        let context = Context::Append { segment: id, place: index, backup, attempt: place.attempt };
        // A large message gets more time, and a slow backup gets twice as much after each timeout.
        let patience = (self.config.append_timeout + transfer_time(data.bytes())) * (1 << place.patience);
        let rpc = self.calls.open(address, now, now + patience, context);
        let header = Header {
            opcode: Opcode::Append.code(),
            rpc,
            shard: self.config.shard,
            stream,
            segment: id,
            epoch,
            ..view.to_server(backup)
        };
        let head = |out: &mut Vec<u8>| request.encode_head(out);
        let to = Peer::Addr(address);
        match data {
            Data::None => effects.send_with(to, |out| frame::write(out, &header, head)),
            Data::Copied(copy, _) => effects.send_with(to, |out| {
                frame::write(out, &header, |out| {
                    head(out);
                    copy(out);
                });
            }),
            Data::Shared(piece) => frame::send_sharing(effects, to, &header, head, piece),
        }
    }

    /// Moves the durable position of a stream. Before that, tells the coordinator what it must record.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        stream_id: StreamId,
        log: &dyn Segments,
        view: &View,
        effects: &mut Effects,
    ) {
        loop {
            let stream = &self.streams[&stream_id];
            let Some(&head) = stream.order.front() else { return };
            let Some(tail) = log.tail(head) else { return };
            self.tell_coordinator(now, stream_id, head, view, effects);
            let stream = &self.streams[&stream_id];
            let segment = &self.segments[&head];
            let is_recorded = segment.recorded == segment.epoch || planted(Defect::EpochNotRecorded);
            let is_registered = stream.registered || planted(Defect::StreamNotRegistered);
            if !is_registered || !segment.holds(segment.opening.length) || !is_recorded {
                return;
            }
            let next = stream.order.get(1).copied();
            let held = segment.places.iter().map(|p| p.certified);
            let held = if planted(Defect::OneReplicaEnough) { held.max() } else { held.min() };
            let certified = held.unwrap_or(tail.length);
            let position = Position { segment: head, offset: certified };
            let closes = tail.closed
                && segment.is_durably_closed(tail.length)
                && next.is_some_and(|next| {
                    let next = &self.segments[&next];
                    next.holds(next.opening.length)
                });
            let segment = self.segments.get_mut(&head).expect("looked up above");
            segment.floor = segment.floor.max(certified);
            let stream = self.streams.get_mut(&stream_id).expect("looked up above");
            stream.durable = stream.durable.max(position);
            if !closes {
                return;
            }
            stream.order.pop_front();
            (segment.complete, segment.was_complete) = (true, true);
            self.active.remove(&head);
            // The next head may take data now. The head after it may be opened, if it was rolled already.
            let next = next.expect("a head closes only when the next is open");
            let after = self.streams[&stream_id].order.get(1).copied();
            for head in [Some(next), after].into_iter().flatten() {
                self.advance_segment(now, head, log, view, effects);
            }
        }
    }

    fn tell_coordinator(
        &mut self,
        now: Instant,
        stream_id: StreamId,
        head: SegmentId,
        view: &View,
        effects: &mut Effects,
    ) {
        let stream = self.streams.get_mut(&stream_id).expect("callers pass streams of ours");
        let segment = self.segments.get_mut(&head).expect("heads are segments of ours");
        if !segment.holds(segment.floor.max(segment.opening.length)) {
            return;
        }
        let epoch = segment.epoch;
        if self.config.is_own {
            // A restart takes the newest head of the device, whatever others know.
            segment.recorded = epoch;
            stream.recorded = stream.recorded.max(head);
            return;
        }
        // A replica that was a head's is not freed before a newer head is recorded: see `advance_frees`.
        let is_newest = !stream.may_be_head(stream.retired) || stream.retired >= head;
        let is_wanted = if stream.registered { segment.recorded != epoch || !is_newest } else { true };
        if is_wanted && stream.ask_at > now {
            self.retry = earliest(self.retry, Some(stream.ask_at));
            return;
        }
        let deadline = now + COORDINATOR_TIMEOUT;
        let to = Peer::Addr(view.coordinator);
        if !stream.registered {
            if !stream.registering {
                stream.registering = true;
                let context = Context::Register { stream: stream_id, segment: head, epoch };
                let rpc = self.calls.open(view.coordinator, now, deadline, context);
                let message = StreamRegister {
                    shard: self.config.shard,
                    stream: stream_id,
                    durability: stream.class.durability,
                    replicas: stream.class.replicas,
                    segment: head,
                    epoch,
                    neighbourhood: stream.neighbourhood.clone(),
                };
                request(effects, to, &view.to_coordinator(), rpc, &message);
            }
        } else if is_wanted && !segment.recording {
            segment.recording = true;
            let rpc =
                self.calls.open(view.coordinator, now, deadline, Context::Record { segment: head, epoch });
            let message = HeadRecord { shard: self.config.shard, stream: stream_id, segment: head, epoch };
            request(effects, to, &view.to_coordinator(), rpc, &message);
        }
    }

    /// Takes a backup away from a place. `avoid` is the time for which it is not chosen for this segment again.
    pub(crate) fn lose(&mut self, now: Instant, id: SegmentId, index: usize, avoid: Option<Duration>) {
        let in_order = self.is_in_order(id);
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let place = &mut segment.places[index];
        let Some(backup) = place.backup else { return };
        if segment.moves.is_some() {
            if let Some(avoid) = avoid {
                segment.avoided.push((backup, now + avoid));
            }
            // A successor that was not opened as the primary does not become it: that one is copied in its turn.
            if index > 0 || segment.moves == Some(0) {
                return self.lose_moving(now, id, index);
            }
            self.cancel_move(now, id);
        }
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let place = &mut segment.places[index];
        let touched = place.touched;
        place.reset();
        segment.complete = false;
        if let Some(avoid) = avoid {
            segment.avoided.push((backup, now + avoid));
        }
        if in_order && touched && !planted(Defect::EpochNotRaised) {
            segment.raise_epoch();
            segment.recording = false;
        }
        if segment.was_complete && !segment.awaited && !self.active.contains(&id) {
            let left = segment.replicas_left();
            self.copies.wait(now, id, left);
        } else {
            self.active.insert(id);
        }
        if index == 0 {
            self.primary_gone(backup);
        }
    }

    pub(crate) fn is_in_order(&self, id: SegmentId) -> bool {
        let segment = &self.segments[&id];
        !segment.side && self.streams[&segment.stream].order.contains(&id)
    }

    /// The server list changed: replicas on servers that are not Up are lost.
    pub fn on_list(&mut self, now: Instant, view: &View) {
        self.full.retain(|backup, _| view.list.address(*backup).is_some());
        self.copies.tell_recovering(now, view.list.recovered().next().is_some());
        let ids: Vec<SegmentId> = self.segments.keys().copied().collect();
        for id in ids {
            // The last place goes first: if it is a successor's, the others stay what they are.
            for index in (0..self.segments[&id].places.len()).rev() {
                let place = self.segments[&id].places.get(index);
                let backup = place.and_then(|place| place.backup);
                if backup.is_some_and(|backup| view.list.address(backup).is_none()) {
                    self.lose(now, id, index, None);
                }
            }
        }
        self.primaries.retain(|backup, _| view.list.address(*backup).is_some());
    }

    /// Sends `ReplicaFree` for replicas that are to be freed. A late copy of the message that opened a head could make
    /// a backup begin the replica anew that it has just freed. A recovery would take that replica for the head, and so
    /// for the end of the log. Therefore the coordinator must record a newer head before: then no older segment counts
    /// as the head.
    fn advance_frees(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        self.frees.retain(|free| view.list.address(free.backup).is_some());
        for free in &mut self.frees {
            let may_be_head = self.streams[&free.stream].may_be_head(free.segment);
            if free.was_head && may_be_head && !planted(Defect::FreedUnrecorded) {
                continue;
            }
            if free.next > now {
                self.retry = earliest(self.retry, Some(free.next));
                continue;
            }
            let Some(address) = view.list.address(free.backup) else { continue };
            free.next = now + COORDINATOR_TIMEOUT;
            self.retry = earliest(self.retry, Some(free.next));
            let context = Context::Free { segment: free.segment, backup: free.backup };
            let rpc = self.calls.open(address, now, free.next, context);
            let header = Header {
                opcode: Opcode::ReplicaFree.code(),
                rpc,
                shard: self.config.shard,
                stream: free.stream,
                segment: free.segment,
                epoch: free.epoch,
                ..view.to_server(free.backup)
            };
            effects.send_with(Peer::Addr(address), |out| frame::write(out, &header, |_| {}));
        }
    }

    pub(crate) fn suspect(&mut self, backup: ServerId) {
        let event = Event::Suspect(backup);
        if !self.events.contains(&event) {
            self.events.push(event);
        }
    }
}
