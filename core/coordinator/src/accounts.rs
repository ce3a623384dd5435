//! Accounts: operators make, change and remove them, and all servers are told.
//!
//! A change without passwords is carried out at once. Passwords are hashed first, which takes long on purpose and is done
//! by the executor: the request waits, as in `weighing`. A client that repeats it meanwhile replaces only where to answer.
//! Then the change is carried out like any update, once. It is applied to the account as it is by then, since another
//! change may have come first.
//!
//! The account `default` is there without a record, and unrestricted, until somebody changes it.
//!
//! Invariants:
//! - a change is applied whole or not at all;
//! - no record, result or report has a password that is not hashed;
//! - the requests that wait are bounded, and so are accounts and the bytes of their rules.
//!
//! Not here: the meaning of rules (`access`), telling and showing (`roster`, `desk`).
//! Protocol: docs/protocols/access.md, "Keeping and telling". Catalogue: J4, G1.

use crate::desk::Desk;
use crate::leases::Leases;
use crate::progress::Progress;
use crate::records::{AccountRecord, Key, UpdateResult};
use crate::state::State;
use crate::updates;
use minicbor::bytes::ByteVec;
use ramhold_access::account::DEFAULT;
use ramhold_access::limits::{ACCOUNT_COUNT_MAX, ACCOUNT_RULE_BYTES_MAX};
use ramhold_access::{Account, AccountError, PasswordChange, RuleFault};
use ramhold_base::{ConnId, Level, Peer, SecretResult, SecretToken, SecretWork, Status};
use ramhold_wire::Header;
use ramhold_wire::accounts::{AccountObstacle, AccountRemove, AccountSet, Presence};
use std::collections::BTreeMap;

/// The most requests whose passwords are being hashed. Further requests are not answered, and clients repeat them.
const WAITING_COUNT_MAX: usize = 64;

/// Changes whose passwords are being hashed.
#[derive(Debug, Default)]
pub(crate) struct AccountChanges {
    last_token: u64,
    waiting: BTreeMap<SecretToken, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    from: ConnId,
    header: Header,
    which: Which,
    change: PasswordChange,
}

/// The account that a change is about.
#[derive(Debug)]
struct Which {
    name: String,
    presence: Presence,
}

impl AccountChanges {
    pub fn on_account_set(
        &mut self,
        desk: &mut Desk,
        leases: &mut Leases,
        progress: &mut Progress,
        from: ConnId,
        header: &Header,
        message: AccountSet,
    ) -> Result<(), Status> {
        let is_first = updates::is_first(desk, header);
        if is_first && let Some(before) = self.waiting_as(header) {
            (before.from, before.header) = (from, *header);
            return Ok(());
        }
        let AccountSet { name, rules, presence } = message;
        let which = Which { name, presence };
        let rules = rules.into_iter().map(Vec::from).collect();
        match take_passwords(&desk.state, &which, rules) {
            Ok((change, Some(work))) if is_first => {
                self.wait(desk, Waiting { from, header: *header, which, change }, work);
                Ok(())
            }
            taken => updates::on_update(desk, leases, progress, from, header, |desk, _| {
                let rules = taken.and_then(|(change, _)| change.without_passwords().map_err(obstacle));
                Ok(settled(rules.and_then(|rules| set_account(desk, &which, &rules))))
            }),
        }
    }

    fn waiting_as(&mut self, header: &Header) -> Option<&mut Waiting> {
        let number = |header: &Header| (header.lease, header.sequence);
        self.waiting.values_mut().find(|waiting| number(&waiting.header) == number(header))
    }

    fn wait(&mut self, desk: &mut Desk, waiting: Waiting, work: SecretWork) {
        if self.waiting.len() >= WAITING_COUNT_MAX {
            return;
        }
        self.last_token += 1;
        let token = SecretToken(self.last_token);
        self.waiting.insert(token, waiting);
        desk.outbox.work_with_secrets(token, work);
    }

    /// The passwords of a change are hashed.
    pub fn on_secret(
        &mut self,
        desk: &mut Desk,
        leases: &mut Leases,
        progress: &mut Progress,
        token: SecretToken,
        result: SecretResult,
    ) {
        let Some(Waiting { from, header, which, change }) = self.waiting.remove(&token) else { return };
        let changed = updates::on_update(desk, leases, progress, from, &header, |desk, _| {
            let rules = match result {
                SecretResult::Prepared { added, found } => change.put_back(&added, &found),
                SecretResult::Failed(why) => {
                    let name = which.name.escape_default();
                    let text = format!("the passwords of account '{name}' cannot be stored: {why}");
                    desk.outbox.report(Level::Warn, text);
                    return Err(Status::Retry);
                }
                SecretResult::Matched(_) | SecretResult::Unknown | SecretResult::Random(_) => {
                    return Err(Status::Retry);
                }
            };
            Ok(settled(rules.map_err(obstacle).and_then(|rules| set_account(desk, &which, &rules))))
        });
        if let Err(status) = changed {
            desk.outbox.reply(Peer::Conn(from), &header, status);
        }
    }
}

