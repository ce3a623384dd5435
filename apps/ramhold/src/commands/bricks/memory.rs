//! A brick without memory for puts, and the way out.
//!
//! Not here: other findings (`condition`). Catalogue: I6, C6.

use super::survey::Found;

/// The fault, and the way out.
pub fn shortage(brick: &Found) -> Option<(String, &'static str)> {
    let status = brick.told.as_ref().ok()?;
    if !status.cleaning.is_some_and(|cleaning| cleaning.is_full) {
        return None;
    }
    let what = format!(
        "the log memory of {} at {} is full: it refuses puts; reads and removals go on",
        brick.id, brick.address
    );
    Some((what, "remove objects, or give the brick more --memory and start it again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_client::{ProcessStatus, ServerId};
    use ramhold_wire::status::CleaningStatus;

    // I6
    #[test]
    fn a_brick_that_refuses_puts_for_want_of_memory_is_found_with_a_way_out() {
        let found = |is_full| {
            let cleaning = Some(CleaningStatus { is_full, ..CleaningStatus::default() });
            let status = ProcessStatus { cleaning, ..ProcessStatus::default() };
            Found {
                id: ServerId(3),
                address: "10.0.0.3:7400".parse().expect("an address"),
                labels: Vec::new(),
                life: 1,
                heard_millis: None,
                tablets: None,
                is_offline: false,
                scaling: None,
                told: Ok(Box::new(status)),
            }
        };
        assert!(shortage(&found(false)).is_none());
        let (what, action) = shortage(&found(true)).expect("it is full");
        assert!(what.starts_with("the log memory of s3 at 10.0.0.3:7400 is full"), "{what}");
        assert!(action.contains("remove objects") && action.contains("--memory"), "{action}");
    }
}
