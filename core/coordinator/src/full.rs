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

use crate::machine::{Coordinator, millis};
use crate::streams::sender_of;
use ramhold_base::{Instant, Level, Mark, Peer, ServerId, Status, StoreRequest, StoreToken};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::membership::MembershipVerify;
use ramhold_wire::status::DiskFull;
use std::collections::BTreeMap;
use std::time::Duration;

/// Full devices by server, with the time at which the server last said so.
pub(crate) type FullDisks = BTreeMap<ServerId, (Instant, DiskFull)>;

/// The most servers that the warnings of one status name.
const NAMED_COUNT_MAX: usize = 16;

/// The pause between a commit that found no room and its next try.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The store's device has no room.
#[derive(Debug)]
pub(crate) struct FullStore {
    since: Instant,
    reason: String,
    /// The request that is to be repeated, and when; none: it is being repeated.
    again: Option<(Instant, StoreToken, StoreRequest)>,
}

impl Coordinator {
    pub(crate) fn on_store_full(
        &mut self,
        now: Instant,
        token: StoreToken,
        request: StoreRequest,
        reason: String,
    ) {
        let since = self.full_store.as_ref().map(|full| full.since);
        if since.is_none() {
            self.desk.outbox.report(
                Level::Warn,
                format!(
                    "the store has no room: {reason}; no change of the cluster is made: free space there"
                ),
            );
            self.desk.outbox.mark(Mark::CoordinatorStoreFull);
        }
        let again = Some((now + STORE_PAUSE, token, request));
        self.full_store = Some(FullStore { since: since.unwrap_or(now), reason, again });
    }

    /// Repeats the request to the store when that is due.
    pub(crate) fn advance_store(&mut self, now: Instant) {
        if let Some(full) = &mut self.full_store
            && let Some((_, token, request)) = full.again.take_if(|(at, ..)| *at <= now)
        {
            self.desk.outbox.store_again(token, request);
        }
    }

    pub(crate) fn store_wake(&self) -> Option<Instant> {
        self.full_store.as_ref().and_then(|full| full.again.as_ref()).map(|(at, ..)| *at)
    }

    /// A commit is complete, so the store has room.
    pub(crate) fn store_has_room(&mut self, now: Instant) {
        if let Some(full) = self.full_store.take() {
            let seconds = now.since(full.since).as_secs();
            self.desk
                .outbox
                .report(Level::Info, format!("the store was full for {seconds} s and has room again"));
        }
    }

    /// The reason why changes of the cluster wait, if the store has no room for them.
    pub(crate) fn store_trouble(&self, now: Instant) -> Option<String> {
        let full = self.full_store.as_ref()?;
        let seconds = now.since(full.since).as_secs();
        Some(format!("the store has no room: {}, for {seconds} s; free space there", full.reason))
    }

    /// A server that is not Up is refused before it gets here.
    pub(crate) fn answer_membership_verify(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: MembershipVerify,
    ) -> Result<(), Status> {
        let sender = sender_of(header)?;
        let state = &self.desk.state;
        self.full_disks.retain(|server, _| *server != sender && state.is_up(*server));
        if let Some(full) = message.full {
            self.full_disks.insert(sender, (now, full));
        }
        self.desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    pub(crate) fn warn_of_full_disks(&self, now: Instant, warnings: &mut Vec<String>) {
        let full = self.full_disks.iter().filter(|(server, _)| self.desk.state.is_up(**server));
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
