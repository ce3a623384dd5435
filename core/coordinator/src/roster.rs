//! All accounts, as servers are told of them and as operators are shown them.
//!
//! Invariant: an operator is shown no password, stored or not.
//!
//! Not here: changes (`accounts`), when servers are told (`desk`). Protocol: docs/protocols/access.md. Catalogue: J4.

use crate::records::AccountRecord;
use crate::state::State;
use minicbor::bytes::ByteVec;
use ramhold_access::account::DEFAULT;
use ramhold_wire::accounts::{Account, Accounts};

const SECRET: &[u8] = b"secret=";

impl State {
    pub fn account_named(&self, name: &str) -> Option<&AccountRecord> {
        self.accounts.values().find(|account| account.name == name)
    }
}

/// All accounts for servers, with stored passwords. `default` is among them only if somebody has changed it.
pub(crate) fn told_accounts(state: &State) -> Accounts {
    let told = |record: &AccountRecord| told(record, |_| true);
    Accounts { version: state.meta.accounts, accounts: state.accounts.values().map(told).collect() }
}

/// All accounts for operators. `default` always is among them, with the id 0 if nobody has changed it.
pub(crate) fn shown_accounts(state: &State) -> Accounts {
    let has_default = state.account_named(DEFAULT).is_some();
    let default = (!has_default).then(|| {
        let rules = ramhold_access::Account::unrestricted().shown_rules();
        let rules = rules.into_iter().map(ByteVec::from).collect();
        Account { id: 0, name: DEFAULT.to_owned(), rules, secrets: 0, changed: 0 }
    });
    let shown = |record: &AccountRecord| told(record, |rule| !is_secret(rule));
    let accounts = default.into_iter().chain(state.accounts.values().map(shown)).collect();
    Accounts { version: state.meta.accounts, accounts }
}

fn told(record: &AccountRecord, is_told: impl Fn(&ByteVec) -> bool) -> Account {
    let secrets = record.rules.iter().filter(|rule| is_secret(rule)).count();
    Account {
        id: record.id,
        name: record.name.clone(),
        rules: record.rules.iter().filter(|rule| is_told(rule)).cloned().collect(),
        secrets: u32::try_from(secrets).unwrap_or(u32::MAX),
        changed: record.changed,
    }
}

/// Whether this rule of an account holds a stored password.
fn is_secret(rule: &[u8]) -> bool {
    rule.get(..SECRET.len()).is_some_and(|start| start.eq_ignore_ascii_case(SECRET))
}
