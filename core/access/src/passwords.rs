//! Takes the passwords out of a change, and puts back how they are stored.
//!
//! A password is hashed outside of the event loop before an account takes it. So its rule leaves the change meanwhile, and
//! comes back at the same place as `secret=` or `unsecret=`: the order of rules counts (`resetpass >new`, `>new nopass`).
//!
//! A password that is to be removed is looked for among those that the account has before the change. A change that adds
//! a password and removes the same one is refused, therefore.
//!
//! Invariant: the rules that come back hold no password that is not stored already or to be stored.
//!
//! Not here: hashing and comparing (`base::secret`), the effect of rules (`account`). Catalogue: J4.

use crate::limits::{PASSWORD_WORK_MAX, RULE_COUNT_MAX};
use crate::rule::{Rule, RuleFault, Secret};
use ramhold_base::{Password, SecretWork};
use std::fmt;

/// A change whose passwords have been taken out.
pub struct PasswordChange {
    /// Those with passwords are empty.
    rules: Vec<Vec<u8>>,
    /// The places of passwords that are added, and of those that are removed.
    added: Vec<usize>,
    removed: Vec<usize>,
    /// The passwords of the account as it was.
    stored: Vec<String>,
}

impl PasswordChange {
    /// Takes the passwords out of whole rules. `stored` are the account's own. The work is none if the rules have no
    /// passwords.
    pub fn take(
        mut rules: Vec<Vec<u8>>,
        stored: &[String],
    ) -> Result<(PasswordChange, Option<SecretWork>), RuleFault> {
        if rules.len() > RULE_COUNT_MAX {
            return Err(RuleFault::TooMany("rules in one change", RULE_COUNT_MAX));
        }
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let (mut add, mut find) = (Vec::new(), Vec::new());
        for (place, text) in rules.iter_mut().enumerate() {
            let (secret, places, passwords) = match Rule::parse(text, None)? {
                Rule::AddSecret(secret) => (secret, &mut added, &mut add),
                Rule::RemoveSecret(secret) => (secret, &mut removed, &mut find),
                _ => continue,
            };
            let password = match secret {
                Secret::Password(plain) => Password::Plain(plain),
                Secret::Sha256(hash) => Password::Sha256(hash),
                Secret::Stored(_) => continue,
            };
            text.clear();
            places.push(place);
            passwords.push(password);
        }
        if (add.len() + find.len()) * (stored.len() + 1) > PASSWORD_WORK_MAX {
            return Err(RuleFault::TooMany("hashes in one change", PASSWORD_WORK_MAX));
        }
        let has_work = !(add.is_empty() && find.is_empty());
        let work = has_work.then(|| SecretWork::Prepare { add, find, stored: stored.to_vec() });
        Ok((PasswordChange { rules, added, removed, stored: stored.to_vec() }, work))
    }

    /// The rules, if none of them had a password.
    pub fn without_passwords(self) -> Result<Vec<Vec<u8>>, RuleFault> {
        let is_complete = self.added.is_empty() && self.removed.is_empty();
        if is_complete { Ok(self.rules) } else { Err(RuleFault::NotHashed) }
    }

    /// The rules with all passwords as they are stored. `added` and `found` are those of `SecretResult::Prepared`.
    pub fn put_back(mut self, added: &[String], found: &[Option<usize>]) -> Result<Vec<Vec<u8>>, RuleFault> {
        if added.len() != self.added.len() || found.len() != self.removed.len() {
            return Err(RuleFault::NotHashed);
        }
        for (place, secret) in self.added.iter().zip(added) {
            self.rules[*place] = format!("secret={secret}").into_bytes();
        }
        for (place, found) in self.removed.iter().zip(found) {
            let secret = found.and_then(|at| self.stored.get(at)).ok_or(RuleFault::NoSuchSecret)?;
            self.rules[*place] = format!("unsecret={secret}").into_bytes();
        }
        Ok(self.rules)
    }
}

