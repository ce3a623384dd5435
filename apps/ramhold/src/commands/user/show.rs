//! `user list` and `user describe`, as text and as JSON. No password is shown: the cluster does not tell any.

use super::obstacle;
use crate::failure::{Failure, NOT_FOUND};
use crate::global::Global;
use crate::output::{self, Columns, bytes_for_eyes};
use crate::screen::{Screen, WIDTH};
use clap::Args;
use ramhold_access::Selector;
use ramhold_access::rule::Access;
use ramhold_client::Account as Told;
use serde_json::{Value, json};

/// List all accounts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user list
  ramhold user list --json")]
pub struct List;

/// Show how an account logs in, and what it may do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user describe app
  ramhold user describe app --json

Exit codes: 0 the account is shown, 1 there is no such account.")]
pub struct Describe {
    /// Name of the account.
    name: String,
}

impl List {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let accounts = global.connect()?.accounts()?.accounts;
        if global.json {
            return output::print_json(&accounts.iter().map(told_json).collect());
        }
        let mut columns = Columns::new(["account", "state", "passwords", "rules"]);
        for account in &accounts {
            let words: Vec<String> = account.rules.iter().map(|rule| bytes_for_eyes(rule)).collect();
            let state = if has_rule(account, b"on") { "on" } else { "off" };
            let passwords = match account.secrets {
                _ if has_rule(account, b"nopass") => "any".to_owned(),
                count => count.to_string(),
            };
            let is_shown = |word: &&String| !["on", "off", "nopass"].contains(&word.as_str());
            let rules: Vec<&str> = words.iter().filter(is_shown).map(String::as_str).collect();
            columns.row([
                bytes_for_eyes(account.name.as_bytes()),
                state.to_owned(),
                passwords,
                rules.join(" "),
            ]);
        }
        let width = if Screen::of_stdout().is_terminal { WIDTH } else { usize::MAX };
        output::print(&columns.fitted(width))
    }
}

impl Describe {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let accounts = global.connect()?.accounts()?;
        let Some(told) = accounts.accounts.iter().find(|account| account.name == self.name) else {
            let shown = bytes_for_eyes(self.name.as_bytes());
            return Err(Failure::new(NOT_FOUND, obstacle::unknown(&shown, &accounts)));
        };
        if global.json { output::print_json(&told_json(told)) } else { output::print(&text(told)) }
    }
}

fn has_rule(account: &Told, rule: &[u8]) -> bool {
    account.rules.iter().any(|other| other.as_slice() == rule)
}

fn told_json(account: &Told) -> Value {
    // Rules that are no text are rare: a pattern may have any bytes.
    let rule = |rule: &[u8]| match std::str::from_utf8(rule) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": crate::base64::encode(rule) }),
    };
    json!({
        "account": account.name,
        "id": account.id,
        "on": has_rule(account, b"on"),
        "nopass": has_rule(account, b"nopass"),
        "passwords": account.secrets,
        "rules": account.rules.iter().map(|text| rule(text)).collect::<Vec<_>>(),
        "changed": account.changed,
    })
}

fn text(told: &Told) -> String {
    let name = bytes_for_eyes(told.name.as_bytes());
    let mut text = match told.id {
        0 => format!("account '{name}': nobody has changed it\n"),
        id => format!("account '{name}' (id {id}), last changed in version {}\n", told.changed),
    };
    let rules: Vec<Vec<u8>> = told.rules.iter().map(|rule| rule.to_vec()).collect();
    match ramhold_access::Account::told(&told.name, &rules) {
        Ok(account) => {
            text.push_str(&login(&account, told.secrets as usize));
            text.push_str(&abilities(&account));
        }
        // A newer coordinator may know classes that this program does not.
        Err(_) => text.push_str("  this program does not know all of its rules\n"),
    }
    let rules: Vec<String> = rules.iter().map(|rule| bytes_for_eyes(rule)).collect();
    text.push_str(&format!("  rules       {}\n", rules.join(" ")));
    text
}

