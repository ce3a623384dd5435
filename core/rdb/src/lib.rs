//! Reads the files that Redis leaves on disk: dump files (RDB) and append-only files. Reads and writes DUMP
//! payloads of strings.
//!
//! A source of bytes is handed in (`std::io::Read`); nothing here opens a file. Values of types that Ramhold
//! does not have are skipped by their structure, so that the next key is found, and are reported by type.
//!
//! Invariants:
//! - bytes never cause a panic: every fault is an [`Error`] with the offset of the wrong byte
//! - memory follows the bytes that arrive, never a claimed length: a string is read in pieces, and the output
//!   of LZF is bounded by the limit that the caller gives
//!
//! Not here: writing into a cluster (apps/ramhold), the RESP protocol. Source: rdb.c, lzf_d.c, crc64.c and
//! aof.c of Redis 7; versions 1 to 12 of the format.

pub mod aof;
mod crc64;
mod dump;
mod error;
mod file;
mod keyspace;
pub mod lzf;
mod object;
mod source;
mod string;

pub use crc64::{crc64, crc64_append};
pub use dump::{DUMP_VERSION, check_dump, read_dump, write_dump};
pub use error::{Error, Fault};
pub use file::{File, Item, VERSION_MAX};
pub use keyspace::{Held, Keyspace, Tally};
pub use object::{Kind, Value};
pub use string::{Text, write_string};
