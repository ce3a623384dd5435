//! Commands about the expiry of keys.

use super::lifetime::{Since, Unit, bounded, moment};
use crate::command::{Command, Flags, KeyPlaces, OnQuorum, Run};
use crate::{Call, Fault, Stop};

pub const EXPIRE: Command = Command {
    name: "expire",
    arity: -3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key seconds [NX | XX | GT | LT]",
    summary: "Lets a key end so many seconds from now.",
    run: Run::Keys(expire),
    ..Command::BASE
};

fn expire(call: &mut Call<'_>) -> Result<(), Stop> {
    end(call, Unit::Seconds, Since::Now, "expire")
}

pub const PEXPIRE: Command = Command {
    name: "pexpire",
    arity: -3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "generic",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key milliseconds [NX | XX | GT | LT]",
    summary: "Lets a key end so many milliseconds from now.",
    run: Run::Keys(pexpire),
    ..Command::BASE
};

fn pexpire(call: &mut Call<'_>) -> Result<(), Stop> {
    end(call, Unit::Millis, Since::Now, "pexpire")
}

pub const EXPIREAT: Command = Command {
    name: "expireat",
    arity: -3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "generic",
    since: "1.2.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key unix-time-seconds [NX | XX | GT | LT]",
    summary: "Lets a key end at a moment, told in seconds since 1970.",
    run: Run::Keys(expireat),
    ..Command::BASE
};

fn expireat(call: &mut Call<'_>) -> Result<(), Stop> {
    end(call, Unit::Seconds, Since::Epoch, "expireat")
}

pub const PEXPIREAT: Command = Command {
    name: "pexpireat",
    arity: -3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "generic",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key unix-time-milliseconds [NX | XX | GT | LT]",
    summary: "Lets a key end at a moment, told in milliseconds since 1970.",
    run: Run::Keys(pexpireat),
    ..Command::BASE
};

fn pexpireat(call: &mut Call<'_>) -> Result<(), Stop> {
    end(call, Unit::Millis, Since::Epoch, "pexpireat")
}

/// The expiries that may be replaced. A key without expiry counts as one that expires later than any other.
#[derive(Default)]
struct Rules {
    /// `NX`: only if there is none.
    none: bool,
    /// `XX`: only if there is one.
    some: bool,
    /// `GT`: only one that is earlier than the new one.
    later: bool,
    /// `LT`: only one that is later than the new one.
    earlier: bool,
}

impl Rules {
    fn parse(words: &[&[u8]]) -> Result<Rules, Fault> {
        let mut rules = Rules::default();
        for word in words {
            match &word.to_ascii_lowercase()[..] {
                b"nx" => rules.none = true,
                b"xx" => rules.some = true,
                b"gt" => rules.later = true,
                b"lt" => rules.earlier = true,
                _ => {
                    let word = crate::fault::shown(word.split(|byte| *byte == 0).next().unwrap_or(word));
                    return Err(Fault::said(format!("ERR Unsupported option {word}")));
                }
            }
        }
        if rules.none && (rules.some || rules.later || rules.earlier) {
            return Err(Fault::fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if rules.later && rules.earlier {
            return Err(Fault::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(rules)
    }

    fn allow(&self, before: Option<u64>, after: u64) -> bool {
        let before_or_never = before.unwrap_or(u64::MAX);
        !(self.none && before.is_some()
            || self.some && before.is_none()
            || self.later && after <= before_or_never
            || self.earlier && after >= before_or_never)
    }
}

fn end(call: &mut Call<'_>, unit: Unit, since: Since, name: &str) -> Result<(), Stop> {
    let key = call.args[1];
    let rules = Rules::parse(&call.args[3..])?;
    let count = call.integer(2)?;
    let ends = moment(call, count, unit, since).ok_or(Fault::invalid_expire(name))?;
    let ends = bounded(call, ends)?;
    let object = call.get(key)?.filter(|object| rules.allow(object.expires, ends)).cloned();
    call.reply.integer(i64::from(object.is_some()));
    if let Some(object) = object {
        call.put(key, object.value, Some(ends));
    }
    Ok(())
}

pub const PERSIST: Command = Command {
    name: "persist",
    arity: 2,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "generic",
    since: "2.2.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key",
    summary: "Lets a key that would end stay for good.",
    run: Run::Keys(persist),
    ..Command::BASE
};

fn persist(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    let object = call.get(key)?.filter(|object| object.expires.is_some()).cloned();
    call.reply.integer(i64::from(object.is_some()));
    if let Some(object) = object {
        call.put(key, object.value, None);
    }
    Ok(())
}

pub const TTL: Command = Command {
    name: "ttl",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Tells how many seconds a key has left.",
    tips: &["nondeterministic_output"],
    quorum: OnQuorum::Yes,
    run: Run::Keys(ttl),
    ..Command::BASE
};

fn ttl(call: &mut Call<'_>) -> Result<(), Stop> {
    let now = call.now;
    tell(call, |ends| (ends.saturating_sub(now) + 500) / 1000)
}

pub const PTTL: Command = Command {
    name: "pttl",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "generic",
    since: "2.6.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Tells how many milliseconds a key has left.",
    tips: &["nondeterministic_output"],
    quorum: OnQuorum::Yes,
    run: Run::Keys(pttl),
    ..Command::BASE
};

fn pttl(call: &mut Call<'_>) -> Result<(), Stop> {
    let now = call.now;
    tell(call, |ends| ends.saturating_sub(now))
}

pub const EXPIRETIME: Command = Command {
    name: "expiretime",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "generic",
    since: "7.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Tells the moment at which a key ends, in seconds since 1970.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(expiretime),
    ..Command::BASE
};

fn expiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    tell(call, |ends| (ends + 500) / 1000)
}

pub const PEXPIRETIME: Command = Command {
    name: "pexpiretime",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "generic",
    since: "7.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Tells the moment at which a key ends, in milliseconds since 1970.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(pexpiretime),
    ..Command::BASE
};

fn pexpiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    tell(call, |ends| ends)
}

/// Answers the expiry of the key, in the unit that `count` gives it. -1: the key does not expire. -2: there
/// is no key.
fn tell(call: &mut Call<'_>, count: impl Fn(u64) -> u64) -> Result<(), Stop> {
    let answer = match call.get(call.args[1])? {
        None => -2,
        Some(object) => object.expires.map_or(-1, |ends| i64::try_from(count(ends)).unwrap_or(i64::MAX)),
    };
    call.reply.integer(answer);
    Ok(())
}
