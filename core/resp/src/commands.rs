//! The one table of commands, in the order of their names. Finds a request's row, or the reason why there is
//! none.

mod acl;
mod bitfield;
mod bits;
mod cluster;
mod connection;
pub mod describe;
mod dump;
mod expiry;
mod keys;
mod lcs;
mod lifetime;
mod numbers;
mod object;
mod parts;
mod pubsub;
mod server;
mod several;
mod strings;
mod transactions;
mod usage;

use crate::Fault;
use crate::command::{Command, Run};
use ramhold_base::limits::KEY_BYTES_MAX;

pub static ALL: &[Command] = &[
    acl::ACL,
    parts::APPEND,
    connection::AUTH,
    bits::BITCOUNT,
    bitfield::BITFIELD,
    bitfield::BITFIELD_RO,
    bits::BITOP,
    bits::BITPOS,
    connection::CLIENT,
    cluster::CLUSTER,
    server::COMMAND,
    server::CONFIG,
    keys::COPY,
    keys::DBSIZE,
    server::DEBUG,
    numbers::DECR,
    numbers::DECRBY,
    keys::DEL,
    strings::DELIFEQ,
    transactions::DISCARD,
    dump::DUMP,
    connection::ECHO,
    transactions::EXEC,
    keys::EXISTS,
    expiry::EXPIRE,
    expiry::EXPIREAT,
    expiry::EXPIRETIME,
    keys::FLUSHALL,
    keys::FLUSHDB,
    server::FUNCTION,
    strings::GET,
    bits::GETBIT,
    strings::GETDEL,
    strings::GETEX,
    parts::GETRANGE,
    strings::GETSET,
    strings::GETVER,
    connection::HELLO,
    numbers::INCR,
    numbers::INCRBY,
    numbers::INCRBYFLOAT,
    server::INFO,
    keys::KEYS,
    server::LASTSAVE,
    server::LATENCY,
    lcs::LCS,
    object::MEMORY,
    several::MGET,
    keys::MOVE,
    several::MSET,
    several::MSETNX,
    transactions::MULTI,
    object::OBJECT,
    expiry::PERSIST,
    expiry::PEXPIRE,
    expiry::PEXPIREAT,
    expiry::PEXPIRETIME,
    connection::PING,
    strings::PSETEX,
    pubsub::PSUBSCRIBE,
    expiry::PTTL,
    pubsub::PUBLISH,
    pubsub::PUBSUB,
    pubsub::PUNSUBSCRIBE,
    connection::QUIT,
    keys::RANDOMKEY,
    cluster::READONLY,
    cluster::READWRITE,
    keys::RENAME,
    keys::RENAMENX,
    connection::RESET,
    dump::RESTORE,
    server::ROLE,
    keys::SCAN,
    connection::SELECT,
    strings::SET,
    bits::SETBIT,
    strings::SETEX,
    strings::SETNX,
    parts::SETRANGE,
    server::SLOWLOG,
    pubsub::SPUBLISH,
    pubsub::SSUBSCRIBE,
    parts::STRLEN,
    pubsub::SUBSCRIBE,
    parts::SUBSTR,
    pubsub::SUNSUBSCRIBE,
    server::TIME,
    keys::TOUCH,
    expiry::TTL,
    keys::TYPE,
    keys::UNLINK,
    pubsub::UNSUBSCRIBE,
    transactions::UNWATCH,
    server::WAIT,
    server::WAITAOF,
    transactions::WATCH,
];

/// The row of `COMMAND` without a subcommand. It is in no list.
pub static BARE: &Command = &server::BARE_COMMAND;

/// The row of a command. The case of the name does not matter.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut at = name_hash(name);
    // At least half of the places are empty, so the search ends.
    while let Some(number) = usize::from(PLACES[at % PLACE_COUNT]).checked_sub(1) {
        let row = &ALL[number];
        if row.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(row);
        }
        at += 1;
    }
    None
}

