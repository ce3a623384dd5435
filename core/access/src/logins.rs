//! Who may try to become an account, and how often.
//!
//! A password is compared by the executor, outside of the event loop, because that takes long on purpose. Wrong ones count for
//! the address that they came from. An address that was wrong too often is let in only by a password that was found right not
//! long ago, which is told at once, and for each account it may be wrong with that once a second: so guessing is slow, and
//! clients that know their password get in, though one at their address does not.
//!
//! Many connections of one client log in together when a server comes back. Logins of one address with the same name and
//! password are compared once.
//!
//! Invariants:
//! - wrong names are answered like wrong passwords, and take as long as those of an account with one password;
//! - memory and comparisons under way are bounded, whoever tries from wherever.
//!
//! Not here: hashing (`io/runtime`), the accounts (`roster`). Protocol: docs/protocols/access.md. Catalogue: J4, Z9.

use crate::roster::Member;
use ramhold_base::{Effect, Effects, Instant, Password, SecretResult, SecretToken, SecretWork};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// Comparisons that are under way: of all addresses, and of one.
pub const UNDER_WAY_MAX: usize = 64;
pub const UNDER_WAY_OF_ONE_MAX: usize = 16;
/// Logins that wait for these comparisons.
pub const WAITING_MAX: usize = 16_384;
/// Wrong passwords that an address may give in a row, and how long it takes until it may be wrong once more.
pub const WRONG: Allowance = Allowance { most: 20, again_after: Duration::from_secs(3) };
/// Wrong attempts of an address that was wrong too often, to become one account by a password that was right not long ago.
pub const QUICK: Allowance = Allowance { most: 20, again_after: Duration::from_secs(1) };
/// Origins that are remembered. The others share what is left.
const ORIGIN_COUNT_MAX: usize = 4096;
/// Accounts of one origin whose quick attempts are told apart. The others share what is left.
const QUICK_COUNT_MAX: usize = 16;
/// How often origins without anything to remember are looked for, when there are too many.
const PRUNED_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a password. Longer ones are wrong.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// How often something may happen.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// In a row.
    pub most: u32,
    /// Once more after this time.
    pub again_after: Duration,
}

/// The part of an allowance that an address has used, and since when that holds.
#[derive(Clone, Copy, Debug)]
struct Used {
    count: u32,
    since: Instant,
}

impl Used {
    fn none(now: Instant) -> Used {
        Used { count: 0, since: now }
    }

    /// The part that still counts at this time.
    fn at(self, now: Instant, allowance: Allowance) -> Used {
        let regained = now.since(self.since).as_nanos() / allowance.again_after.as_nanos();
        let regained = u32::try_from(regained).unwrap_or(u32::MAX);
        match self.count.saturating_sub(regained) {
            0 => Used::none(now),
            count => Used { count, since: self.since + allowance.again_after * regained },
        }
    }

    /// More than is allowed is not counted: an address that has been wrong for long is forgiven as soon as any other.
    fn once_more(self, now: Instant, allowance: Allowance) -> Used {
        let Used { count, since } = self.at(now, allowance);
        Used { count: count.saturating_add(1).min(allowance.most), since }
    }

    fn once_less(self, now: Instant, allowance: Allowance) -> Used {
        let Used { count, since } = self.at(now, allowance);
        Used { count: count.saturating_sub(1), since }
    }

    fn is_used_up(self, now: Instant, allowance: Allowance) -> bool {
        self.at(now, allowance).count >= allowance.most
    }
}

/// Where logins come from, as far as they count together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Origin {
    /// The address is not known: a Unix socket.
    Unknown,
    /// An address, or the 64 bits of an address of version 6 that one customer of a network has.
    Network(IpAddr),
    /// All addresses for which there is no room.
    Others,
}

impl Origin {
    fn of(address: Option<IpAddr>) -> Origin {
        match address.map(|address| address.to_canonical()) {
            None => Origin::Unknown,
            Some(IpAddr::V6(address)) => {
                Origin::Network(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into())
            }
            Some(address) => Origin::Network(address),
        }
    }
}

/// The account that a quick attempt is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    Account(u64),
    /// The password of the server itself.
    Own,
    /// A name that no account has, and accounts for which there is no room.
    Others,
}

/// A comparison under way.
struct Attempt {
    origin: Origin,
    /// None: there is no such account, or nobody can become it.
    member: Option<Arc<Member>>,
    password: Vec<u8>,
    /// Why the work is bounded.
    bound: Option<Bound>,
    /// Further logins that wait for this comparison.
    joined: Vec<SecretToken>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    TooMany,
    TooOften,
}

