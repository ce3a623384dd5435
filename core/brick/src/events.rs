//! The events of a brick: what it noticed, and what it did about it without being told to.
//!
//! An operator reads them as (indicator, monitor, treatment). They are of this life only, and are not stored: what a
//! brick noticed before it died is not known any more, and its siblings have noticed its death.
//!
//! Invariant: the number and the bytes of the kept events are bounded.
//!
//! Not here: the merging of several bricks' events (the command line). Message: docs/formats/messages.md, 108. Catalogue: I6, J5.

use ramhold_base::limits::{BRICK_EVENT_COUNT_MAX, BRICK_EVENT_PAGE_MAX, BRICK_EVENT_TEXT_BYTES_MAX};
use ramhold_base::{ClusterTime, KeyHash, ServerId};
use ramhold_log::HashRange;
use ramhold_wire::brick_status::BrickEvent;
use std::collections::VecDeque;

/// The kind of an event. Its names are for programs, and never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    LifeBegun,
    DirectoryMoved,
    LogNotWhole,
    LogLoaded,
    SiblingSilent,
    SiblingHeard,
    SiblingRestarted,
    RestartOrdered,
    AnomalySeen,
    AnomalyOrdered,
    AnomalyRestarted,
    RebuildBegun,
    Rebuilt,
    RebuiltWithLoss,
    RebuildStalled,
    TabletsTaken,
    TabletsChanged,
    TabletsDropped,
    RoomAwaited,
    SweepBehind,
    Outlived,
}

impl EventKind {
    /// The name of the kind, and the part of the brick that notices it.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            EventKind::LifeBegun => ("life-begun", "start"),
            EventKind::DirectoryMoved => ("directory-moved", "start"),
            EventKind::LogNotWhole => ("log-not-whole", "start"),
            EventKind::LogLoaded => ("log-loaded", "start"),
            EventKind::SiblingSilent => ("sibling-silent", "announcements"),
            EventKind::SiblingHeard => ("sibling-heard", "announcements"),
            EventKind::SiblingRestarted => ("sibling-restarted", "announcements"),
            EventKind::RestartOrdered => ("restart-ordered", "announcements"),
            EventKind::AnomalySeen => ("anomaly-seen", "comparison"),
            EventKind::AnomalyOrdered => ("anomaly-ordered", "comparison"),
            EventKind::AnomalyRestarted => ("anomaly-restarted", "announcements"),
            EventKind::RebuildBegun => ("rebuild-begun", "rebuilding"),
            EventKind::Rebuilt => ("rebuilt", "rebuilding"),
            EventKind::RebuiltWithLoss => ("rebuilt-with-loss", "rebuilding"),
            EventKind::RebuildStalled => ("rebuild-stalled", "rebuilding"),
            EventKind::TabletsTaken => ("tablets-taken", "assignment"),
            EventKind::TabletsChanged => ("tablets-changed", "assignment"),
            EventKind::TabletsDropped => ("tablets-dropped", "assignment"),
            EventKind::RoomAwaited => ("room-awaited", "assignment"),
            EventKind::SweepBehind => ("sweep-behind", "sweep"),
            EventKind::Outlived => ("outlived", "announcements"),
        }
    }
}

/// The newest events of this life.
#[derive(Debug, Default)]
pub(crate) struct Events {
    kept: VecDeque<BrickEvent>,
    /// The number of the newest one; they are numbered from 1.
    pub newest: u64,
}

impl Events {
    /// `about`: the brick that it is about.
    pub fn note(
        &mut self,
        time: ClusterTime,
        kind: EventKind,
        about: ServerId,
        (indicator, treatment): (impl Into<String>, impl Into<String>),
    ) {
        self.newest += 1;
        let (name, monitor) = kind.names();
        self.kept.push_back(BrickEvent {
            number: self.newest,
            time,
            kind: name.into(),
            monitor: monitor.into(),
            about,
            indicator: bounded(indicator.into()),
            treatment: bounded(treatment.into()),
        });
        if self.kept.len() > BRICK_EVENT_COUNT_MAX {
            self.kept.pop_front();
        }
    }

    /// The oldest kept events with higher numbers, as many as an answer has.
    pub fn after(&self, number: u64) -> Vec<BrickEvent> {
        let later = self.kept.iter().filter(|event| event.number > number);
        later.take(BRICK_EVENT_PAGE_MAX).cloned().collect()
    }
}

/// `1 tablet`, `3 tablets`.
pub(crate) fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `t1`, or `t1 from 0000000000000000 to 7fffffffffffffff`.
pub(crate) fn tablet_name(range: HashRange) -> String {
    let HashRange { table, first, last } = range;
    match (first, last) {
        (KeyHash(0), KeyHash(u64::MAX)) => table.to_string(),
        _ => format!("{table} from {first:?} to {last:?}"),
    }
}

fn bounded(mut text: String) -> String {
    let at = (0..=BRICK_EVENT_TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
    if text.len() > BRICK_EVENT_TEXT_BYTES_MAX {
        text.truncate(at.unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(events: &mut Events, indicator: &str) {
        let time = ClusterTime(events.newest);
        events.note(time, EventKind::SiblingSilent, ServerId(4), (indicator, "none"));
    }

    // I6, J5
    #[test]
    fn the_newest_events_are_kept_and_told_page_by_page() {
        let mut events = Events::default();
        let count = BRICK_EVENT_COUNT_MAX as u64 + 10;
        (0..count).for_each(|_| note(&mut events, "x"));
        assert_eq!((events.kept.len(), events.newest), (BRICK_EVENT_COUNT_MAX, count));
        let (mut after, mut told) = (0, Vec::new());
        loop {
            let page = events.after(after);
            assert!(page.len() <= BRICK_EVENT_PAGE_MAX);
            let Some(last) = page.last() else { break };
            after = last.number;
            told.extend(page.into_iter().map(|event| event.number));
        }
        assert!(told.into_iter().eq(11..=count), "each once, in order, the oldest forgotten");
        assert_eq!(events.after(count), []);
    }

    // J5
    #[test]
    fn texts_are_bounded_between_characters() {
        let mut events = Events::default();
        note(&mut events, &"ä".repeat(BRICK_EVENT_TEXT_BYTES_MAX));
        note(&mut events, &format!("x{}", "ä".repeat(BRICK_EVENT_TEXT_BYTES_MAX)));
        let lengths: Vec<usize> = events.kept.iter().map(|event| event.indicator.len()).collect();
        assert_eq!(lengths, [BRICK_EVENT_TEXT_BYTES_MAX, BRICK_EVENT_TEXT_BYTES_MAX - 1]);
    }
}
