//! Who may try to log in, and how often (J4, Z9).

use ramhold_access::logins::{
    AtOnce, Begun, Logins, PASSWORD_BYTES_MAX, QUICK, UNDER_WAY_MAX, UNDER_WAY_OF_ONE_MAX, Verdict,
    WAITING_MAX, WRONG,
};
use ramhold_access::{Catalog, Member, Roster};
use ramhold_base::{Effect, Effects, Instant, Password, SecretResult, SecretToken, SecretWork};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Logins of the account `ann`, and an executor: the password "right" matches, and was right before if `remembers`.
struct Door {
    logins: Logins,
    ann: Arc<Member>,
    now: Instant,
    works: Vec<(SecretToken, SecretWork)>,
    remembers: bool,
}

fn address(number: u16) -> Option<IpAddr> {
    let [high, low] = number.to_be_bytes();
    Some(IpAddr::from([10, 0, high, low]))
}

impl Door {
    fn new() -> Door {
        let mut roster = Roster::new(Catalog::default());
        let rules = ["on", "secret=stored"].map(|rule| rule.as_bytes().to_vec());
        assert!(roster.tell(1, [(1, "ann", rules.to_vec())]).is_empty());
        let ann = roster.member(b"ann").expect("it was told");
        let ann = Arc::clone(ann);
        Door { logins: Logins::default(), ann, now: Instant(1), works: Vec::new(), remembers: false }
    }

    fn begin(&mut self, from: u16, password: &str) -> Begun {
        let mut effects = Effects::new();
        let begun =
            self.logins.begin(self.now, address(from), Some(&self.ann), password.as_bytes(), &mut effects);
        for effect in effects.list {
            let Effect::Secret { token, work } = effect else { panic!("{effect:?}") };
            self.works.push((token, work));
        }
        begun
    }

    /// Does all work, and gives the verdicts.
    fn finish(&mut self) -> Vec<(SecretToken, Verdict)> {
        let mut verdicts = Vec::new();
        for (token, work) in std::mem::take(&mut self.works) {
            let SecretWork::Match { password, stored, is_bounded } = work else { panic!("{work:?}") };
            let is_right = password == Password::Plain(b"right".to_vec()) && !stored.is_empty();
            let result = match (is_right, is_bounded) {
                (true, false) => SecretResult::Matched(Some(0)),
                (true, true) if self.remembers => SecretResult::Matched(Some(0)),
                (_, true) => SecretResult::Unknown,
                (false, false) => SecretResult::Matched(None),
            };
            verdicts.extend(self.logins.answered(self.now, token, &result));
        }
        verdicts
    }

    /// The verdict on one login.
    fn ask(&mut self, from: u16, password: &str) -> &'static str {
        match self.begin(from, password) {
            Begun::Right(_) => "any",
            Begun::Busy => "busy",
            Begun::TooOften => "too often",
            Begun::Checking(_) => match &self.finish()[..] {
                [(_, verdict)] => name(verdict),
                other => panic!("{other:?}"),
            },
        }
    }
}

fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Right { .. } => "right",
        Verdict::Wrong => "wrong",
        Verdict::Busy => "busy",
        Verdict::TooOften => "too often",
        Verdict::Failed(_) => "failed",
    }
}

