//! The list of everything that a rule can name as a command.
//!
//! Names are in lower case. A subcommand is `container|subcommand`, and its container has an entry of its own, before it.
//! Rules about a container hold for its subcommands.

use crate::classes::Classes;

/// The place of a command in its catalog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandNumber(pub u16);

/// A command, or something else that a rule can allow by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub name: String,
    pub classes: Classes,
    /// Whether everybody may, whatever the rules say: to log in, and to leave.
    pub is_open: bool,
}

/// All entries of the doors of a process.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    /// In the order of the names, so subcommands come behind their container.
    entries: Vec<Entry>,
}

impl Catalog {
    /// If two entries have one name, the first one counts.
    pub fn new(mut entries: Vec<Entry>) -> Catalog {
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries.dedup_by(|later, earlier| later.name == earlier.name);
        entries.truncate(usize::from(u16::MAX) + 1);
        Catalog { entries }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The command with this full name, in lower case.
    pub fn find(&self, name: &str) -> Option<CommandNumber> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        Some(CommandNumber(u16::try_from(at).ok()?))
    }

    pub fn entry(&self, number: CommandNumber) -> Option<&Entry> {
        self.entries.get(usize::from(number.0))
    }

    /// All commands.
    pub fn iter(&self) -> impl Iterator<Item = (CommandNumber, &Entry)> {
        (0u16..).map(CommandNumber).zip(&self.entries)
    }

    /// Whether a rule that names `named` is about `name`: it is the same command, or its container.
    pub fn is_about(named: &str, name: &str) -> bool {
        name.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), classes: Classes::from_iter([Class::Slow]), is_open: false }
    }

    #[test]
    fn commands_are_found_by_their_full_names() {
        let catalog =
            Catalog::new(["get", "client|list", "client", "client|kill", "get"].map(entry).to_vec());
        assert_eq!(catalog.len(), 4);
        let names: Vec<&str> = catalog.iter().map(|(_, entry)| entry.name.as_str()).collect();
        assert_eq!(names, ["client", "client|kill", "client|list", "get"]);
        assert_eq!(catalog.find("client|list"), Some(CommandNumber(2)));
        assert_eq!(catalog.entry(CommandNumber(3)).map(|entry| entry.name.as_str()), Some("get"));
        assert_eq!((catalog.find("list"), catalog.entry(CommandNumber(4))), (None, None));
    }

    #[test]
    fn a_rule_about_a_container_is_about_its_subcommands() {
        assert!(Catalog::is_about("client", "client|list") && Catalog::is_about("client", "client"));
        assert!(!Catalog::is_about("client|list", "client") && !Catalog::is_about("client", "clients"));
    }
}