/// Passwords are not shown.
impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.member.as_ref().map(|member| member.name());
        write!(f, "{name:?} from {:?}, {} joined", self.origin, self.joined.len())
    }
}

/// The beginning of a login.
#[derive(Debug)]
pub enum Begun {
    /// Any password does.
    Right(Arc<Member>),
    /// The verdict comes with the result of this work, or of that of a login like this one.
    Checking(SecretToken),
    /// Nothing more is taken on now: the password was not compared.
    Busy,
    /// The address was wrong too often: the password was not compared.
    TooOften,
}

/// The end of a login.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// This stored password of the account was given. The account may have been changed since the login began.
    Right {
        member: Arc<Member>,
        stored: String,
    },
    Wrong,
    /// Too many others are being compared: the password was not.
    Busy,
    /// The address was wrong too often: the password was not compared.
    TooOften,
    /// The executor cannot compare; the text says why.
    Failed(String),
}

/// The wrong passwords of an address, and its attempts since it was wrong too often.
#[derive(Debug)]
struct History {
    wrong: Used,
    quick: Vec<(About, Used)>,
}

impl History {
    fn is_over(&self, now: Instant) -> bool {
        self.wrong.at(now, WRONG).count == 0
            && self.quick.iter().all(|(_, used)| used.at(now, QUICK).count == 0)
    }

    fn quick(&mut self, now: Instant, about: About) -> &mut Used {
        let find = |quick: &[(About, Used)], about| quick.iter().position(|(other, _)| *other == about);
        let at = find(&self.quick, about).unwrap_or_else(|| {
            self.quick.retain(|(_, used)| used.at(now, QUICK).count > 0);
            let about = if self.quick.len() < QUICK_COUNT_MAX { about } else { About::Others };
            find(&self.quick, about).unwrap_or_else(|| {
                self.quick.push((about, Used::none(now)));
                self.quick.len() - 1
            })
        });
        &mut self.quick[at].1
    }
}

#[derive(Debug, Default)]
pub struct Logins {
    last: u64,
    under_way: BTreeMap<SecretToken, Attempt>,
    waiting_count: usize,
    histories: BTreeMap<Origin, History>,
    pruned: Instant,
}

impl Logins {
    /// A number for work with passwords that is no login.
    pub fn next_token(&mut self) -> SecretToken {
        self.last += 1;
        SecretToken(self.last)
    }

