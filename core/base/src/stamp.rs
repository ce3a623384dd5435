//! The stamp of a value: its place in the order of all values of its key.

use crate::Rng;
use std::fmt;

/// 64 random bits that name a session; the last one is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(u64);

impl SessionId {
    /// Two sessions meet with a probability of 2^-63 for each pair.
    pub fn new(rng: &mut Rng) -> SessionId {
        SessionId((rng.u64() & !1).max(2))
    }

    /// `None` if the number is no session's: 0, or with its last bit set.
    pub fn of(number: u64) -> Option<SessionId> {
        (number != 0 && number & 1 == 0).then_some(SessionId(number))
    }

    pub fn number(self) -> u64 {
        self.0
    }
}

/// Compared by time, then by session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, minicbor::Encode, minicbor::Decode)]
pub struct Stamp {
    /// Microseconds of the session's clock. It may have been pushed on by stamps that the session was told.
    #[n(0)]
    pub time: u64,
    /// The session's number. Its last bit tells the tombstone of an expired value, at the value's own place.
    #[n(1)]
    pub session: u64,
}

impl Stamp {
    /// The stamp of a key that was never written.
    pub const NONE: Stamp = Stamp { time: 0, session: 0 };

    pub fn new(time: u64, session: SessionId) -> Stamp {
        Stamp { time, session: session.0 }
    }

    pub fn is_none(self) -> bool {
        self == Stamp::NONE
    }

    /// Whether a put may have this stamp.
    pub fn is_of_put(self) -> bool {
        SessionId::of(self.session).is_some() && self.time > 0 && self.time < u64::MAX
    }

    /// The stamp of the tombstone that ends this value when it has expired: right after the value, before any other.
    pub fn of_expiry(self) -> Stamp {
        Stamp { session: self.session | 1, ..self }
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{:x}", self.time, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I2
    #[test]
    fn an_expiry_comes_right_after_its_value() {
        let mut rng = Rng::new(1);
        let value = Stamp::new(7, SessionId::new(&mut rng));
        let next = Stamp { session: value.session + 2, ..value };
        assert!(value < value.of_expiry() && value.of_expiry() < next);
        assert!(value.is_of_put() && !value.of_expiry().is_of_put());
        for strange in
            [Stamp::NONE, Stamp { time: u64::MAX, session: u64::MAX }, Stamp { time: 9, session: 0 }]
        {
            assert!(!strange.is_of_put(), "{strange:?}");
        }
    }
}
