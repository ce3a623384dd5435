//! A dump file, item by item.
//!
//! ```text
//! REDIS 0010 | aux … | SELECTDB n | RESIZEDB | (expiry, idle or frequency)? type key value … | … | EOF | CRC64
//! ```

use crate::error::{Error, Fault};
use crate::object::{Kind, Value, read_value_of, skip_module_parts};
use crate::source::Source;
use crate::string::{Text, read_string, skip_string};
use std::io::Read;

/// The newest known version of the format: that of Redis 7.4.
pub const VERSION_MAX: u32 = 12;
/// The most databases that Redis can be configured to have.
const DATABASE_COUNT_MAX: u64 = i32::MAX as u64;
/// The first version that ends with a checksum.
const CHECKSUM_SINCE: u32 = 5;
const AUX_BYTES_MAX: u64 = 4096;

/// The items of a file, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A note, such as the version of the Redis that wrote the file. A value beyond 4 KiB is left empty.
    Aux { name: Vec<u8>, value: Vec<u8> },
    /// The following keys are in this database.
    Database { number: u32 },
    /// The number of keys in the database, and how many of them expire: a hint.
    Size { keys: u64, expiring: u64 },
    /// A library of functions. It was skipped.
    Function,
    /// Data that a module keeps beside the keys. It was skipped.
    ModuleAux,
    /// `expires_at`: milliseconds since 1970.
    Object { key: Vec<u8>, expires_at: Option<u64>, kind: Kind, value: Value },
    /// An object whose key is longer than the caller takes. It was skipped.
    KeyTooLong { bytes: u64, kind: Kind },
    /// The end, and whether there was a checksum. A wrong checksum is an error.
    End { is_checked: bool },
}

/// A dump file that is being read.
pub struct File<R> {
    source: Source<R>,
    version: u32,
    key_bytes_max: u64,
    value_bytes_max: u64,
    ended: bool,
}

impl<R: Read> File<R> {
    /// Reads the first bytes. Longer keys and values are reported as too long.
    pub fn open(from: R, key_bytes_max: u64, value_bytes_max: u64) -> Result<File<R>, Error> {
        let mut source = Source::new(from);
        let head: [u8; 9] = source.array()?;
        let wrong = || Error { offset: 0, fault: Fault::Magic };
        let digits = head.strip_prefix(b"REDIS").ok_or_else(wrong)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(wrong());
        }
        let version = digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        if version == 0 || version > VERSION_MAX {
            return Err(Error { offset: 5, fault: Fault::Version { version, max: VERSION_MAX } });
        }
        Ok(File { source, version, key_bytes_max, value_bytes_max, ended: false })
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The source that the file was read from. It stands behind the file's last byte once the file has ended.
    pub fn into_inner(self) -> R {
        self.source.into_inner()
    }

    /// The next item. `None`: the file has ended.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        if self.ended {
            return Ok(None);
        }
        let mut expires_at = None;
        loop {
            let at = self.source.offset();
            let number = self.source.byte()?;
            return Ok(Some(match number {
                // Memory of slots: a hint for Redis Cluster.
                244 => {
                    for _ in 0..3 {
                        self.source.length()?;
                    }
                    continue;
                }
                245 => {
                    skip_string(&mut self.source)?;
                    Item::Function
                }
                246 => return Err(Error { offset: at, fault: Fault::Unreleased("a function") }),
                247 => {
                    self.source.length()?;
                    skip_module_parts(&mut self.source)?;
                    Item::ModuleAux
                }
                // How long the next key was idle, and how often it was used: hints for eviction.
                248 => {
                    self.source.length()?;
                    continue;
                }
                249 => {
                    self.source.skip(1)?;
                    continue;
                }
                250 => Item::Aux { name: self.short()?, value: self.short()? },
                251 => Item::Size { keys: self.source.length()?, expiring: self.source.length()? },
                252 => {
                    expires_at = Some(expiry(at, i64::from_le_bytes(self.source.array()?))?);
                    continue;
                }
                253 => {
                    let seconds = i32::from_le_bytes(self.source.array()?);
                    expires_at = Some(expiry(at, i64::from(seconds) * 1000)?);
                    continue;
                }
                254 => {
                    let number = self.source.length()?;
                    if number >= DATABASE_COUNT_MAX {
                        return Err(Error { offset: at, fault: Fault::Database(number) });
                    }
                    Item::Database { number: number as u32 }
                }
                255 => self.end()?,
                _ => self.object(at, number, expires_at)?,
            }));
        }
    }

    fn object(&mut self, at: u64, number: u8, expires_at: Option<u64>) -> Result<Item, Error> {
        // An unknown type is reported as such, and not as the fault that its key seems to have.
        if matches!(number, 8 | 26..) {
            return Err(Error { offset: at, fault: Fault::Type(number) });
        }
        let key = read_string(&mut self.source, self.key_bytes_max)?;
        let (kind, value) = read_value_of(&mut self.source, at, number, self.value_bytes_max)?;
        Ok(match key {
            Text::Bytes(key) => Item::Object { key, expires_at, kind, value },
            Text::TooLong { bytes } => Item::KeyTooLong { bytes, kind },
        })
    }

    fn short(&mut self) -> Result<Vec<u8>, Error> {
        Ok(match read_string(&mut self.source, AUX_BYTES_MAX)? {
            Text::Bytes(bytes) => bytes,
            Text::TooLong { .. } => Vec::new(),
        })
    }

    fn end(&mut self) -> Result<Item, Error> {
        self.ended = true;
        if self.version < CHECKSUM_SINCE {
            return Ok(Item::End { is_checked: false });
        }
        let (at, is) = (self.source.offset(), self.source.crc());
        let said = u64::from_le_bytes(self.source.array()?);
        // Zero: the file was written without a checksum.
        if said != 0 && said != is {
            return Err(Error { offset: at, fault: Fault::Checksum { said, is } });
        }
        Ok(Item::End { is_checked: said != 0 })
    }
}

fn expiry(offset: u64, millis: i64) -> Result<u64, Error> {
    u64::try_from(millis).map_err(|_| Error { offset, fault: Fault::Expiry(millis) })
}
