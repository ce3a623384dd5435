//! The keys as a command sees them, and the changes that it wants.
//!
//! Nothing is written here: the front carries out the changes, under the condition that every key that was
//! seen is still as it was seen. A handler that needs a key which is not known yet stops with `Stop::Need`,
//! and runs again when the key is known. So a handler changes nothing outside its transaction, and does the
//! same in each run.
//!
//! Invariant: `get` shows the key as it was seen, with the changes wanted since.

use crate::parse::integer;
use crate::{Fault, Reply, Stop};
use ramhold_base::Version;
use ramhold_base::limits::VALUE_BYTES_MAX;
use std::collections::BTreeMap;

/// An object as it was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    pub value: Vec<u8>,
    /// The end of its life, in milliseconds since 1970. `None`: the object does not expire.
    pub expires: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Write(Object),
    Remove,
}

/// A key of a database.
pub type Place = (u16, Vec<u8>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Entry {
    /// `None`: the key was not read. `Some(None)`: the key was absent.
    seen: Option<Option<(Version, Object)>>,
    change: Option<Change>,
}

/// The keys of one command, or of several that are to take effect together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    entries: BTreeMap<Place, Entry>,
    needed: Vec<Place>,
    /// Number of databases.
    pub database_count: u16,
}

/// Number of databases, unless the operator says otherwise; the default of Redis, too.
pub const DATABASE_COUNT_DEFAULT: u16 = 16;

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction { entries: BTreeMap::new(), needed: Vec::new(), database_count: DATABASE_COUNT_DEFAULT }
    }
}

impl Transaction {
    /// A transaction that has seen nothing yet, over this number of databases.
    pub fn over(database_count: u16) -> Transaction {
        Transaction { database_count, ..Transaction::default() }
    }

    /// The key as it would be if the changes so far were made. `None`: the key is absent.
    pub fn get(&mut self, db: u16, key: &[u8]) -> Result<Option<&Object>, Stop> {
        let place = (db, key.to_vec());
        match self.entries.get(&place) {
            Some(Entry { change: Some(_), .. } | Entry { seen: Some(_), .. }) => {}
            _ => {
                self.needed.push(place);
                return Err(Stop::Need);
            }
        }
        let entry = &self.entries[&place];
        Ok(match &entry.change {
            Some(Change::Write(object)) => Some(object),
            Some(Change::Remove) => None,
            None => entry.seen.as_ref().and_then(|seen| seen.as_ref().map(|(_, object)| object)),
        })
    }

    /// Asks for all of these keys that are not known yet, so that they are fetched together.
    pub fn need<'k>(&mut self, keys: impl IntoIterator<Item = (u16, &'k [u8])>) -> Result<(), Stop> {
        let mut result = Ok(());
        for (db, key) in keys {
            result = self.get(db, key).map(|_| ()).and(result);
        }
        result
    }

    /// The version that the key had when it was read. `None`: the key was absent.
    pub fn version(&mut self, db: u16, key: &[u8]) -> Result<Option<Version>, Stop> {
        let place = (db, key.to_vec());
        match self.entries.get(&place).and_then(|entry| entry.seen.as_ref()) {
            Some(seen) => Ok(seen.as_ref().map(|(version, _)| *version)),
            None => {
                self.needed.push(place);
                Err(Stop::Need)
            }
        }
    }

    /// Notes as a change that the key is to hold this value, whatever it holds now.
    pub fn put(&mut self, db: u16, key: &[u8], value: Vec<u8>, expires: Option<u64>) {
        self.change(db, key, Change::Write(Object { value, expires }));
    }

    /// Notes as a change that the key is to be removed.
    pub fn remove(&mut self, db: u16, key: &[u8]) {
        self.change(db, key, Change::Remove);
    }

    fn change(&mut self, db: u16, key: &[u8], change: Change) {
        self.entries.entry((db, key.to_vec())).or_default().change = Some(change);
    }

    /// Enters an object that was read, or that the key was absent.
    pub fn learn(&mut self, place: Place, object: Option<(Version, Object)>) {
        self.entries.entry(place).or_default().seen = Some(object);
    }

    /// Whether the key has been read.
    pub fn knows(&self, place: &Place) -> bool {
        self.entries.get(place).is_some_and(|entry| entry.seen.is_some())
    }

    /// The database of every key that handlers have seen, changed or asked for.
    pub fn databases(&self) -> impl Iterator<Item = u16> {
        self.entries.keys().chain(&self.needed).map(|(db, _)| *db)
    }

    /// Takes the keys that handlers asked for and that were not known, each once.
    pub fn take_needed(&mut self) -> Vec<Place> {
        let mut needed = std::mem::take(&mut self.needed);
        needed.sort();
        needed.dedup();
        needed
    }

    /// Every key that was read or is to be changed, with the version seen (or that the key was absent) and
    /// the change wanted.
    pub fn entries(&self) -> impl Iterator<Item = (&Place, Option<Option<Version>>, Option<&Change>)> {
        self.entries.iter().map(|(place, entry)| {
            let seen = entry.seen.as_ref().map(|seen| seen.as_ref().map(|(version, _)| *version));
            (place, seen, entry.change.as_ref())
        })
    }

    /// The change that is wanted for a key.
    pub fn change_of(&self, place: &Place) -> Option<&Change> {
        self.entries.get(place).and_then(|entry| entry.change.as_ref())
    }

    pub fn has_changes(&self) -> bool {
        self.entries.values().any(|entry| entry.change.is_some())
    }

    /// Takes back the changes wanted and keeps the objects seen, before handlers run again.
    pub fn drop_changes(&mut self) {
        for entry in self.entries.values_mut() {
            entry.change = None;
        }
    }
}