    /// Begins a login. `member`: the account of the name that was given, if there is one.
    pub fn begin(
        &mut self,
        now: Instant,
        address: Option<IpAddr>,
        member: Option<&Arc<Member>>,
        password: &[u8],
        effects: &mut Effects,
    ) -> Begun {
        let origin = Origin::of(address);
        let member = member.filter(|member| member.account.is_on());
        if let Some(member) = member.filter(|member| member.account.needs_no_secret()) {
            return Begun::Right(Arc::clone(member));
        }
        if self.waiting_count >= WAITING_MAX {
            return Begun::Busy;
        }
        let password = &password[..password.len().min(PASSWORD_BYTES_MAX + 1)];
        let member = member.filter(|_| password.len() <= PASSWORD_BYTES_MAX);
        let token = self.next_token();
        let is_same = |attempt: &&mut Attempt| {
            let are_same = match (&attempt.member, member) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            };
            are_same && attempt.origin == origin && attempt.password == password && attempt.bound.is_none()
        };
        if let Some(attempt) = self.under_way.values_mut().find(is_same) {
            attempt.joined.push(token);
            self.waiting_count += 1;
            return Begun::Checking(token);
        }
        let compared = || self.under_way.values().filter(|attempt| attempt.bound.is_none());
        let of_one = compared().filter(|attempt| attempt.origin == origin).count();
        let bound = if self.wrong_of(now, origin) + of_one as u32 >= WRONG.most {
            Some(Bound::TooOften)
        } else if of_one >= UNDER_WAY_OF_ONE_MAX || compared().count() >= UNDER_WAY_MAX {
            Some(Bound::TooMany)
        } else {
            None
        };
        if bound.is_some() && !self.may_be_quick(now, origin, About::of(member)) {
            return if bound == Some(Bound::TooOften) { Begun::TooOften } else { Begun::Busy };
        }
        // With nothing to compare with, the executor takes as long.
        let stored = member.map_or_else(Vec::new, |member| member.account.secrets().to_vec());
        let attempt = Attempt {
            origin,
            member: member.cloned(),
            password: password.to_vec(),
            bound,
            joined: Vec::new(),
        };
        self.under_way.insert(token, attempt);
        self.waiting_count += 1;
        let password = Password::Plain(password.to_vec());
        let work = SecretWork::Match { password, stored, is_bounded: bound.is_some() };
        effects.push(Effect::Secret { token, work });
        Begun::Checking(token)
    }

    /// A login whose password is compared at once, because it is not hashed. `is_right` compares.
    pub fn compare_at_once(
        &mut self,
        now: Instant,
        address: Option<IpAddr>,
        is_right: impl FnOnce() -> bool,
    ) -> AtOnce {
        let origin = Origin::of(address);
        let is_bounded = self.wrong_of(now, origin) >= WRONG.most;
        if is_bounded && !self.may_be_quick(now, origin, About::Own) {
            return AtOnce::TooOften;
        }
        if is_right() {
            if is_bounded {
                self.give_back(now, origin, About::Own);
            }
            return AtOnce::Right;
        }
        self.note_wrong(now, origin);
        AtOnce::Wrong
    }

    /// Takes the result of a comparison. Returns the verdict on each login that waited for it; none: the work was no login.
    pub fn answered(
        &mut self,
        now: Instant,
        token: SecretToken,
        result: &SecretResult,
    ) -> Vec<(SecretToken, Verdict)> {
        let Some(attempt) = self.under_way.remove(&token) else { return Vec::new() };
        let stored = |at: &usize| {
            let member = attempt.member.as_ref()?;
            Some((Arc::clone(member), member.account.secrets().get(*at)?.clone()))
        };
        let verdict = match (result, attempt.bound) {
            (SecretResult::Matched(place), _) => match place.as_ref().and_then(stored) {
                Some((member, stored)) => {
                    if attempt.bound.is_some() {
                        self.give_back(now, attempt.origin, About::of(Some(&member)));
                    }
                    Verdict::Right { member, stored }
                }
                None => {
                    self.note_wrong(now, attempt.origin);
                    Verdict::Wrong
                }
            },
            (SecretResult::Unknown, Some(Bound::TooOften)) => Verdict::TooOften,
            (SecretResult::Unknown, _) => Verdict::Busy,
            (SecretResult::Failed(why), _) => Verdict::Failed(why.clone()),
            (SecretResult::Prepared { .. } | SecretResult::Random(_), _) => Verdict::Wrong,
        };
        let waited: Vec<SecretToken> = std::iter::once(token).chain(attempt.joined).collect();
        self.waiting_count -= waited.len();
        waited.into_iter().map(|token| (token, verdict.clone())).collect()
    }

    /// Whether an origin may try a password that was right not long ago. That uses up one attempt, which a right password
    /// gives back.
    fn may_be_quick(&mut self, now: Instant, origin: Origin, about: About) -> bool {
        let quick = self.history(now, origin).quick(now, about);
        let may = !quick.is_used_up(now, QUICK);
        if may {
            *quick = quick.once_more(now, QUICK);
        }
        may
    }

    fn give_back(&mut self, now: Instant, origin: Origin, about: About) {
        let quick = self.history(now, origin).quick(now, about);
        *quick = quick.once_less(now, QUICK);
    }

    /// Wrong passwords of an origin that are not forgiven yet.
    fn wrong_of(&self, now: Instant, origin: Origin) -> u32 {
        let known = self.histories.get(&origin);
        let is_full = self.histories.len() >= ORIGIN_COUNT_MAX;
        let history = known.or_else(|| self.histories.get(&Origin::Others).filter(|_| is_full));
        history.map_or(0, |history| history.wrong.at(now, WRONG).count)
    }

    fn note_wrong(&mut self, now: Instant, origin: Origin) {
        let history = self.history(now, origin);
        history.wrong = history.wrong.once_more(now, WRONG);
    }

    fn history(&mut self, now: Instant, origin: Origin) -> &mut History {
        if self.histories.len() >= ORIGIN_COUNT_MAX && now >= self.pruned + PRUNED_AFTER {
            self.pruned = now;
            self.histories.retain(|_, history| !history.is_over(now));
        }
        let has_room = self.histories.len() < ORIGIN_COUNT_MAX || self.histories.contains_key(&origin);
        let new = || History { wrong: Used::none(now), quick: Vec::new() };
        self.histories.entry(if has_room { origin } else { Origin::Others }).or_insert_with(new)
    }
}

impl About {
    fn of(member: Option<&Arc<Member>>) -> About {
        member.map_or(About::Others, |member| About::Account(member.id))
    }
}

/// The end of a login whose password is not hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtOnce {
    Right,
    Wrong,
    /// The address was wrong too often: the password was not compared.
    TooOften,
}
