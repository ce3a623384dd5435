//! Scans of a session, page by page. They pause between pages, so that objects that a scan must not miss have
//! time to move.

use crate::network::MILLI;
use crate::system::Met;
use ramhold_base::{Instant, Rng, TableId};
use ramhold_client_core::{Page, PageLimits, ScanCursor};
use std::time::Duration;

/// A scan that has not ended.
pub struct Scanning {
    cursor: ScanCursor,
    /// Tables that come after the present one.
    rest: Vec<TableId>,
    limits: PageLimits,
    met: Vec<Met>,
    /// The time at which the next page is asked for; none while a request is under way.
    pub due: Option<Instant>,
    /// The time at which the present page was asked for.
    asked: Instant,
    pause_max: u64,
}

impl Scanning {
    /// Scans several tables one after the other.
    pub fn new(now: Instant, tables: &[TableId], rng: &mut Rng) -> Scanning {
        // Small pages without long pauses, large ones with them: a scan ends within a part of a run.
        let profiles = [
            ((1, 60), (100, 20_000), MILLI),
            ((10, 60), (2000, 20_000), 10 * MILLI),
            ((100, 200), (20_000, 60_000), 200 * MILLI),
        ];
        let (counts, bytes, pause_max) = *rng.pick(&profiles).expect("three profiles");
        let (count, bytes) = (rng.between(counts.0, counts.1) as u32, rng.between(bytes.0, bytes.1) as u32);
        Scanning {
            cursor: ScanCursor::new(*tables.first().expect("there is one")),
            rest: tables[1..].to_vec(),
            limits: PageLimits { count, bytes, ..PageLimits::default() },
            met: Vec::new(),
            due: Some(now),
            asked: now,
            pause_max,
        }
    }

    /// The next request.
    pub fn ask(&mut self, now: Instant) -> (ScanCursor, PageLimits) {
        self.due = None;
        self.asked = now;
        // As if the client had kept the cursor as text and begun anew.
        let kept = self.cursor.to_string().parse().expect("a cursor's text is a cursor");
        assert_eq!(self.cursor, kept);
        (kept, self.limits)
    }

    /// Takes a page. Returns everything that the scan met if that was the last page.
    pub fn take(&mut self, now: Instant, page: Page, rng: &mut Rng) -> Option<Vec<Met>> {
        let (call, ret, answered_by) = (self.asked.0, now.0, page.answered_by);
        self.met.extend(page.objects.into_iter().map(|object| Met {
            key: object.key,
            version: object.version,
            value: object.value,
            call,
            ret,
            answered_by,
        }));
        let of_next_table =
            |rest: &mut Vec<TableId>| (!rest.is_empty()).then(|| ScanCursor::new(rest.remove(0)));
        match page.next.or_else(|| of_next_table(&mut self.rest)) {
            Some(next) => {
                self.cursor = next;
                self.due = Some(now + Duration::from_nanos(rng.below(self.pause_max)));
                None
            }
            None => Some(std::mem::take(&mut self.met)),
        }
    }
}