/// A line that says how somebody becomes the account.
pub fn login(account: &ramhold_access::Account, passwords: usize) -> String {
    let certificates: Vec<&str> = account.certificates().iter().map(String::as_str).collect();
    let mut ways = Vec::new();
    if account.needs_no_secret() && passwords == 0 {
        ways.push("with any password or none".to_owned());
    }
    match passwords {
        0 => {}
        1 => ways.push("with its password".to_owned()),
        count => ways.push(format!("with one of {count} passwords")),
    }
    if !certificates.is_empty() {
        ways.push(format!("with a certificate for {}", certificates.join(", ")));
    }
    let way = match (account.is_on(), ways.is_empty()) {
        (false, _) => "not at all: the account is off".to_owned(),
        (true, true) => "not at all: it has no password".to_owned(),
        (true, false) => ways.join("; "),
    };
    format!("  logs in     {way}\n")
}

/// Lines that say what the account may do.
pub fn abilities(account: &ramhold_access::Account) -> String {
    let mut selectors = account.selectors().iter();
    let mut text = selectors.next().map(|first| selector(first, "all")).unwrap_or_default();
    for further in selectors {
        text.push_str("  or, in one request:\n");
        text.push_str(&selector(further, "those above"));
    }
    text
}

fn selector(selector: &Selector, tables_unsaid: &str) -> String {
    let commands: Vec<String> = selector.commands().iter().map(|change| change.text()).collect();
    let keys: Vec<String> = selector.keys().iter().map(|(access, pattern)| key(*access, pattern)).collect();
    let channels: Vec<String> = selector.channels().iter().map(bytes_for_eyes).collect();
    let tables = match selector.tables() {
        None => tables_unsaid.to_owned(),
        Some(tables) => listed(&tables.iter().map(bytes_for_eyes).collect::<Vec<_>>()),
    };
    let rows = [
        ("commands", listed(&commands)),
        ("keys", listed(&keys)),
        ("channels", listed(&channels)),
        ("tables", tables),
    ];
    rows.iter().map(|(what, which)| format!("  {what:<10}  {which}\n")).collect()
}

fn key(access: Access, pattern: &[u8]) -> String {
    let only = match access {
        Access { reads: true, writes: true } => "",
        Access { reads: true, writes: false } => " (read)",
        Access { reads: false, .. } => " (write)",
    };
    format!("{}{only}", bytes_for_eyes(pattern))
}

fn listed(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rules: &[&[u8]], secrets: u32) -> Told {
        let rules = rules.iter().map(|rule| rule.to_vec().into()).collect();
        Told { id: 3, name: "ann".into(), rules, secrets, changed: 9 }
    }

    // J4
    #[test]
    fn a_description_says_how_an_account_logs_in_and_what_it_may_do() {
        let account =
            told(&[b"on", b"~app:*", b"%R~x\x1b", b"&n.*", b"-@all", b"+@read", b"(~b -@all +set)"], 2);
        assert_eq!(
            text(&account),
            "account 'ann' (id 3), last changed in version 9\n\
             \x20 logs in     with one of 2 passwords\n\
             \x20 commands    +@read\n\
             \x20 keys        app:* x\\u{1b} (read)\n\
             \x20 channels    n.*\n\
             \x20 tables      all\n\
             \x20 or, in one request:\n\
             \x20 commands    +set\n\
             \x20 keys        b\n\
             \x20 channels    none\n\
             \x20 tables      those above\n\
             \x20 rules       on ~app:* %R~x\\u{1b} &n.* -@all +@read (~b -@all +set)\n"
        );
        assert!(text(&told(&[b"on", b"-@all"], 0)).contains("not at all: it has no password"));
        assert!(text(&told(&[b"off", b"-@all"], 1)).contains("not at all: the account is off"));
        assert!(text(&told(&[b"on", b"nopass", b"-@all"], 0)).contains("with any password or none"));
        assert!(
            text(&told(&[b"on", b"cert=CN1"], 1)).contains("with its password; with a certificate for CN1")
        );
        assert!(text(&told(&[b"on", b"+@newer"], 1)).contains("does not know all of its rules"));
    }

    #[test]
    fn json_tells_rules_that_are_no_text_too() {
        let json = told_json(&told(&[b"on", b"~\xff"], 1));
        assert_eq!(
            (&json["on"], &json["nopass"], &json["passwords"]),
            (&true.into(), &false.into(), &1.into())
        );
        assert_eq!(json["rules"], json!(["on", { "base64": "fv8=" }]));
    }
}