// Z9: guesses of one address, also with passwords that the executor remembers, are bounded; those of others go on.
#[test]
fn an_address_guesses_slowly_and_does_not_slow_others() {
    let mut door = Door::new();
    door.remembers = true;
    for guess in 0..WRONG.most {
        assert_eq!(door.ask(1, &guess.to_string()), "wrong");
    }
    assert_eq!(door.ask(1, "guess"), "too often");
    assert_eq!(door.ask(1, "right"), "right", "whoever knows it gets in");
    assert_eq!(door.ask(2, "guess"), "wrong", "another address");
    // Ten hours of guesses as fast as they are answered.
    let (begun, mut compared, mut tried) = (door.now, 0_u32, 0_u32);
    let hours = Duration::from_secs(36_000);
    while door.now < begun + hours {
        let before = door.works.len();
        let said = match door.begin(1, "guess") {
            Begun::Checking(_) => {
                assert!(door.works.len() > before);
                tried += 1;
                name(&door.finish()[0].1)
            }
            Begun::TooOften => "refused",
            other => panic!("{other:?}"),
        };
        compared += u32::from(said == "wrong");
        door.now = door.now + Duration::from_millis(25);
    }
    let most = |allowance: ramhold_access::logins::Allowance| {
        allowance.most + (hours.as_nanos() / allowance.again_after.as_nanos()) as u32
    };
    assert!(compared <= most(WRONG), "{compared} passwords were compared");
    assert!(tried - compared <= most(QUICK), "{tried} passwords were tried");
    door.now = door.now + WRONG.again_after * WRONG.most;
    assert_eq!(door.ask(1, "right"), "right");
}

// A pool of connections comes back with the right password, and nothing is remembered.
#[test]
fn logins_that_are_alike_are_compared_once() {
    let mut door = Door::new();
    let mut waiting: Vec<SecretToken> = Vec::new();
    for _ in 0..500 {
        let Begun::Checking(token) = door.begin(1, "right") else { panic!("refused") };
        waiting.push(token);
    }
    assert_eq!(door.works.len(), 1);
    let verdicts = door.finish();
    assert_eq!(verdicts.iter().map(|(token, _)| *token).collect::<Vec<_>>(), waiting);
    assert!(verdicts.iter().all(|(_, verdict)| name(verdict) == "right"));
    // The same password from elsewhere, and another one from here, are other logins.
    drop((door.begin(1, "right"), door.begin(2, "right"), door.begin(1, "wrong")));
    assert_eq!(door.works.len(), 3);
}

#[test]
fn comparisons_and_logins_under_way_are_bounded() {
    let mut door = Door::new();
    let mut refused = 0;
    for number in 0..1000 {
        refused += usize::from(matches!(door.begin(7, &format!("p{number}")), Begun::Busy | Begun::TooOften));
    }
    let compared = |door: &Door| {
        let is_whole =
            |work: &&(SecretToken, SecretWork)| matches!(work.1, SecretWork::Match { is_bounded: false, .. });
        door.works.iter().filter(is_whole).count()
    };
    assert_eq!(compared(&door), UNDER_WAY_OF_ONE_MAX);
    assert!(refused >= 1000 - UNDER_WAY_OF_ONE_MAX - QUICK.most as usize);
    for number in 0..1000 {
        drop(door.begin(100 + number, "p"));
    }
    assert_eq!(compared(&door), UNDER_WAY_MAX);
    let mut joined = 0;
    while let Begun::Checking(_) = door.begin(7, "p0") {
        joined += 1;
        assert!(joined <= WAITING_MAX);
    }
    let verdicts = door.finish();
    assert!(verdicts.len() <= WAITING_MAX);
    assert!(verdicts.iter().all(|(_, verdict)| matches!(name(verdict), "wrong" | "busy")));
    // A client that is refused for want of room is not told that its password is wrong.
    assert_eq!(door.ask(3000, "right"), "right");
}

// Memory is bounded, and addresses beyond the bound are no way around it.
#[test]
fn addresses_without_number_share_an_allowance() {
    let mut door = Door::new();
    let mut wrong = 0;
    for from in 0..20_000 {
        wrong += u32::from(door.ask(from, "guess") == "wrong");
    }
    assert!((4000..4200).contains(&wrong), "{wrong} were compared");
    door.now = door.now + WRONG.again_after * WRONG.most;
    assert_eq!(door.ask(20_001, "right"), "right", "addresses are forgotten");
}

