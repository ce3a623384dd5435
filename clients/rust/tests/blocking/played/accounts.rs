//! The accounts of a played cluster: they keep rules as they were given, and count passwords.
//!
//! A password with a space or a line feed in it is refused, so that a test finds one that was not read as it should be.

use ramhold_wire::accounts::*;

#[derive(Default)]
pub struct PlayedAccounts {
    version: u64,
    accounts: Vec<Account>,
}

impl PlayedAccounts {
    pub fn list(&self) -> Accounts {
        let rules = ["on", "nopass", "~*", "&*", "+@all"].map(|rule| rule.as_bytes().to_vec().into()).into();
        let default = Account { id: 0, name: "default".into(), rules, secrets: 0, changed: 0 };
        let accounts = [default].into_iter().chain(self.accounts.iter().cloned()).collect();
        Accounts { version: self.version, accounts }
    }

    pub fn set(&mut self, message: AccountSet) -> AccountsChanged {
        let AccountSet { name, rules, presence } = message;
        let known = self.accounts.iter().position(|account| account.name == name);
        match (known, presence) {
            (Some(_), Presence::New) => return kept(AccountObstacle::Exists),
            (None, Presence::Known) => return kept(AccountObstacle::Unknown),
            _ => {}
        }
        let is_password = |rule: &[u8]| rule.starts_with(b">") || rule.starts_with(b"#");
        if rules.iter().any(|rule| rule.starts_with(b"!")) {
            return kept(AccountObstacle::NoSuchPassword);
        }
        if rules.iter().any(|rule| is_password(rule) && rule.iter().any(u8::is_ascii_whitespace)) {
            return kept(AccountObstacle::Rule);
        }
        self.version += 1;
        let at = known.unwrap_or_else(|| {
            let account = Account { id: self.version, name, rules: Vec::new(), secrets: 0, changed: 0 };
            self.accounts.push(account);
            self.accounts.len() - 1
        });
        let account = &mut self.accounts[at];
        account.changed = self.version;
        for rule in rules {
            if is_password(&rule) {
                account.secrets += 1;
            } else {
                account.rules.push(rule);
            }
        }
        AccountsChanged { version: self.version, count: 1, obstacle: None }
    }

    pub fn remove(&mut self, message: AccountRemove) -> AccountsChanged {
        if message.names.iter().any(|name| name == "default") {
            return kept(AccountObstacle::IsDefault);
        }
        let before = self.accounts.len();
        self.accounts.retain(|account| !message.names.contains(&account.name));
        let count = u32::try_from(before - self.accounts.len()).expect("there are few accounts");
        self.version += u64::from(count > 0);
        AccountsChanged { version: self.version, count, obstacle: None }
    }
}

fn kept(obstacle: AccountObstacle) -> AccountsChanged {
    AccountsChanged { version: 0, count: 0, obstacle: Some(obstacle) }
}
