//! From how far the records of a recovered partition came.
//!
//! Each recovery master tells it by the places of the backups that sent them. Where servers have neither places nor zones,
//! all stand alike, and nothing is shown.
//!
//! Not here: bytes from far, which are a part of these (timeline).

use crate::output::Columns;
use crate::size::bytes_text;
use ramhold_client::PartReport;
use ramhold_wire::status::DistanceBytes;

/// A row for each partition of which it is known; `name`: of the partition. None: it is known of none.
pub fn distances_columns(parts: &[PartReport], name: impl Fn(&PartReport) -> String) -> Option<Columns> {
    let mut columns = Columns::new(["partition", "at", "fetched near", "same zone", "other zone"]);
    let known: Vec<(&PartReport, DistanceBytes)> =
        parts.iter().filter_map(|part| Some((part, fetched(part)?))).collect();
    for (part, DistanceBytes { near, zone, other_zone }) in &known {
        let [near, zone, other_zone] = [near, zone, other_zone].map(|bytes| bytes_text(*bytes));
        columns.row([name(part), part.server.to_string(), near, zone, other_zone]);
    }
    (!known.is_empty()).then_some(columns)
}

/// The bytes that a partition's master fetched. None: it does not tell, or all servers stand alike.
pub fn fetched(part: &PartReport) -> Option<DistanceBytes> {
    let fetched = part.times.fetched_bytes?;
    let has_places = part.times.far_bytes.is_some() || fetched.near > 0 || fetched.other_zone > 0;
    has_places.then_some(fetched)
}

/// The same in words, without what is zero.
pub fn distances_text(part: &PartReport) -> Option<String> {
    let DistanceBytes { near, zone, other_zone } = fetched(part)?;
    let told = [(near, "near"), (zone, "in the zone"), (other_zone, "in other zones")];
    let told: Vec<(u64, &str)> = told.into_iter().filter(|(bytes, _)| *bytes > 0).collect();
    match told.as_slice() {
        [] => None,
        [(_, what)] => Some(format!("all {what}")),
        several => {
            let words = several.iter().map(|(bytes, what)| format!("{} {what}", bytes_text(*bytes)));
            Some(words.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::RecoveryId;
    use ramhold_client::ServerId;
    use ramhold_wire::recovery::ReplayTimes;

    fn part(fetched: Option<[u64; 3]>, far_bytes: Option<u64>) -> PartReport {
        let fetched_bytes = fetched.map(|[near, zone, other_zone]| DistanceBytes { near, zone, other_zone });
        PartReport {
            plan: RecoveryId(1),
            partition: 4,
            attempt: 1,
            server: ServerId(7),
            assigned: 1,
            accepted: Some(2),
            reported: Some(3),
            live: Some(4),
            failed: None,
            bytes: 10,
            records: 1,
            times: ReplayTimes { far_bytes, fetched_bytes, ..ReplayTimes::default() },
        }
    }

    // F11, H3
    #[test]
    fn bytes_are_told_by_distance_where_servers_have_places() {
        let told = part(Some([3 << 20, 1 << 20, 0]), Some(1 << 20));
        assert_eq!(distances_text(&told).unwrap(), "3.0 MiB near, 1.0 MiB in the zone");
        let columns = distances_columns(&[told], |part| part.partition.to_string()).unwrap().text();
        let rows: Vec<Vec<&str>> = columns.lines().map(|line| line.split("  ").collect()).collect();
        assert_eq!(rows.len(), 2);
        for cell in ["4", "s7", "3.0 MiB", "1.0 MiB", "0 B"] {
            assert!(rows[1].iter().any(|found| found.trim() == cell), "{cell} in {columns}");
        }
        assert_eq!(distances_text(&part(Some([0, 0, 5]), None)).unwrap(), "all in other zones");
    }

    #[test]
    fn nothing_is_told_where_all_servers_stand_alike() {
        for part in [part(Some([0, 9, 0]), None), part(None, Some(5)), part(Some([0; 3]), Some(0))] {
            assert_eq!(distances_text(&part), None);
        }
        assert!(distances_columns(&[part(Some([0, 9, 0]), None)], |_| String::new()).is_none());
    }
}
