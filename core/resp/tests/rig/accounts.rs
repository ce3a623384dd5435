//! Accounts beside the front: the process's roster and logins, and a coordinator that changes accounts.

use ramhold_access::{Account, Begun, Logins, PasswordChange, Roster};
use ramhold_base::*;
use ramhold_resp::Attempt;
use ramhold_wire::accounts::{AccountObstacle, AccountRemove, AccountSet, AccountsChanged};
use ramhold_wire::control::decode;
use std::collections::BTreeMap;

/// The accounts as the coordinator keeps them, and as this process was told them.
pub struct Accounts {
    pub roster: Roster,
    pub logins: Logins,
    kept: BTreeMap<String, (u64, Account)>,
    version: u64,
    /// Work with passwords that is not done yet.
    pub secrets: Vec<(SecretToken, SecretWork)>,
    /// Passwords that were right before.
    remembered: Vec<Vec<u8>>,
    /// The process is told of a change only when the test says so.
    pub is_told_late: bool,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            roster: Roster::unrestricted(ramhold_resp::catalog()),
            logins: Logins::default(),
            kept: BTreeMap::new(),
            version: 0,
            secrets: Vec::new(),
            remembered: Vec::new(),
            is_told_late: false,
        }
    }
}

impl Accounts {
    pub fn login(&mut self, now: Instant, attempt: Attempt<'_>, effects: &mut Effects) -> Begun {
        let member = self.roster.member(attempt.name);
        self.logins.begin(now, attempt.address, member, attempt.password, effects)
    }

    /// Tells this process all accounts. Returns whether there was news.
    pub fn tell(&mut self) -> bool {
        let told = self.kept.iter().map(|(name, (id, account))| (*id, name.as_str(), account.rules()));
        let is_news = self.roster.version() != Some(self.version);
        assert!(self.roster.tell(self.version, told).is_empty());
        is_news
    }

    /// Changes an account by words with plain passwords.
    pub fn set(&mut self, name: &str, words: &[&str]) -> AccountsChanged {
        let rules = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.apply(name, rules)
    }

    pub fn on_set(&mut self, body: &[u8]) -> AccountsChanged {
        let AccountSet { name, rules, .. } = decode(body).unwrap();
        self.apply(&name, rules.into_iter().map(Vec::from).collect())
    }

    fn apply(&mut self, name: &str, rules: Vec<Vec<u8>>) -> AccountsChanged {
        let refused = |obstacle| AccountsChanged { version: 0, count: 0, obstacle: Some(obstacle) };
        let (id, mut account) = match self.kept.get(name) {
            Some(kept) => kept.clone(),
            None if name == "default" => (self.version + 1, Account::unrestricted()),
            None => (self.version + 1, Account::new(name).unwrap()),
        };
        let (change, work) = PasswordChange::take(rules, account.secrets()).unwrap();
        let rules = match work.map(|work| self.carry_out(&work)) {
            None => change.without_passwords(),
            Some(SecretResult::Prepared { added, found }) => change.put_back(&added, &found),
            Some(other) => panic!("{other:?}"),
        };
        let Ok(rules) = rules else { return refused(AccountObstacle::NoSuchPassword) };
        if account.set_rules(&rules).is_err() {
            return refused(AccountObstacle::Rule);
        }
        self.version += 1;
        self.kept.insert(name.to_owned(), (id, account));
        AccountsChanged { version: self.version, count: 1, obstacle: None }
    }

    pub fn on_remove(&mut self, body: &[u8]) -> AccountsChanged {
        let AccountRemove { names } = decode(body).unwrap();
        let count = names.iter().filter(|name| self.kept.remove(*name).is_some()).count() as u32;
        self.version += 1;
        AccountsChanged { version: self.version, count, obstacle: None }
    }

    /// Does work with passwords, with a stand-in for hashing.
    pub fn carry_out(&mut self, work: &SecretWork) -> SecretResult {
        let hash = |password: &Password| match password {
            Password::Plain(plain) => {
                format!("stored-{}", plain.escape_ascii().to_string().replace(' ', "_"))
            }
            Password::Sha256(hash) => hash.clone(),
        };
        match work {
            SecretWork::Match { password: Password::Plain(plain), is_bounded: true, .. }
                if !self.remembered.contains(plain) =>
            {
                SecretResult::Unknown
            }
            SecretWork::Match { password, stored, .. } => {
                let place = stored.iter().position(|stored| *stored == hash(password));
                if let (Password::Plain(plain), Some(_)) = (password, place) {
                    self.remembered.push(plain.clone());
                }
                SecretResult::Matched(place)
            }
            SecretWork::Prepare { add, find, stored } => SecretResult::Prepared {
                added: add.iter().map(hash).collect(),
                found: find
                    .iter()
                    .map(|password| stored.iter().position(|stored| *stored == hash(password)))
                    .collect(),
            },
            SecretWork::Random { bytes } => SecretResult::Random(vec![0xA5; usize::from(*bytes)]),
        }
    }
}
