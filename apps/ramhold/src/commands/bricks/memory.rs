//! A brick without room for puts, or for a tablet, and the way out.
//!
//! Not here: other findings (`condition`). Catalogue: I6, C6.

use super::survey::Found;
use crate::findings::{Finding, Grade, finding};
use ramhold_client::BrickLimit;

/// The limit that the brick has reached, and the way out. Reads and removals go on in any case.
pub fn shortage(brick: &Found) -> Option<Finding> {
    let status = brick.told.as_ref().ok()?;
    let name = format!("{} at {}", brick.id, brick.address);
    let told = status.brick.as_ref().and_then(|own| own.full);
    // A brick of before names no limit.
    let full = told.or(status.cleaning.filter(|cleaning| cleaning.is_full).map(|_| BrickLimit::Memory));
    if let Some(full) = full {
        let (what, way_out) = match full {
            BrickLimit::Memory => (
                format!("the log memory of {name} is full: it refuses puts; reads and removals go on"),
                "remove objects, or give the brick more --memory and start it again",
            ),
            BrickLimit::Frames => (
                format!("the disk of {name} has no frames left: it refuses puts; reads and removals go on"),
                "remove objects, or give the brick more --disk and start it again",
            ),
            BrickLimit::Index => (
                format!("the index of {name} is full: it refuses puts of new keys; all else goes on"),
                "remove objects, which makes room some minutes later, or give the brick more --memory and start it again",
            ),
        };
        return Some(finding(Grade::Critical, what, way_out));
    }
    let waiting = status.brick.as_ref().map_or(0, |own| own.waits_for_room);
    let tablets = match waiting {
        0 => return None,
        1 => "1 tablet".to_owned(),
        count => format!("{count} tablets"),
    };
    Some(finding(
        Grade::Degraded,
        format!(
            "{name} has no room for the first head of another stream, and does not serve {tablets} of it"
        ),
        "remove objects, or start it again with more --disk or --memory",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::reach::tests::status;
    use super::*;
    use ramhold_client::{BrickStatus, ProcessStatus, ServerId};
    use ramhold_wire::status::CleaningStatus;

    fn told(is_full: bool, full: Option<BrickLimit>, waits_for_room: u32) -> Option<Finding> {
        let cleaning = Some(CleaningStatus { is_full, ..CleaningStatus::default() });
        let brick = status(None).brick.map(|brick| BrickStatus { full, waits_for_room, ..brick });
        let status = ProcessStatus { cleaning, brick, ..ProcessStatus::default() };
        shortage(&Found {
            id: ServerId(3),
            address: "10.0.0.3:7400".parse().expect("an address"),
            labels: Vec::new(),
            life: 1,
            heard_millis: None,
            tablets: None,
            is_offline: false,
            scaling: None,
            told: Ok(Box::new(status)),
        })
    }

    // I6
    #[test]
    fn a_brick_that_refuses_puts_names_the_limit_and_the_way_out() {
        assert!(told(false, None, 0).is_none());
        for (is_full, full, what, way_out) in [
            (true, None, "the log memory of s3 at 10.0.0.3:7400 is full", "--memory"),
            (true, Some(BrickLimit::Memory), "the log memory of s3 at 10.0.0.3:7400 is full", "--memory"),
            (true, Some(BrickLimit::Frames), "the disk of s3 at 10.0.0.3:7400 has no frames left", "--disk"),
            (false, Some(BrickLimit::Index), "the index of s3 at 10.0.0.3:7400 is full", "--memory"),
        ] {
            let finding = told(is_full, full, 0).expect("it is full");
            assert!(finding.grade == Grade::Critical && finding.what.starts_with(what), "{finding:?}");
            assert!(finding.action.contains("remove objects") && finding.action.contains(way_out));
        }
    }

    // I1, C6: rule 95.
    #[test]
    fn a_brick_without_room_for_a_stream_says_which_tablets_wait() {
        let finding = told(false, None, 2).expect("tablets wait");
        assert!(finding.what.contains("does not serve 2 tablets of it"), "{finding:?}");
        assert!(finding.grade == Grade::Degraded && finding.action.contains("--disk"));
    }
}
