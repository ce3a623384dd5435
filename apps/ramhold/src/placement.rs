//! The placement of replicas as people write and read it: `scatter`, `copyset`, `copyset:2`.

use ramhold_base::limits::COPYSET_RINGS_MAX;
use ramhold_wire::ReplicaPlacement;

pub fn parse_placement(text: &str) -> Result<ReplicaPlacement, String> {
    let rings = match text.split_once(':') {
        None if text == "scatter" => return Ok(ReplicaPlacement::Scatter),
        None if text == "copyset" => Some(1),
        Some(("copyset", rings)) => {
            rings.parse().ok().filter(|rings| (1..=COPYSET_RINGS_MAX).contains(rings))
        }
        None | Some(_) => None,
    };
    rings.map(|rings| ReplicaPlacement::Copysets { rings }).ok_or_else(|| {
        format!("'{text}' is not 'scatter', 'copyset' or 'copyset:RINGS' with 1 to {COPYSET_RINGS_MAX} rings")
    })
}

/// As it is written.
pub fn placement_text(placement: ReplicaPlacement) -> String {
    match placement {
        ReplicaPlacement::Scatter => "scatter".to_owned(),
        ReplicaPlacement::Copysets { rings } => format!("copyset:{rings}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written() {
        // D4
        assert_eq!(parse_placement("copyset"), Ok(ReplicaPlacement::Copysets { rings: 1 }));
        for text in ["scatter", "copyset:1", "copyset:16"] {
            assert_eq!(placement_text(parse_placement(text).unwrap()), text);
        }
        for text in
            ["", "random", "scatter:2", "copyset:", "copyset:0", "copyset:17", "copyset:-1", "copyset:x"]
        {
            let refused = parse_placement(text).unwrap_err();
            assert!(refused.contains("1 to 16 rings"), "{refused}");
        }
    }
}
