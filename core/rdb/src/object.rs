//! Values of all types: strings are read, others are skipped by their structure.

use crate::error::{Error, Fault};
use crate::source::Source;
use crate::string::{Text, read_string, skip_string};
use std::fmt;
use std::io::Read;

/// A value's type, as Redis calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    Module,
}

impl fmt::Display for Kind {
    /// The name that TYPE answers with.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Module => "module",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    String(Vec<u8>),
    /// A string that is longer than the caller takes.
    TooLong {
        bytes: u64,
    },
    /// A value of another type. It was skipped.
    Other,
}

/// The bytes of an id in a stream: milliseconds and number.
const STREAM_ID_BYTES: u64 = 16;
const TIME_BYTES: u64 = 8;

/// Reads a type and its value.
pub fn read_value<R: Read>(source: &mut Source<R>, bytes_max: u64) -> Result<(Kind, Value), Error> {
    let at = source.offset();
    let number = source.byte()?;
    read_value_of(source, at, number, bytes_max)
}

/// Reads the value of type `number`, which stood at `at`. Redis never changes these numbers.
pub fn read_value_of<R: Read>(
    source: &mut Source<R>,
    at: u64,
    number: u8,
    bytes_max: u64,
) -> Result<(Kind, Value), Error> {
    let kind = match number {
        0 => {
            return Ok((
                Kind::String,
                match read_string(source, bytes_max)? {
                    Text::Bytes(bytes) => Value::String(bytes),
                    Text::TooLong { bytes } => Value::TooLong { bytes },
                },
            ));
        }
        // The elements one by one, or in one string that Redis calls ziplist, listpack, intset or zipmap.
        1 | 14 => many(source, Kind::List, skip_string)?,
        2 => many(source, Kind::Set, skip_string)?,
        3 => many(source, Kind::SortedSet, |source| {
            skip_string(source)?;
            skip_text_of_float(source)
        })?,
        4 => many(source, Kind::Hash, skip_pair)?,
        5 => many(source, Kind::SortedSet, |source| {
            skip_string(source)?;
            source.skip(8)
        })?,
        6 => return Err(Error { offset: at, fault: Fault::Unreleased("a module's value") }),
        7 => {
            source.length()?;
            skip_module_parts(source)?;
            Kind::Module
        }
        10 => one(source, Kind::List)?,
        11 | 20 => one(source, Kind::Set)?,
        12 | 17 => one(source, Kind::SortedSet)?,
        9 | 13 | 16 | 23 => one(source, Kind::Hash)?,
        15 => skip_stream(source, 1)?,
        19 => skip_stream(source, 2)?,
        21 => skip_stream(source, 3)?,
        18 => many(source, Kind::List, |source| {
            // Whether the node is one element or a listpack.
            source.length()?;
            skip_string(source)
        })?,
        22 => many(source, Kind::Hash, skip_pair_with_time)?,
        24 => {
            source.skip(TIME_BYTES)?;
            many(source, Kind::Hash, skip_pair_with_time)?
        }
        25 => {
            source.skip(TIME_BYTES)?;
            one(source, Kind::Hash)?
        }
        _ => return Err(Error { offset: at, fault: Fault::Type(number) }),
    };
    Ok((kind, Value::Other))
}

fn one<R: Read>(source: &mut Source<R>, kind: Kind) -> Result<Kind, Error> {
    skip_string(source)?;
    Ok(kind)
}

fn many<R: Read>(
    source: &mut Source<R>,
    kind: Kind,
    mut skip: impl FnMut(&mut Source<R>) -> Result<(), Error>,
) -> Result<Kind, Error> {
    // Every element takes at least a byte, so a claimed number costs no more time than the bytes that there
    // are.
    for _ in 0..source.length()? {
        skip(source)?;
    }
    Ok(kind)
}

fn skip_pair<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    skip_string(source)?;
    skip_string(source)
}

fn skip_pair_with_time<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    source.length()?;
    skip_pair(source)
}

/// A score of old versions: its text behind one length byte. The last three values of that byte mean scores
/// without a text.
fn skip_text_of_float<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    match source.byte()? {
        253..=255 => Ok(()),
        bytes => source.skip(u64::from(bytes)),
    }
}

/// A module writes numbers and strings, each behind a number that tells its kind. Zero is the end.
pub fn skip_module_parts<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    loop {
        let at = source.offset();
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => {
                source.length()?;
            }
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => skip_string(source)?,
            part => return Err(Error { offset: at, fault: Fault::ModulePart(part) }),
        }
    }
}

/// Entries in listpacks, counts, then the groups of consumers with the entries that they have not
/// acknowledged. `form` is 1 for the format of Redis 5, 2 for 7.0, 3 for 7.2.
fn skip_stream<R: Read>(source: &mut Source<R>, form: u8) -> Result<Kind, Error> {
    many(source, Kind::Stream, skip_pair)?;
    // The number of entries and the last id. Since form 2 also the first id, the greatest removed one, and
    // the number of entries ever added.
    for _ in 0..if form == 1 { 3 } else { 8 } {
        source.length()?;
    }
    many(source, Kind::Stream, |source| {
        skip_string(source)?;
        for _ in 0..if form == 1 { 2 } else { 3 } {
            source.length()?;
        }
        many(source, Kind::Stream, |source| {
            source.skip(STREAM_ID_BYTES + TIME_BYTES)?;
            source.length().map(|_| ())
        })?;
        many(source, Kind::Stream, |source| {
            skip_string(source)?;
            source.skip(if form == 3 { 2 * TIME_BYTES } else { TIME_BYTES })?;
            many(source, Kind::Stream, |source| source.skip(STREAM_ID_BYTES)).map(|_| ())
        })
        .map(|_| ())
    })
}
