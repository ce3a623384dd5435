//! The values of `--resp-cross-slot`: `strict` or `allow`.

use ramhold_node::CrossSlot;

pub fn parse_cross_slot(text: &str) -> Result<CrossSlot, String> {
    match text {
        "strict" => Ok(CrossSlot::Strict),
        "allow" => Ok(CrossSlot::Allow),
        _ => Err(format!("'{text}' is not 'strict' or 'allow'")),
    }
}

/// As it is written.
pub fn cross_slot_text(cross_slot: CrossSlot) -> &'static str {
    match cross_slot {
        CrossSlot::Strict => "strict",
        CrossSlot::Allow => "allow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // J1
    #[test]
    fn the_choice_is_read_as_it_is_written() {
        for text in ["strict", "allow"] {
            assert_eq!(cross_slot_text(parse_cross_slot(text).unwrap()), text);
        }
        assert_eq!(parse_cross_slot("never").unwrap_err(), "'never' is not 'strict' or 'allow'");
    }
}
