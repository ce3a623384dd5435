//! The commands as rules of accounts name them.
//!
//! A rule names a command by its full name (`client|kill`); a row does not have the name of its container. So `Numbers` finds
//! the number of a row by the row's place in memory, which never changes.
//!
//! Not here: rules (`access`), what a request asks for (`deeds`).

use crate::Command;
use crate::command::Flags;
use crate::commands::BARE;
use crate::commands::describe::{classes, full_name, rows};
use ramhold_access::{Catalog, CommandNumber, Entry};
use ramhold_base::map::FastMap;

/// The commands of this door.
pub fn entries() -> Vec<Entry> {
    let entry = |(container, row): (Option<&str>, &Command)| Entry {
        name: full_name(container, row),
        classes: classes(row),
        is_open: row.flags.has(Flags::NO_AUTH),
    };
    rows().map(entry).collect()
}

/// A catalog of the commands of this door alone.
pub fn catalog() -> Catalog {
    Catalog::new(entries())
}

/// The numbers of this door's commands in a catalog that has them.
#[derive(Debug)]
pub struct Numbers(FastMap<usize, CommandNumber>);

impl Numbers {
    pub fn of(catalog: &Catalog) -> Numbers {
        let number = |(container, row): (Option<&str>, &'static Command)| {
            Some((place(row), catalog.find(&full_name(container, row))?))
        };
        let bare = catalog.find(BARE.name).map(|number| (place(BARE), number));
        Numbers(rows().filter_map(number).chain(bare).collect())
    }

    /// None: no rule can name the command, and no rule allows it.
    pub fn get(&self, row: &'static Command) -> Option<CommandNumber> {
        self.0.get(&place(row)).copied()
    }
}

fn place(row: &'static Command) -> usize {
    std::ptr::from_ref(row).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{ALL, resolve};
    use std::collections::BTreeSet;

    // J4: no command can be forgotten.
    #[test]
    fn each_row_that_a_request_resolves_to_has_a_number_of_its_own() {
        let catalog = catalog();
        let numbers = Numbers::of(&catalog);
        let all: BTreeSet<CommandNumber> = rows().filter_map(|(_, row)| numbers.get(row)).collect();
        assert_eq!(all.len(), rows().count());
        for (container, row) in rows() {
            let name = full_name(container, row);
            let mut args: Vec<&[u8]> = name.split('|').map(str::as_bytes).collect();
            args.resize(args.len().max(row.arity.unsigned_abs() as usize), b"x");
            if let Ok(found) = resolve(&args) {
                let number = numbers.get(found).unwrap_or_else(|| panic!("{name} has no number"));
                assert_eq!(catalog.entry(number).map(|entry| entry.name.as_str()), Some(name.as_str()));
            }
        }
        assert!(ALL.iter().all(|row| numbers.get(row).is_some()));
        // `COMMAND` alone is a row beside the table.
        let bare = resolve(&[b"command"]).expect("it is a command");
        assert!(numbers.get(bare).is_some_and(|number| catalog.entry(number).is_some()));
    }
}
