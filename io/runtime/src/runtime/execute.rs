//! Executes effects, in order.

use super::{Exit, Runtime};
use crate::disk::{WhenKilled, Work};
use crate::pending::Pending;
use crate::report;
use ramhold_base::{
    ConnId, DiskError, DiskToken, Effect, Instant, Level, Machine, StoreRequest, StoreResult, StoreToken,
};
use ramhold_wire::BadFrame;
use std::borrow::Cow;
use std::sync::Arc;

impl<M: Machine> Runtime<M> {
    /// Executes and clears the effects of one step, which was given this frame or nothing.
    pub(super) fn execute(&mut self, now: Instant, frame: &[u8]) {
        let mut list = std::mem::take(&mut self.effects.list);
        let own = self.lending.lend(&mut self.effects.bytes);
        for effect in list.drain(..) {
            if self.exit.is_some() {
                break;
            }
            self.execute_one(effect, now, &own, frame);
        }
        self.lending.take_back(own, &mut self.effects.bytes);
        self.effects.list = list;
        self.effects.clear();
    }

    fn execute_one(&mut self, effect: Effect, now: Instant, own: &Arc<Vec<u8>>, step_frame: &[u8]) {
        match effect {
            Effect::Send { to, frame } => self.network.send(to, own, frame, now),
            Effect::Close { conn } => self.network.close(conn, now),
            Effect::Hear { conn } => self.network.hear(conn),
            Effect::DiskWrite { token, file, offset, data } => {
                let when_killed = WhenKilled::of(&data);
                let data = Cow::Borrowed(data.of(own, step_frame));
                self.submit(token, Work::Write { file, offset, data, when_killed });
            }
            Effect::DiskRead { token, file, offset, bytes } => {
                self.submit(token, Work::Read { file, offset, bytes });
            }
            Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes } => {
                self.submit(token, Work::Copy { from, from_offset, to, to_offset, bytes });
            }
            Effect::DiskSync { token, file } => self.submit(token, Work::Sync { file }),
            Effect::DiskReserve { token, file, bytes } => self.submit(token, Work::Reserve { file, bytes }),
            Effect::Store { token, request } => self.ask_store(token, request),
            Effect::Secret { token, work } => self.pending.extend(self.secrets.submit(token, work)),
            Effect::Mark(_) => {}
            Effect::Report { level, text } => self.tell(level, &text),
            Effect::Named { server } => self.named = Some(server),
            Effect::Exit { code, reason } => self.exit = Some(Exit { code, reason }),
        }
    }

    fn submit(&mut self, token: DiskToken, work: Work<'_>) {
        let done = match &self.disk {
            Some(disk) => disk.submit(token, work),
            None => {
                let result =
                    Err(DiskError::Failed("this process was started without a data directory".into()));
                Some(Pending::Disk { token, result })
            }
        };
        self.pending.extend(done);
    }

    fn ask_store(&mut self, token: StoreToken, request: StoreRequest) {
        let failure = match &self.store {
            Some(store) if store.send(token, request) => return,
            Some(_) => "the store's thread has ended",
            None => "this process was started without a store",
        };
        self.pending.push_back(Pending::Store { token, result: StoreResult::Failed(failure.into()) });
    }

    fn tell(&mut self, level: Level, text: &str) {
        (self.report)(level, &report::line(self.named, text));
    }

    pub(super) fn report_malformed(&mut self, id: ConnId, bad: BadFrame, now: Instant) {
        if let Some(held_back) = self.troubles.malformed.pass(now) {
            let peer = self.network.peer(id).map_or("somebody".into(), |peer| peer.to_string());
            let text = format!("a frame from {peer} {bad}; the connection is closed{}", others(held_back));
            self.tell(Level::Warn, &text);
        }
    }

    /// Tells of what strangers or want of room did since it was last told.
    pub(super) fn report_troubles(&mut self, now: Instant) {
        let stats = self.network.stats;
        let told = self.troubles.told;
        let news = [
            (
                "connections closed because there are too many",
                stats.connections_refused - told.connections_refused,
            ),
            (
                "connections closed because what we sent was not fetched",
                (stats.output_overflows + stats.outputs_overdue)
                    - (told.output_overflows + told.outputs_overdue),
            ),
            (
                "connections closed because a frame took too long to come",
                stats.frames_overdue - told.frames_overdue,
            ),
            (
                "pauses of accepting for want of file descriptors or memory (raise the limit, see ulimit -n)",
                stats.accept_pauses - told.accept_pauses,
            ),
            (
                "connections of this host closed because their user was another one or their hello was wrong",
                stats.hellos_refused - told.hellos_refused,
            ),
            (
                "times that processes of this host were sent to TCP for 10 s because too many of other users connected",
                stats.names_left - told.names_left,
            ),
        ];
        if news.iter().all(|(_, count)| *count == 0) || self.troubles.network.pass(now).is_none() {
            return;
        }
        self.troubles.told = stats;
        for (what, count) in news.iter().filter(|(_, count)| *count > 0) {
            self.tell(Level::Warn, &format!("{what}: {count}"));
        }
    }
}

fn others(held_back: u64) -> String {
    if held_back == 0 {
        String::new()
    } else {
        format!(" ({held_back} more like it since the last such line)")
    }
}
