//! Obstacles to orders about bricks, in words, with the way out (I6, I7).

use ramhold_client::{Obstacle, ObstacleKind, ServerId};

/// Why an order to add or remove a brick is refused.
pub fn text(obstacle: &Obstacle, ordered: ServerId) -> String {
    let Obstacle { kind, brick, table } = *obstacle;
    match kind {
        ObstacleKind::Unknown => format!("there is no brick {brick}; 'ramhold status' lists the bricks"),
        ObstacleKind::NotHeard => format!("{brick} has not been heard lately; start it first"),
        ObstacleKind::HasTablet => {
            format!("{brick} holds that tablet of {table} already; take another brick")
        }
        ObstacleKind::SameDomain => format!(
            "{ordered} shares a failure domain with {brick}, and every tablet that it could take has a brick there; take a \
             brick on another host"
        ),
        ObstacleKind::TooSmall => {
            format!("{brick} has too little free memory for a tablet of {table}; start a larger brick")
        }
        ObstacleKind::TooManyTablets => {
            format!("{brick} would have too many tablets, or {table} as a whole; take another brick, or none")
        }
        ObstacleKind::LastSibling => format!(
            "without {brick}, fewer bricks or failure domains would remain than a tablet of {table} needs; start another \
             brick first, or drop the table"
        ),
        ObstacleKind::NoneToSpare => format!(
            "a put or a get of {table} needs all bricks of a key, so it would stop while a tablet moves; this is not \
             offered: copy the objects to a table with a smaller --write-quorum"
        ),
        ObstacleKind::NoTable => {
            "there is no such quorum table; 'ramhold table create NAME --quorum 3' makes one".to_owned()
        }
        ObstacleKind::Ordered => format!(
            "{brick} is being added or removed already; 'ramhold status' shows how far it is, and --cancel ends it"
        ),
        ObstacleKind::NotOrdered => format!("{brick} is neither being added nor removed"),
        ObstacleKind::TooNarrow => format!("the tablet of {table} cannot be cut any further"),
        ObstacleKind::Silent
        | ObstacleKind::Rebuilding
        | ObstacleKind::MayBeRead
        | ObstacleKind::NotLost
        | ObstacleKind::HoldsTablets
        | ObstacleKind::GivesTablets
        | ObstacleKind::Stalled
        | ObstacleKind::OnlyBrick => short(obstacle, ordered),
    }
}

/// The reason why an order waits.
pub fn short(obstacle: &Obstacle, ordered: ServerId) -> String {
    let Obstacle { kind, brick, table } = *obstacle;
    match kind {
        ObstacleKind::Silent | ObstacleKind::NotHeard => format!("waits for {brick}, which is silent"),
        ObstacleKind::Rebuilding => format!("waits until {brick} votes"),
        ObstacleKind::Stalled => format!("{brick} has come no further for a minute"),
        ObstacleKind::TooSmall => format!("waits for memory on {brick}"),
        ObstacleKind::LastSibling => format!("waits for another brick for {table}"),
        ObstacleKind::SameDomain => format!("waits: {ordered} is in the failure domain of {brick}"),
        ObstacleKind::Unknown
        | ObstacleKind::HasTablet
        | ObstacleKind::TooManyTablets
        | ObstacleKind::MayBeRead
        | ObstacleKind::NotLost
        | ObstacleKind::OnlyBrick
        | ObstacleKind::NoneToSpare
        | ObstacleKind::NoTable
        | ObstacleKind::Ordered
        | ObstacleKind::NotOrdered
        | ObstacleKind::HoldsTablets
        | ObstacleKind::GivesTablets
        | ObstacleKind::TooNarrow => format!("cannot go on with {brick} and {table}"),
    }
}
