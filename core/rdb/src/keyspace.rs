//! The result of an append-only file: the keys of all databases, in memory, changed by one command after the
//! other.
//!
//! Only strings are kept. An unknown command is counted. If it changes a key that is kept, the value of that
//! key is no longer known. The key is then dropped and reported, rather than kept as it was.
//!
//! A transaction counts when its EXEC is there. Expiry times are not checked: the caller leaves out keys that
//! are over.

use crate::string::Text;
use std::collections::BTreeMap;

/// A string and when it ends, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub value: Vec<u8>,
    pub expires_at: Option<u64>,
}

/// The commands and keys that were not carried out or kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Unknown commands, by name.
    pub unknown: BTreeMap<String, u64>,
    /// Keys that were dropped because an unknown command changed them.
    pub dropped: u64,
    /// Keys and values that became longer than the limits. They were dropped.
    pub too_long: u64,
    /// Commands with wrong words, and commands that are impossible on the value that is there.
    pub refused: u64,
    /// Commands of a transaction that has no end.
    pub unfinished: u64,
}

pub struct Keyspace {
    databases: BTreeMap<u32, BTreeMap<Vec<u8>, Held>>,
    selected: u32,
    transaction: Option<Vec<Vec<Text>>>,
    /// The base of relative times.
    now_millis: u64,
    key_bytes_max: usize,
    value_bytes_max: usize,
    tally: Tally,
}

/// Why a command was not carried out.
enum Not {
    Known,
    Possible,
    Short,
}

type Done = Result<(), Not>;

impl Keyspace {
    pub fn new(now_millis: u64, key_bytes_max: usize, value_bytes_max: usize) -> Keyspace {
        Keyspace {
            databases: BTreeMap::new(),
            selected: 0,
            transaction: None,
            now_millis,
            key_bytes_max,
            value_bytes_max,
            tally: Tally::default(),
        }
    }

    pub fn insert(&mut self, database: u32, key: Vec<u8>, held: Held) {
        self.databases.entry(database).or_default().insert(key, held);
    }

    /// Carries a command out, or counts why not.
    pub fn apply(&mut self, words: Vec<Text>) {
        let name = match words.first() {
            Some(Text::Bytes(name)) => String::from_utf8_lossy(name).to_ascii_uppercase(),
            _ => String::new(),
        };
        match (name.as_str(), &mut self.transaction) {
            ("MULTI", None) => self.transaction = Some(Vec::new()),
            ("EXEC", Some(queued)) => {
                let queued = std::mem::take(queued);
                self.transaction = None;
                queued.into_iter().for_each(|words| self.apply(words));
            }
            ("DISCARD", Some(_)) => self.transaction = None,
            (_, Some(queued)) => queued.push(words),
            (_, None) => self.apply_named(&name, &words),
        }
    }

    /// The keys in the end (database, key, value), and the tally of the rest.
    pub fn finish(mut self) -> (BTreeMap<u32, BTreeMap<Vec<u8>, Held>>, Tally) {
        self.tally.unfinished = self.transaction.map_or(0, |queued| queued.len() as u64);
        (self.databases, self.tally)
    }

    fn apply_named(&mut self, name: &str, words: &[Text]) {
        let plain: Option<Vec<&[u8]>> = words
            .iter()
            .skip(1)
            .map(|word| match word {
                Text::Bytes(bytes) => Some(bytes.as_slice()),
                Text::TooLong { .. } => None,
            })
            .collect();
        let done = match &plain {
            Some(arguments) => self.carry_out(name, arguments),
            None => Err(Not::Short),
        };
        match done {
            Ok(()) => {}
            Err(Not::Possible) => self.tally.refused += 1,
            Err(Not::Short) => {
                self.tally.too_long += 1;
                self.drop_key(words.get(1));
            }
            Err(Not::Known) => {
                *self.tally.unknown.entry(name.to_owned()).or_default() += 1;
                let at = if name == "BITOP" { 2 } else { 1 };
                if self.drop_key(words.get(at)) {
                    self.tally.dropped += 1;
                }
            }
        }
    }

    fn drop_key(&mut self, key: Option<&Text>) -> bool {
        let Some(Text::Bytes(key)) = key else { return false };
        self.keys().remove(key.as_slice()).is_some()
    }

    fn keys(&mut self) -> &mut BTreeMap<Vec<u8>, Held> {
        self.databases.entry(self.selected).or_default()
    }