/// Hash table that finds rows by their name, made at compile time. It holds the rows' numbers plus one.
static PLACES: [u16; PLACE_COUNT] = {
    let mut places = [0; PLACE_COUNT];
    let mut number = 0;
    assert!(2 * ALL.len() <= PLACE_COUNT);
    while number < ALL.len() {
        let mut at = name_hash(ALL[number].name.as_bytes());
        while places[at % PLACE_COUNT] != 0 {
            at += 1;
        }
        number += 1;
        places[at % PLACE_COUNT] = number as u16;
    }
    places
};

const PLACE_COUNT: usize = 512;

/// Hash of a name's length and of its first eight letters, whatever their case.
const fn name_hash(name: &[u8]) -> usize {
    let (mut hash, mut at) = (name.len(), 0);
    while at < name.len() && at < 8 {
        hash = hash.wrapping_mul(31).wrapping_add((name[at] & 0x1F) as usize);
        at += 1;
    }
    hash ^ hash >> 9
}

/// The row of a request: that of its command, or of its subcommand if the command is a container. The request
/// then has as many arguments as the row demands, and no key that is too large. `args` must not be empty.
pub fn resolve(args: &[&[u8]]) -> Result<&'static Command, Fault> {
    let row = find(args[0]).ok_or_else(|| unknown_command(args))?;
    if let Run::Container(_) = row.run {
        let Some(name) = args.get(1) else {
            let bare = (row.name == server::BARE_COMMAND.name).then_some(&server::BARE_COMMAND);
            return bare.ok_or_else(|| Fault::wrong_arity(row.name));
        };
        let subcommand = row.subcommand(name).ok_or_else(|| unknown_subcommand(args))?;
        if !subcommand.takes(args.len()) {
            return Err(Fault::wrong_arity(&format!("{}|{}", row.name, subcommand.name)));
        }
        return check_keys(subcommand, args);
    }
    if !row.takes(args.len()) {
        return Err(Fault::wrong_arity(row.name));
    }
    check_keys(row, args)
}

fn check_keys(row: &'static Command, args: &[&[u8]]) -> Result<&'static Command, Fault> {
    let fits = row.keys.of(args).all(|key| key.len() <= KEY_BYTES_MAX);
    if fits { Ok(row) } else { Err(Fault::KEY_TOO_LARGE) }
}

/// Bytes of a client's words that an error repeats.
const REPEATED_BYTES_MAX: usize = 128;

/// The error for a name that no command has. It begins as Redis's error does, because clients look at that,
/// and then says which commands there are.
pub fn unknown_command(args: &[&[u8]]) -> Fault {
    let name = crate::fault::shown(repeated(args[0], REPEATED_BYTES_MAX));
    let version = env!("CARGO_PKG_VERSION");
    Fault::said(format!(
        "ERR unknown command '{name}' (Ramhold {version} has strings, bits, keys, transactions and pub/sub; see \
         docs/redis-commands.md)"
    ))
}

/// Redis's error for a container that has no such subcommand.
pub fn unknown_subcommand(args: &[&[u8]]) -> Fault {
    let container = crate::fault::shown(args[0]).to_ascii_uppercase();
    let name = crate::fault::shown(repeated(args[1], REPEATED_BYTES_MAX));
    Fault::said(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
}

/// The beginning of `word`: at most `bytes_max` bytes, up to a zero byte.
fn repeated(word: &[u8], bytes_max: usize) -> &[u8] {
    let word = &word[..word.len().min(bytes_max)];
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Flags, KeyPlaces};

    fn check(rows: &[Command]) {
        for pair in rows.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} is out of order", pair[1].name);
        }
        for row in rows {
            assert_eq!(row.name, row.name.to_ascii_lowercase());
            if let Run::Container(commands) = row.run {
                check(commands);
            }
            let has_keys = row.keys != KeyPlaces::NONE || row.flags.has(Flags::MOVABLEKEYS);
            match row.run {
                Run::Keys(_) | Run::Fast(..) => assert!(has_keys, "{}", row.name),
                Run::Front(_) => assert!(!has_keys || row.name == "watch", "{}", row.name),
                Run::Container(_) => assert!(!has_keys, "{}", row.name),
            }
            assert_eq!(has_keys, !row.access.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn rows_are_in_order() {
        check(ALL);
    }
}