/// Stored passwords are not shown.
impl fmt::Debug for PasswordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordChange {{ {} rules }}", self.rules.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;

    fn rules(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    fn texts(rules: &[Vec<u8>]) -> Vec<String> {
        rules.iter().map(|rule| String::from_utf8_lossy(rule).into_owned()).collect()
    }

    fn stored(secrets: &[&str]) -> Vec<String> {
        secrets.iter().map(|secret| (*secret).to_owned()).collect()
    }

    const HASH: &str = "ABCDEFabcdef0123456789abcdef0123456789abcdef0123456789abcdef0123";

    #[test]
    fn passwords_leave_a_change_and_come_back_stored_at_their_places() {
        let own = stored(&["s1", "s2"]);
        let words = rules(&["RESETPASS", ">new", &format!("#{HASH}"), "+get", "<old", &format!("!{HASH}")]);
        let (change, work) = PasswordChange::take(words, &own).expect("these are rules");
        let sha = || Password::Sha256(HASH.to_ascii_lowercase());
        let expected = SecretWork::Prepare {
            add: vec![Password::Plain(b"new".to_vec()), sha()],
            find: vec![Password::Plain(b"old".to_vec()), sha()],
            stored: own,
        };
        assert!(work == Some(expected));
        let back = change.put_back(&stored(&["n1", "n2"]), &[Some(1), Some(0)]).expect("all are found");
        let expected = ["RESETPASS", "secret=n1", "secret=n2", "+get", "unsecret=s2", "unsecret=s1"];
        assert_eq!(texts(&back), expected);
    }

    #[test]
    fn a_change_without_passwords_stays_as_it_is() {
        let words = rules(&["on", "secret=x", "unsecret=y", "(+get ~a)"]);
        let (change, work) = PasswordChange::take(words.clone(), &[]).expect("these are rules");
        assert!(work.is_none());
        assert_eq!(change.without_passwords(), Ok(words));
        let (change, _) = PasswordChange::take(rules(&[">new"]), &[]).expect("these are rules");
        assert_eq!(change.without_passwords(), Err(RuleFault::NotHashed));
    }

    #[test]
    fn a_password_that_is_not_found_or_not_there_any_more_changes_nothing() {
        let own = stored(&["s1"]);
        let take = || PasswordChange::take(rules(&["on", "<old"]), &own).expect("these are rules").0;
        assert_eq!(take().put_back(&[], &[None]), Err(RuleFault::NoSuchSecret));
        assert_eq!(take().put_back(&[], &[Some(1)]), Err(RuleFault::NoSuchSecret), "no such place");
        assert_eq!(take().put_back(&[], &[]), Err(RuleFault::NotHashed), "not the answer to this work");
        // It was found, and another change has removed it meanwhile.
        let back = take().put_back(&[], &[Some(0)]).expect("it is found");
        let mut account = Account::new("a").expect("a name");
        assert!(account.set_rules(&back).is_err());
        assert!(!account.is_on(), "all rules or none");
        account.set_rules(&rules(&["secret=s1"])).expect("a rule");
        account.set_rules(&back).expect("the password is there");
        assert!(account.is_on() && account.secrets().is_empty());
    }

    #[test]
    fn the_work_of_one_change_is_bounded() {
        let own: Vec<String> = (0..16).map(|n| format!("s{n}")).collect();
        let words = |adds, removes| [vec![b">a".to_vec(); adds], vec![b"<a".to_vec(); removes]].concat();
        let fault = |adds, removes| PasswordChange::take(words(adds, removes), &own).err();
        assert_eq!(fault(4, 3), None);
        assert_eq!(fault(4, 4), Some(RuleFault::TooMany("hashes in one change", PASSWORD_WORK_MAX)));
        let many = vec![b"on".to_vec(); RULE_COUNT_MAX + 1];
        assert!(PasswordChange::take(many, &[]).is_err());
    }

    #[test]
    fn a_fault_is_found_before_anything_is_hashed() {
        assert_eq!(PasswordChange::take(rules(&[">new", "no-rule"]), &[]).err(), Some(RuleFault::Syntax));
        assert_eq!(PasswordChange::take(rules(&["#12"]), &[]).err(), Some(RuleFault::NoSha256));
    }
}
