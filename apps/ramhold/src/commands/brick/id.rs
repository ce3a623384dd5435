//! Ids of bricks on the command line.

use ramhold_client::ServerId;

/// `s5`, as `ramhold status` shows a brick, or `5`.
pub fn parse_brick(text: &str) -> Result<ServerId, String> {
    let number = text.strip_prefix('s').unwrap_or(text).parse().ok().filter(|number| *number > 0);
    number
        .map(ServerId)
        .ok_or_else(|| format!("'{text}' is not the id of a brick, like s5; 'ramhold status' shows the ids"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bricks_are_named_with_and_without_their_letter() {
        assert_eq!(parse_brick("s5"), Ok(ServerId(5)));
        assert_eq!(parse_brick("5"), Ok(ServerId(5)));
        assert!(["", "s", "0", "b5", "s-1"].iter().all(|text| parse_brick(text).is_err()));
    }
}
