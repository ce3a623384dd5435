//! The number of objects of a table, as far as it can be had within a moment (A6).

use ramhold_client::{Client, PageLimits, ScanCursor, TableDescription, TabletState};
use std::time::{Duration, Instant};

/// How long a description waits for each tablet's number of objects, or for the scan of a quorum table's keys.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    All(u64),
    /// The time was over before the end of the table.
    AtLeast(u64),
    Unknown,
}

impl Counted {
    pub fn of(client: &mut Client, table: &TableDescription) -> Counted {
        client.set_deadline(COUNT_PATIENCE);
        if table.quorum.is_some() {
            return scanned(client, table);
        }
        if table.tablets.iter().any(|tablet| tablet.state != TabletState::Serving) {
            return Counted::Unknown;
        }
        client.count(table.table).map_or(Counted::Unknown, Counted::All)
    }

    pub fn text(self) -> String {
        match self {
            Counted::All(1) => "1 object".to_owned(),
            Counted::All(objects) => format!("{objects} objects"),
            Counted::AtLeast(objects) => format!("at least {objects} objects"),
            Counted::Unknown => "objects whose number is not known".to_owned(),
        }
    }

    /// None unless all were counted.
    pub fn all(self) -> Option<u64> {
        match self {
            Counted::All(objects) => Some(objects),
            Counted::AtLeast(_) | Counted::Unknown => None,
        }
    }
}

/// Bricks do not count objects. A scan of the keys does.
fn scanned(client: &mut Client, table: &TableDescription) -> Counted {
    let begun = Instant::now();
    let limits = PageLimits { keys_only: true, ..PageLimits::default() };
    let mut next = Some(ScanCursor::new(table.table));
    let mut objects = 0;
    while let Some(cursor) = &next {
        if objects > 0 && begun.elapsed() >= COUNT_PATIENCE {
            return Counted::AtLeast(objects);
        }
        match client.scan_page(cursor, limits) {
            Ok(page) => {
                objects += page.objects.len() as u64;
                next = page.next;
            }
            Err(_) if objects > 0 => return Counted::AtLeast(objects),
            Err(_) => return Counted::Unknown,
        }
    }
    Counted::All(objects)
}