#[test]
fn a_password_that_is_too_long_is_wrong_and_one_that_is_not_needed_is_not_looked_at() {
    let mut door = Door::new();
    assert_eq!(door.ask(1, &"x".repeat(PASSWORD_BYTES_MAX + 1)), "wrong");
    let mut roster = Roster::unrestricted(Catalog::default());
    door.ann = Arc::clone(roster.of_strangers().expect("nobody has changed it"));
    assert_eq!(door.ask(1, "anything"), "any");
    roster.tell(1, [(1, "default", vec![b"off".to_vec(), b"nopass".to_vec()])]);
    door.ann = Arc::clone(roster.member(b"default").expect("it was told"));
    assert_eq!(door.ask(1, "anything"), "wrong", "an account that is off");
}

// The password of a server itself, which is not hashed.
#[test]
fn a_password_that_is_compared_at_once_is_bounded_as_well() {
    let mut door = Door::new();
    let mut try_at = |now: Instant, is_right: bool| door.logins.compare_at_once(now, address(1), || is_right);
    for _ in 0..WRONG.most {
        assert_eq!(try_at(Instant(1), false), AtOnce::Wrong);
    }
    let mut guesses = 0;
    while try_at(Instant(1), false) == AtOnce::Wrong {
        guesses += 1;
    }
    assert_eq!(guesses, QUICK.most);
    assert_eq!(try_at(Instant(1), true), AtOnce::TooOften, "not even the right one is told");
    assert_eq!(try_at(Instant(1) + QUICK.again_after, true), AtOnce::Right);
    // A client that was wrong for an hour is forgiven as soon as any other.
    let mut now = Instant(1);
    for _ in 0..36_000 {
        now = now + Duration::from_millis(100);
        try_at(now, false);
    }
    now = now + WRONG.again_after;
    assert_eq!(try_at(now, false), AtOnce::Wrong);
    now = now + WRONG.again_after * WRONG.most;
    let guesses = (0..).take_while(|_| try_at(now, false) == AtOnce::Wrong).count();
    assert_eq!(guesses, (WRONG.most + QUICK.most) as usize);
}

// A client with a wrong password does not keep those of other accounts at its address out, nor right ones of its own from
// coming back together.
#[test]
fn quick_attempts_are_counted_for_each_account_and_right_ones_are_not_counted() {
    let mut door = Door::new();
    door.remembers = true;
    while door.ask(1, "guess") != "too often" {}
    let mut roster = Roster::new(Catalog::default());
    let rules = || ["on", "secret=other"].map(|rule| rule.as_bytes().to_vec()).to_vec();
    assert!(roster.tell(1, [(2, "bob", rules())]).is_empty());
    while !matches!(door.begin(1, "guess"), Begun::TooOften) {
        door.finish();
    }
    let ann = std::mem::replace(&mut door.ann, Arc::clone(roster.member(b"bob").expect("it was told")));
    for _ in 0..1000 {
        assert_eq!(door.ask(1, "right"), "right");
    }
    door.ann = ann;
    assert!(matches!(door.begin(1, "right"), Begun::TooOften));
}

// One customer of a network has 2^64 addresses of version 6, and addresses of version 4 may be written as such.
#[test]
fn addresses_of_one_network_are_one() {
    let mut door = Door::new();
    let mut try_from = |text: &str| {
        let address = text.parse().ok();
        assert!(address.is_some(), "{text}");
        door.logins.compare_at_once(Instant(1), address, || false)
    };
    let mut guesses = 0;
    while try_from(&format!("2001:db8:1:2::{guesses:x}")) == AtOnce::Wrong {
        guesses += 1;
    }
    assert_eq!(guesses, WRONG.most + QUICK.most);
    assert_eq!(try_from("2001:db8:1:3::1"), AtOnce::Wrong);
    for number in 0..50 {
        assert_eq!(try_from(&format!("::ffff:10.0.0.{number}")), AtOnce::Wrong, "{number}");
    }
    while try_from("::ffff:10.0.0.1") == AtOnce::Wrong {}
    assert_eq!(try_from("10.0.0.1"), AtOnce::TooOften);
}
