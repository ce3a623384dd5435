//! The one table of commands, in the order of their names.

mod strings;

use crate::Command;

pub const ALL: &[Command] = &[strings::APPEND, strings::GET];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Flags, KeyPlaces, Run};

    fn check(rows: &[Command]) {
        for pair in rows.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} is out of order", pair[1].name);
        }
        for row in rows {
            assert_eq!(row.name, row.name.to_ascii_lowercase());
            if let Run::Container(commands) = row.run {
                check(commands);
            }
            let is_about_keys = matches!(row.run, Run::Keys(_) | Run::Fast(..));
            assert_eq!(
                is_about_keys,
                row.keys != KeyPlaces::NONE || row.flags.has(Flags::MOVABLEKEYS),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn rows_are_in_order() {
        check(ALL);
    }
}
