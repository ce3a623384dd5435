//! The lifetime of an object, as the options of commands give it.

use crate::parse::integer;
use crate::{Call, Fault, Stop};
use ramhold_base::limits::EXPIRY_MILLIS_MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Millis,
}

/// The moment that counts as 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Since {
    Now,
    /// 1970.
    Epoch,
}

/// The option about the lifetime in `SET` and `GETEX`, which take only one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lifetime<'a> {
    /// `EX`, `PX`, `EXAT`, `PXAT`. The number is read when it is certain that it matters.
    Until { unit: Unit, since: Since, text: &'a [u8] },
    /// `KEEPTTL`
    Keep,
    /// `PERSIST`
    Forever,
}

impl<'a> Lifetime<'a> {
    /// Reads the option that starts with `word`. `None`: there is none, or it excludes the option `before`.
    pub fn parse(word: &[u8], more: &[&'a [u8]], before: Option<Lifetime<'_>>) -> Option<Lifetime<'a>> {
        let until = |unit, since| Some(Lifetime::Until { unit, since, text: more.first()? });
        let found = match &word.to_ascii_lowercase()[..] {
            b"ex" => until(Unit::Seconds, Since::Now),
            b"px" => until(Unit::Millis, Since::Now),
            b"exat" => until(Unit::Seconds, Since::Epoch),
            b"pxat" => until(Unit::Millis, Since::Epoch),
            b"keepttl" => Some(Lifetime::Keep),
            b"persist" => Some(Lifetime::Forever),
            _ => None,
        }?;
        let kind = |lifetime: Lifetime<'_>| match lifetime {
            Lifetime::Until { unit, since, .. } => Lifetime::Until { unit, since, text: &[] },
            Lifetime::Keep => Lifetime::Keep,
            Lifetime::Forever => Lifetime::Forever,
        };
        before.is_none_or(|before| kind(before) == kind(found)).then_some(found)
    }

    /// Number of arguments that belong to the option, behind its word.
    pub fn words_behind(self) -> usize {
        usize::from(matches!(self, Lifetime::Until { .. }))
    }
}

/// The end of an object to which the command `name` gives this lifetime, in milliseconds since 1970.
pub fn ends_at(call: &Call<'_>, lifetime: Option<Lifetime<'_>>, name: &str) -> Result<Option<u64>, Stop> {
    let Some(Lifetime::Until { unit, since, text }) = lifetime else {
        return Ok(None);
    };
    let count = integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
    if count <= 0 {
        return Err(Fault::invalid_expire(name).into());
    }
    let ends = moment(call, count, unit, since).ok_or(Fault::invalid_expire(name))?;
    Ok(Some(bounded(call, ends)?))
}

/// A moment in milliseconds since 1970, which may be before 1970. `None`: the number is too large.
pub fn moment(call: &Call<'_>, count: i64, unit: Unit, since: Since) -> Option<i64> {
    let millis = match unit {
        Unit::Seconds => count.checked_mul(1000)?,
        Unit::Millis => count,
    };
    match since {
        Since::Now => millis.checked_add(i64::try_from(call.now).ok()?),
        Since::Epoch => Some(millis),
    }
}

/// The end that an object may be given. A moment before 1970 counts as 1970.
pub fn bounded(call: &Call<'_>, ends: i64) -> Result<u64, Stop> {
    let ends = u64::try_from(ends).unwrap_or(0);
    if ends.saturating_sub(call.now) > EXPIRY_MILLIS_MAX {
        return Err(Fault::EXPIRE_TOO_FAR.into());
    }
    Ok(ends)
}
