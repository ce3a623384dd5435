//! Why the coordinator did not change accounts, and the way out.

use super::rules::sentence;
use crate::connection::alike;
use crate::failure::{Failure, NOT_FOUND, REFUSED, USAGE};
use ramhold_access::Account;
use ramhold_client::{AccountObstacle, Accounts, Client};

/// The account that was to be changed, and the rules without the password.
pub struct Subject<'a> {
    pub name: &'a str,
    pub rules: &'a [Vec<u8>],
}

/// The reason. The cluster is asked again for what the answer does not tell.
pub fn failure(client: &mut Client, obstacle: AccountObstacle, subject: &Subject<'_>) -> Failure {
    let accounts = client.accounts().unwrap_or_default();
    let (code, why) = match obstacle {
        AccountObstacle::Exists => {
            (NOT_FOUND, format!("there is an account '{0}'; change it with 'ramhold user set {0}'", subject.name))
        }
        AccountObstacle::Unknown => (NOT_FOUND, unknown(subject.name, &accounts)),
        AccountObstacle::Rule => (USAGE, wrong_rule(subject, &accounts)),
        AccountObstacle::NoSuchPassword => (
            NOT_FOUND,
            format!("account '{}' has no such password; 'resetpass' removes all it has", subject.name),
        ),
        AccountObstacle::TooLarge => (
            REFUSED,
            format!(
                "account '{}' would have too many rules, patterns or passwords, or the change has; use patterns that \
                 take more, or 'reset' first",
                subject.name
            ),
        ),
        AccountObstacle::TooMany => (
            REFUSED,
            "the cluster has as many accounts, or rules of accounts, as it can have; remove some with 'ramhold user remove'"
                .to_owned(),
        ),
        AccountObstacle::Name | AccountObstacle::IsDefault => (REFUSED, obstacle.to_string()),
    };
    Failure::new(code, format!("nothing is changed: {why}"))
}

/// There is no account of this name; with the one that was probably meant.
pub fn unknown(name: &str, accounts: &Accounts) -> String {
    let meant = alike(name, accounts.accounts.iter().map(|account| account.name.as_str()));
    match meant {
        Some(meant) => format!("there is no account '{name}'; did you mean '{meant}'?"),
        None => format!("there is no account '{name}'; 'ramhold user list' shows all accounts"),
    }
}

/// The rule that cannot be applied, found by applying all of them to the account as it is told.
fn wrong_rule(subject: &Subject<'_>, accounts: &Accounts) -> String {
    let told = accounts.accounts.iter().find(|account| account.name == subject.name);
    let rules: Vec<Vec<u8>> =
        told.into_iter().flat_map(|account| &account.rules).map(|rule| rule.to_vec()).collect();
    let error = Account::told(subject.name, &rules).and_then(|mut account| account.set_rules(subject.rules));
    match error {
        Err(error) => sentence(&error),
        Ok(()) => {
            "a rule cannot be applied; the coordinator may be of another version than this program".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // J4
    #[test]
    fn an_unknown_account_and_a_wrong_rule_are_named() {
        let rules = ["on", "~*", "-@all"].map(|rule| rule.as_bytes().to_vec().into()).into();
        let ann = ramhold_client::Account { id: 1, name: "annie".into(), rules, secrets: 1, changed: 1 };
        let accounts = Accounts { version: 1, accounts: vec![ann] };
        assert_eq!(unknown("anni", &accounts), "there is no account 'anni'; did you mean 'annie'?");
        assert!(unknown("x", &accounts).contains("'ramhold user list'"));
        let rules = [b"+get".to_vec(), b"~a".to_vec()];
        let told = wrong_rule(&Subject { name: "annie", rules: &rules }, &accounts);
        assert!(told.starts_with("rule '~a': Adding a pattern after"), "{told}");
        let told = wrong_rule(&Subject { name: "annie", rules: &rules[..1] }, &accounts);
        assert!(told.contains("another version"), "{told}");
    }
}
