//! Full devices, to warn of them; also the device of the coordinator's own store.
//!
//! A server tells with `MembershipVerify` that the device of its backup is full. It repeats that while the device is
//! full, and tells once more when it is not. The coordinator decides nothing by it: masters find out by themselves
//! which backups have no room.
//!
//! These reports are not stored: a coordinator that starts anew is told within seconds.
//!
//! If the store's device has no room for a commit, the commit is made again every `STORE_PAUSE`, for ever. Until it is
//! complete, nothing leaves that depends on it, as with any slow store.
//!
//! Catalogue: D3, J5.

use crate::clock::millis;
use crate::desk::Desk;
use crate::streams::sender_of;
use ramhold_base::{Instant, Level, Mark, Peer, ServerId, Status, StoreRequest, StoreToken};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::membership::MembershipVerify;
use ramhold_wire::status::DiskFull;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most servers that the warnings of one status name.
const NAMED_COUNT_MAX: usize = 16;

/// The pause between a commit that found no room and its next try.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Full devices by server, with the time at which the server last said so.
#[derive(Debug, Default)]
pub(crate) struct FullDisks(BTreeMap<ServerId, (Instant, DiskFull)>);

/// The store's device, and its trouble while it has no room.
#[derive(Debug, Default)]
pub(crate) struct FullStore(Option<Trouble>);

#[derive(Debug)]
struct Trouble {
    since: Instant,
    reason: String,
    /// The request that is to be repeated, and when; none: it is being repeated.
    again: Option<(Instant, StoreToken, StoreRequest)>,
}

impl FullStore {
    pub fn on_full(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        (token, request): (StoreToken, StoreRequest),
        reason: String,
    ) {
        let since = self.0.as_ref().map(|trouble| trouble.since);
        if since.is_none() {
            desk.outbox.report(
                Level::Warn,
                format!(
                    "the store has no room: {reason}; no change of the cluster is made: free space there"
                ),
            );
            desk.outbox.mark(Mark::CoordinatorStoreFull);
        }
        let again = Some((now + STORE_PAUSE, token, request));
        self.0 = Some(Trouble { since: since.unwrap_or(now), reason, again });
    }

    /// Repeats the request to the store when that is due.
    pub fn advance(&mut self, now: Instant, desk: &mut Desk) {
        if let Some(trouble) = &mut self.0
            && let Some((_, token, request)) = trouble.again.take_if(|(at, ..)| *at <= now)
        {
            desk.outbox.store_again(token, request);
        }
    }

    pub fn wake(&self) -> Option<Instant> {
        self.0.as_ref().and_then(|trouble| trouble.again.as_ref()).map(|(at, ..)| *at)
    }

    pub fn is_full(&self) -> bool {
        self.0.is_some()
    }

    /// A commit is complete, so the store has room.
    pub fn has_room(&mut self, now: Instant, desk: &mut Desk) {
        if let Some(trouble) = self.0.take() {
            let seconds = now.since(trouble.since).as_secs();
            desk.outbox.report(Level::Info, format!("the store was full for {seconds} s and has room again"));
        }
    }

    /// The reason why changes of the cluster wait, if the store has no room for them.
    pub fn trouble(&self, now: Instant) -> Option<String> {
        let trouble = self.0.as_ref()?;
        let seconds = now.since(trouble.since).as_secs();
        Some(format!("the store has no room: {}, for {seconds} s; free space there", trouble.reason))
    }
}

impl FullDisks {
    /// A server that is not Up is refused before it gets here.
    pub fn on_membership_verify(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: MembershipVerify,
    ) -> Result<(), Status> {
        let sender = sender_of(header)?;
        self.0.retain(|server, _| *server != sender && desk.state.is_up(*server));
        if let Some(full) = message.full {
            self.0.insert(sender, (now, full));
        }
        desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    pub fn warn(&self, now: Instant, desk: &Desk, warnings: &mut Vec<String>) {
        let full = self.0.iter().filter(|(server, _)| desk.state.is_up(**server));
        for (server, (told, full)) in full.take(NAMED_COUNT_MAX) {
            let since_millis = full.since_millis.saturating_add(millis(now.since(*told)));
            let full = DiskFull { since_millis, ..full.clone() };
            warnings.push(format!(
                "disk full on {server}: {full}; free space there, or start a server with another --dir: new \
                 replicas go to other backups, or writes wait"
            ));
        }
    }
}
