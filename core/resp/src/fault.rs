//! Errors in the words of Redis: clients compare the first word, and people read the rest.

use std::borrow::Cow;

/// One error line, without the leading `-` and without a line break. Each character stands for one byte, so
/// that a client's bytes go back to it unchanged; see `shown`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(pub Cow<'static, str>);

impl Fault {
    pub const NO_LOGIN: Fault = Fault::fixed("NOAUTH Authentication required.");
    pub const SYNTAX: Fault = Fault::fixed("ERR syntax error");
    pub const NOT_AN_INTEGER: Fault = Fault::fixed("ERR value is not an integer or out of range");
    pub const NOT_A_FLOAT: Fault = Fault::fixed("ERR value is not a valid float");
    pub const OVERFLOW: Fault = Fault::fixed("ERR increment or decrement would overflow");
    pub const NO_SUCH_KEY: Fault = Fault::fixed("ERR no such key");
    pub const SAME_OBJECT: Fault = Fault::fixed("ERR source and destination objects are the same");
    pub const NO_SUCH_DATABASE: Fault = Fault::fixed("ERR DB index is out of range");
    pub const NOT_A_SMALL_INTEGER: Fault =
        Fault::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    pub const OFFSET_OUT_OF_RANGE: Fault = Fault::fixed("ERR offset is out of range");
    pub const EXPIRE_TOO_FAR: Fault =
        Fault::fixed("ERR expire time is too far ahead: an object lives at most 3155760000000 milliseconds");
    pub const WRONG_TYPE: Fault =
        Fault::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub const VALUE_TOO_LARGE: Fault =
        Fault::fixed("ERR string exceeds maximum allowed size: a value has at most 1048576 bytes");
    pub const KEY_TOO_LARGE: Fault = Fault::fixed("ERR key is too large: a key has at most 65535 bytes");
    pub const OUT_OF_MEMORY: Fault = Fault::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    pub const CROSS_SLOT: Fault = Fault::fixed(
        "CROSSSLOT Keys in request don't hash to the same slot: give keys that change together one hash tag, as in \
         {user7}:name and {user7}:mail",
    );
    pub const CROSS_DATABASE: Fault = Fault::fixed(
        "CROSSSLOT Keys in request are in several databases: keep keys that change together in one database",
    );
    pub const CROSS_SERVER: Fault = Fault::fixed(
        "CROSSSLOT Keys in request are on several servers: give keys that change together one hash tag, as in \
         {user7}:name and {user7}:mail",
    );

    pub const fn fixed(text: &'static str) -> Fault {
        Fault(Cow::Borrowed(text))
    }

    /// `text` may hold bytes of a client. Line breaks in it become spaces, as in Redis.
    pub fn said(text: impl Into<String>) -> Fault {
        let text: String = text.into();
        if text.contains(['\r', '\n']) {
            return Fault(Cow::Owned(text.replace(['\r', '\n'], " ")));
        }
        Fault(Cow::Owned(text))
    }

    pub fn wrong_arity(name: &str) -> Fault {
        Fault::said(format!("ERR wrong number of arguments for '{name}' command"))
    }

    pub fn invalid_expire(name: &str) -> Fault {
        Fault::said(format!("ERR invalid expire time in '{name}' command"))
    }
}

/// A client's bytes as they stand in an error: one character for each byte.
pub fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The reason why a handler stopped before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The handler needs keys that are not known yet. When they are known, it runs again from its beginning.
    Need,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}