    fn carry_out(&mut self, name: &str, arguments: &[&[u8]]) -> Done {
        match (name, arguments) {
            ("SELECT", [number]) => self.selected = database(number)?,
            ("SET", [key, value, options @ ..]) => return self.set(key, value, options),
            ("SETNX", [key, value]) if !self.keys().contains_key(*key) => return self.put(key, value, None),
            ("SETNX", [_, _]) => {}
            ("GETSET", [key, value]) => return self.put(key, value, None),
            ("SETEX", [key, seconds, value]) => {
                let end = self.after(seconds, 1000)?;
                return self.put(key, value, Some(end));
            }
            ("PSETEX", [key, millis, value]) => {
                let end = self.after(millis, 1)?;
                return self.put(key, value, Some(end));
            }
            ("MSET" | "MSETNX", pairs) if !pairs.is_empty() && pairs.len().is_multiple_of(2) => {
                let is_taken = |pair: &[&[u8]]| {
                    self.databases.get(&self.selected).is_some_and(|k| k.contains_key(pair[0]))
                };
                if name == "MSETNX" && pairs.chunks(2).any(is_taken) {
                    return Ok(());
                }
                for pair in pairs.chunks(2) {
                    self.put(pair[0], pair[1], None)?;
                }
            }
            ("DEL" | "UNLINK", keys) => {
                for key in keys {
                    self.keys().remove(*key);
                }
            }
            ("GETDEL", [key]) => {
                self.keys().remove(*key);
            }
            ("GETEX", [_]) => {}
            ("PERSIST", [key]) | ("GETEX", [key, _]) => self.end_at(key, None, &[])?,
            ("GETEX", [key, unit, time]) => {
                let end = self.end_of(unit, time)?;
                self.end_at(key, Some(end), &[])?;
            }
            ("EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT", [key, time, flags @ ..]) => {
                let unit: &[u8] = match name {
                    "EXPIRE" => b"EX",
                    "PEXPIRE" => b"PX",
                    "EXPIREAT" => b"EXAT",
                    _ => b"PXAT",
                };
                let end = self.end_of(unit, time)?;
                self.end_at(key, Some(end), flags)?;
            }
            ("INCR", [key]) => return self.add(key, 1),
            ("DECR", [key]) => return self.add(key, -1),
            ("INCRBY", [key, by]) => return self.add(key, integer(by)?),
            ("DECRBY", [key, by]) => return self.add(key, integer(by)?.checked_neg().ok_or(Not::Possible)?),
            ("APPEND", [key, more]) => {
                let at = self.keys().get(*key).map_or(0, |held| held.value.len());
                return self.overwrite(key, at, more);
            }
            ("SETRANGE", [key, offset, value]) => {
                let offset = usize::try_from(integer(offset)?).map_err(|_| Not::Possible)?;
                return if value.is_empty() { Ok(()) } else { self.overwrite(key, offset, value) };
            }
            ("SETBIT", [key, offset, bit]) => return self.set_bit(key, integer(offset)?, bit),
            ("RENAME" | "RENAMENX", [from, to]) => {
                // A key that is not kept is of another type, and takes the other key's place.
                let held = self.keys().remove(*from);
                self.replace(self.selected, to, held);
            }
            ("COPY", [from, to, options @ ..]) => {
                let held = self.keys().get(*from).cloned();
                let target = match options {
                    [word, number, ..] if word.eq_ignore_ascii_case(b"DB") => database(number)?,
                    _ => self.selected,
                };
                self.replace(target, to, held);
            }
            ("MOVE", [key, number]) => {
                let target = database(number)?;
                let held = self.keys().remove(*key);
                self.replace(target, key, held);
            }
            ("SWAPDB", [one, other]) => {
                let (one, other) = (database(one)?, database(other)?);
                let first = self.databases.remove(&one).unwrap_or_default();
                let second = self.databases.insert(other, first).unwrap_or_default();
                self.databases.insert(one, second);
            }
            ("FLUSHDB", _) => self.keys().clear(),
            ("FLUSHALL", _) => self.databases.clear(),
            ("PING", _) => {}
            _ => return Err(if KNOWN.contains(&name) { Not::Possible } else { Not::Known }),
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]]) -> Done {
        let held = self.keys().get(key);
        let (is_there, mut end) = (held.is_some(), None);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" if is_there => return Ok(()),
                b"XX" if !is_there => return Ok(()),
                b"NX" | b"XX" | b"GET" => {}
                b"KEEPTTL" => end = self.keys().get(key).and_then(|held| held.expires_at),
                unit => end = Some(self.end_of(unit, options.next().ok_or(Not::Possible)?)?),
            }
        }
        self.put(key, value, end)
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires_at: Option<u64>) -> Done {
        if key.len() > self.key_bytes_max || value.len() > self.value_bytes_max {
            return Err(Not::Short);
        }
        self.keys().insert(key.to_vec(), Held { value: value.to_vec(), expires_at });
        Ok(())
    }

    fn replace(&mut self, database: u32, key: &[u8], held: Option<Held>) {
        let keys = self.databases.entry(database).or_default();
        match held {
            Some(held) => keys.insert(key.to_vec(), held),
            None => keys.remove(key),
        };
    }

    /// The expiry that an option of this name and a number mean.
    fn end_of(&self, unit: &[u8], time: &[u8]) -> Result<u64, Not> {
        match unit.to_ascii_uppercase().as_slice() {
            b"EX" => self.after(time, 1000),
            b"PX" => self.after(time, 1),
            b"EXAT" => at_least_zero(i128::from(integer(time)?) * 1000),
            b"PXAT" => at_least_zero(i128::from(integer(time)?)),
            _ => Err(Not::Possible),
        }
    }

    fn after(&self, time: &[u8], unit_millis: i64) -> Result<u64, Not> {
        at_least_zero(i128::from(self.now_millis) + i128::from(integer(time)?) * i128::from(unit_millis))
    }

    fn end_at(&mut self, key: &[u8], end: Option<u64>, flags: &[&[u8]]) -> Done {
        let Some(held) = self.keys().get_mut(key) else { return Ok(()) };
        for flag in flags {
            // A key without expiry lasts longer than any with one.
            let applies = match flag.to_ascii_uppercase().as_slice() {
                b"NX" => held.expires_at.is_none(),
                b"XX" => held.expires_at.is_some(),
                b"GT" => held.expires_at.is_some_and(|old| end.is_some_and(|new| new > old)),
                b"LT" => held.expires_at.is_none_or(|old| end.is_some_and(|new| new < old)),
                _ => return Err(Not::Possible),
            };
            if !applies {
                return Ok(());
            }
        }
        held.expires_at = end;
        Ok(())
    }

    fn add(&mut self, key: &[u8], by: i64) -> Done {
        let held = self.keys().get(key);
        let (old, end) = match held {
            Some(held) => (integer(&held.value)?, held.expires_at),
            None => (0, None),
        };
        let sum = old.checked_add(by).ok_or(Not::Possible)?;
        self.put(key, sum.to_string().as_bytes(), end)
    }

    /// Writes `bytes` at an offset. A gap before it is filled with zeros.
    fn overwrite(&mut self, key: &[u8], offset: usize, bytes: &[u8]) -> Done {
        let end = offset.checked_add(bytes.len()).ok_or(Not::Short)?;
        if end > self.value_bytes_max || key.len() > self.key_bytes_max {
            return Err(Not::Short);
        }
        let held = self.keys().entry(key.to_vec()).or_insert(Held { value: Vec::new(), expires_at: None });
        if held.value.len() < end {
            held.value.resize(end, 0);
        }
        held.value[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_bit(&mut self, key: &[u8], offset: i64, bit: &[u8]) -> Done {
        let at = usize::try_from(offset / 8).map_err(|_| Not::Possible)?;
        let mask = 0x80u8 >> u8::try_from(offset % 8).map_err(|_| Not::Possible)?;
        let old = self.keys().get(key).and_then(|held| held.value.get(at).copied()).unwrap_or(0);
        let new = match bit {
            b"0" => old & !mask,
            b"1" => old | mask,
            _ => return Err(Not::Possible),
        };
        self.overwrite(key, at, &[new])
    }
}

/// The names that `carry_out` knows. With words that it does not take, they are refused.
const KNOWN: [&str; 31] = [
    "SELECT",
    "SET",
    "SETNX",
    "GETSET",
    "SETEX",
    "PSETEX",
    "MSET",
    "MSETNX",
    "DEL",
    "UNLINK",
    "GETDEL",
    "GETEX",
    "PERSIST",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "INCR",
    "DECR",
    "INCRBY",
    "DECRBY",
    "APPEND",
    "SETRANGE",
    "SETBIT",
    "RENAME",
    "RENAMENX",
    "COPY",
    "MOVE",
    "SWAPDB",
    "EXEC",
    "DISCARD",
];

/// Reads an integer as Redis does: no sign except minus, no leading zeros.
fn integer(text: &[u8]) -> Result<i64, Not> {
    let number: Option<i64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|number| number.to_string().as_bytes() == text).ok_or(Not::Possible)
}

