//! Ids of bricks on the command line.

use ramhold_client::ServerId;

/// `s5`, as `ramhold status` shows a brick.
pub fn parse_brick(text: &str) -> Result<ServerId, String> {
    let number = text.strip_prefix('s').and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    number
        .map(ServerId)
        .ok_or_else(|| format!("'{text}' is not the id of a brick, like s5; 'ramhold status' shows the ids"))
}
