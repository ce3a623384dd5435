//! The faults of bytes that claim to be Redis's, and where they are.

use std::{fmt, io};

/// A fault, and its offset from the beginning of the source.
#[derive(Debug)]
pub struct Error {
    pub offset: u64,
    pub fault: Fault,
}

#[derive(Debug)]
pub enum Fault {
    /// The source itself failed.
    Source(io::Error),
    /// The bytes end in the middle of an item.
    Truncated,
    /// The first bytes are not `REDIS` and four digits.
    Magic,
    /// An unknown version.
    Version { version: u32, max: u32 },
    /// An unknown opcode or type of value.
    Type(u8),
    /// The named thing was only ever in versions before a release.
    Unreleased(&'static str),
    /// A length with an unknown encoding, or with one that is not allowed there.
    Length,
    /// A string in an unknown encoding.
    StringEncoding(u8),
    /// Compressed bytes that are no LZF, or whose output does not have the claimed length.
    Lzf,
    /// A part of a module's value in an unknown encoding.
    ModulePart(u64),
    /// A database number that Redis cannot have.
    Database(u64),
    /// A time to live before 1970.
    Expiry(i64),
    /// The CRC64 of the bytes differs from the stored one.
    Checksum { said: u64, is: u64 },
    /// Bytes that are no command of an append-only file.
    Command,
    /// Bytes where none may be.
    Trailing,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: ", self.offset)?;
        match &self.fault {
            Fault::Source(error) => write!(out, "{error}"),
            Fault::Truncated => write!(out, "the bytes end here, within something"),
            Fault::Magic => {
                write!(out, "this is no Redis dump file: it does not begin with REDIS and a version")
            }
            Fault::Version { version, max } => {
                write!(out, "version {version} of the format is not known; versions 1 to {max} are")
            }
            Fault::Type(number) => write!(out, "there is no opcode or type {number}"),
            Fault::Unreleased(what) => write!(out, "{what} of a Redis before its release"),
            Fault::Length => write!(out, "a length that cannot be"),
            Fault::StringEncoding(number) => write!(out, "there is no encoding {number} of strings"),
            Fault::Lzf => write!(out, "compressed bytes that cannot be decompressed"),
            Fault::ModulePart(number) => write!(out, "there is no part {number} of modules' values"),
            Fault::Database(number) => write!(out, "there is no database {number}"),
            Fault::Expiry(time) => write!(out, "a time to live that ends at {time}"),
            Fault::Checksum { said, is } => {
                write!(out, "the checksum says {said:016x}, the bytes come to {is:016x}: they are damaged")
            }
            Fault::Command => write!(out, "this is no command"),
            Fault::Trailing => write!(out, "there are bytes behind the end"),
        }
    }
}

impl std::error::Error for Error {}