fn database(text: &[u8]) -> Result<u32, Not> {
    i32::try_from(integer(text)?).ok().and_then(|number| u32::try_from(number).ok()).ok_or(Not::Possible)
}

fn at_least_zero(millis: i128) -> Result<u64, Not> {
    u64::try_from(millis.max(0)).map_err(|_| Not::Possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn played(lines: &[&str]) -> (BTreeMap<u32, BTreeMap<Vec<u8>, Held>>, Tally) {
        let mut keyspace = Keyspace::new(NOW, 20, 20);
        for line in lines {
            keyspace.apply(line.split(' ').map(|word| Text::Bytes(word.as_bytes().to_vec())).collect());
        }
        keyspace.finish()
    }

    /// The contents of database 0, as text: `key=value` or `key=value@end`.
    fn shown(lines: &[&str]) -> String {
        let (databases, _) = played(lines);
        let mut parts = Vec::new();
        for (key, held) in databases.get(&0).into_iter().flatten() {
            let end = held.expires_at.map_or(String::new(), |end| format!("@{end}"));
            parts.push(format!("{}={}{end}", key.escape_ascii(), held.value.escape_ascii()));
        }
        parts.join(" ")
    }

    #[test]
    fn commands_on_strings_do_what_redis_does() {
        let cases: [(&[&str], &str); 24] = [
            (&["SET a 1", "set b 2"], "a=1 b=2"),
            (&["SET a 1 PXAT 5000"], "a=1@5000"),
            (&["SET a 1 EXAT 5"], "a=1@5000"),
            (&["SET a 1 EX 5", "SET a 2"], "a=2"),
            (&["SET a 1 EX 5", "SET a 2 KEEPTTL"], "a=2@1005000"),
            (&["SET a 1 NX", "SET a 2 NX", "SET b 1 XX", "SET a 3 XX GET"], "a=3"),
            (&["SETEX a 5 x", "PSETEX b 5 y"], "a=x@1005000 b=y@1000005"),
            (&["MSET a 1 b 2", "MSETNX b 3 c 4", "MSETNX c 5 d 6"], "a=1 b=2 c=5 d=6"),
            (&["MSET a 1 b 2 c 3", "DEL a c", "UNLINK x"], "b=2"),
            (&["SET a 1", "EXPIRE a 5", "PEXPIREAT a 7 NX"], "a=1@1005000"),
            (&["SET a 1 PX 5", "PEXPIREAT a 1000004 LT", "PEXPIREAT a 9 GT"], "a=1@1000004"),
            (&["SET a 1 PX 5", "PERSIST a", "EXPIRE none 5"], "a=1"),
            (&["INCR n", "INCRBY n 41", "DECR n", "DECRBY n 10"], "n=31"),
            (&["SET n 5 PXAT 9", "INCR n"], "n=6@9"),
            (&["APPEND a he", "APPEND a llo", "SETRANGE a 7 x"], "a=hello\\x00\\x00x"),
            (&["SETBIT a 7 1", "SETBIT a 8 1", "SETBIT a 7 0"], "a=\\x00\\x80"),
            (&["SET a 1 PXAT 9", "RENAME a b", "GETDEL b", "SET c 1"], "c=1"),
            (&["SET a 1 PXAT 9", "COPY a b", "COPY a c DB 1 REPLACE"], "a=1@9 b=1@9"),
            (&["SET a 1", "SELECT 1", "SET a 2", "FLUSHDB", "SELECT 0"], "a=1"),
            (&["SET a 1", "SELECT 1", "SET a 2", "FLUSHALL ASYNC", "SET x y"], ""),
            (&["SET a 1", "SELECT 1", "SET a 2", "SWAPDB 0 1"], "a=2"),
            (&["SET a 1", "MOVE a 1", "SELECT 1", "MOVE b 0"], ""),
            (&["MULTI", "SET a 1", "INCR a", "EXEC", "MULTI", "SET b 1"], "a=2"),
            (&["SET a 1", "GETEX a PXAT 9", "SET b 1 PXAT 9", "GETEX b PERSIST"], "a=1@9 b=1"),
        ];
        for (lines, expected) in cases {
            assert_eq!(shown(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_is_not_carried_out_is_counted_and_never_half_done() {
        let (databases, tally) = played(&[
            "SET s text",
            "INCR s",
            "SET a",
            "SELECT x",
            "RPUSH list a b",
            "SADD set s",
            "SET bits x",
            "BITFIELD bits SET u8 0 1",
            "BITOP NOT s bits",
            "SETRANGE long 19 ab",
            "APPEND s2 0123456789",
            "APPEND s2 0123456789x",
            "MULTI",
            "SET late 1",
        ]);
        assert_eq!(databases[&0].len(), 0, "{databases:?}");
        let unknown = [("BITFIELD", 1), ("BITOP", 1), ("RPUSH", 1), ("SADD", 1)];
        assert_eq!(tally.unknown, unknown.map(|(name, count)| (name.to_owned(), count)).into());
        assert_eq!((tally.refused, tally.too_long, tally.dropped, tally.unfinished), (3, 2, 2, 1));
    }
}