fn settled(changed: Result<UpdateResult, AccountObstacle>) -> UpdateResult {
    changed.unwrap_or_else(UpdateResult::AccountsKept)
}

/// The passwords of a change, which are to be hashed before it can be carried out. A change that is refused anyway is
/// refused here.
fn take_passwords(
    state: &State,
    which: &Which,
    rules: Vec<Vec<u8>>,
) -> Result<(PasswordChange, Option<SecretWork>), AccountObstacle> {
    let account = present(state, which)?;
    PasswordChange::take(rules, account.secrets()).map_err(obstacle)
}

/// The account as it is before a change: a new one if there is none, and an unrestricted one if nobody has changed
/// `default` yet.
fn present(state: &State, which: &Which) -> Result<Account, AccountObstacle> {
    let Which { name, presence } = which;
    let known = match state.account_named(name) {
        Some(record) => {
            Some(record.account().expect("what is stored was made of an account, or was checked"))
        }
        None if name == DEFAULT => Some(Account::unrestricted()),
        None => None,
    };
    match (known, presence) {
        (Some(_), Presence::New) => Err(AccountObstacle::Exists),
        (Some(account), Presence::Any | Presence::Known) => Ok(account),
        (None, Presence::Known) => {
            Account::new(name).map_err(refusal)?;
            Err(AccountObstacle::Unknown)
        }
        (None, Presence::Any | Presence::New) => Account::new(name).map_err(refusal),
    }
}

/// Applies rules without plain passwords, all or none.
fn set_account(desk: &mut Desk, which: &Which, rules: &[Vec<u8>]) -> Result<UpdateResult, AccountObstacle> {
    let mut account = present(&desk.state, which)?;
    account.set_rules(rules).map_err(refusal)?;
    let before = desk.state.account_named(&which.name).map(|record| record.id);
    let version = desk.state.meta.accounts + 1;
    let record = AccountRecord {
        id: before.unwrap_or(version),
        name: which.name.clone(),
        rules: account.rules().into_iter().map(ByteVec::from).collect(),
        changed: version,
    };
    let others = || desk.state.accounts.values().filter(|other| Some(other.id) != before);
    let bytes: usize = others().map(AccountRecord::rule_bytes).sum();
    if others().count() >= ACCOUNT_COUNT_MAX || bytes + record.rule_bytes() > ACCOUNT_RULE_BYTES_MAX {
        return Err(AccountObstacle::TooMany);
    }
    let is_made = before.is_none() && which.name != DEFAULT;
    let what = if is_made { "made" } else { "changed" };
    report(desk, &which.name, what);
    let id = record.id;
    desk.state.accounts.insert(id, record);
    enter_version(desk, version, &[id]);
    Ok(UpdateResult::AccountsChanged(version, 1))
}

/// Removes all accounts with these names; none if `default` is among them.
pub(crate) fn remove_accounts(desk: &mut Desk, message: &AccountRemove) -> UpdateResult {
    if message.names.iter().any(|name| name == DEFAULT) {
        return UpdateResult::AccountsKept(AccountObstacle::IsDefault);
    }
    let named = desk.state.accounts.values().filter(|account| message.names.contains(&account.name));
    let ids: Vec<u64> = named.map(|account| account.id).collect();
    if ids.is_empty() {
        return UpdateResult::AccountsChanged(desk.state.meta.accounts, 0);
    }
    for id in &ids {
        if let Some(record) = desk.state.accounts.remove(id) {
            report(desk, &record.name, "removed");
        }
    }
    let version = desk.state.meta.accounts + 1;
    enter_version(desk, version, &ids);
    let count = u32::try_from(ids.len()).expect("there are at most ACCOUNT_COUNT_MAX accounts");
    UpdateResult::AccountsChanged(version, count)
}

/// These accounts are new, different or gone from this version of all accounts on, and all servers are to be told.
fn enter_version(desk: &mut Desk, version: u64, ids: &[u64]) {
    desk.state.meta.accounts = version;
    for id in ids {
        desk.outbox.touch(Key::Account(*id));
    }
    desk.accounts_changed();
}

fn report(desk: &mut Desk, name: &str, what: &str) {
    desk.outbox.report(Level::Info, format!("account '{}' was {what}", name.escape_default()));
}

fn refusal(error: AccountError) -> AccountObstacle {
    match error {
        AccountError::Name => AccountObstacle::Name,
        AccountError::Rule { fault, .. } => obstacle(fault),
    }
}

fn obstacle(fault: RuleFault) -> AccountObstacle {
    match fault {
        RuleFault::NoSuchSecret => AccountObstacle::NoSuchPassword,
        RuleFault::TooMany(..) => AccountObstacle::TooLarge,
        RuleFault::Syntax
        | RuleFault::TooLong
        | RuleFault::UnknownCommand(_)
        | RuleFault::UnknownClass(_)
        | RuleFault::AfterAll
        | RuleFault::NotInSelector
        | RuleFault::UnclosedSelector
        | RuleFault::NoSha256
        | RuleFault::NotHashed => AccountObstacle::Rule,
    }
}