/// One run of a handler.
pub struct Call<'a> {
    /// The command's name, then its arguments; as many as its arity demands.
    pub args: &'a [&'a [u8]],
    /// The connection's database.
    pub db: u16,
    /// Milliseconds since 1970.
    pub now: u64,
    pub keys: &'a mut Transaction,
    /// Bytes that a handler has written are thrown away when it stops.
    pub reply: Reply<'a>,
}

impl Call<'_> {
    /// A key of the connection's database, as the transaction has it now.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&Object>, Stop> {
        self.keys.get(self.db, key)
    }

    /// Asks for all of these keys that are not known yet, so that they are fetched together.
    pub fn need(&mut self, keys: &[&[u8]]) -> Result<(), Stop> {
        self.keys.need(keys.iter().map(|key| (self.db, *key)))
    }

    /// The version that the key had before the transaction. 0: the key was absent.
    pub fn version(&mut self, key: &[u8]) -> Result<i64, Stop> {
        let version = self.keys.version(self.db, key)?;
        Ok(version.map_or(0, |version| i64::try_from(version.0).unwrap_or(i64::MAX)))
    }

    /// Notes as a change that the key is to hold this value, or to be removed if `expires` is over already.
    pub fn put(&mut self, key: &[u8], value: Vec<u8>, expires: Option<u64>) {
        if expires.is_some_and(|ends| ends <= self.now) {
            return self.remove(key);
        }
        self.keys.put(self.db, key, value, expires);
    }

    pub fn remove(&mut self, key: &[u8]) {
        self.keys.remove(self.db, key);
    }

    /// An argument as an integer.
    pub fn integer(&self, at: usize) -> Result<i64, Fault> {
        integer(self.args[at]).ok_or(Fault::NOT_AN_INTEGER)
    }

    /// The database that an argument names.
    pub fn database(&self, text: &[u8]) -> Result<u16, Fault> {
        let index = integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
        let index = i32::try_from(index).map_err(|_| Fault::NOT_A_SMALL_INTEGER)?;
        let index = u16::try_from(index).ok().filter(|index| *index < self.keys.database_count);
        index.ok_or(Fault::NO_SUCH_DATABASE)
    }

    /// Refuses a value of more than `VALUE_BYTES_MAX` bytes.
    pub fn check_value(&self, length: usize) -> Result<(), Fault> {
        if length > VALUE_BYTES_MAX { Err(Fault::VALUE_TOO_LARGE) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_sees_what_it_wanted_and_asks_for_what_it_does_not_know() {
        let mut keys = Transaction::default();
        assert_eq!(keys.get(0, b"a"), Err(Stop::Need));
        assert_eq!(keys.get(1, b"a"), Err(Stop::Need));
        assert_eq!(keys.get(0, b"a"), Err(Stop::Need));
        assert_eq!(keys.take_needed(), [(0, b"a".to_vec()), (1, b"a".to_vec())]);
        assert!(keys.take_needed().is_empty());
        let one = Object { value: b"1".to_vec(), expires: Some(9) };
        keys.learn((0, b"a".to_vec()), Some((Version(7), one.clone())));
        assert_eq!(keys.get(0, b"a"), Ok(Some(&one)));
        keys.remove(0, b"a");
        assert_eq!(keys.get(0, b"a"), Ok(None));
        assert_eq!(keys.version(0, b"a"), Ok(Some(Version(7))));
        keys.put(0, b"b", b"2".to_vec(), None);
        assert_eq!(keys.get(0, b"b").unwrap().unwrap().value, b"2");
        let all: Vec<_> =
            keys.entries().map(|(place, seen, change)| (place.1.clone(), seen, change.cloned())).collect();
        let wanted = Change::Write(Object { value: b"2".to_vec(), expires: None });
        assert_eq!(
            all,
            [
                (b"a".to_vec(), Some(Some(Version(7))), Some(Change::Remove)),
                (b"b".to_vec(), None, Some(wanted)),
            ]
        );
        keys.drop_changes();
        assert!(!keys.has_changes());
        assert_eq!(keys.get(0, b"a"), Ok(Some(&one)));
    }
}
