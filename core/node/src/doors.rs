//! The accounts that a server knows, and the logins at its doors.
//!
//! The coordinator tells the accounts with the server list: all of them, whenever they may have changed. A server that cannot
//! hear the coordinator goes on with those that it has.
//!
//! Not here: what a door asks for (`resp`), the decision (`access`). Protocol: docs/protocols/access.md. Catalogue: J4.

use ramhold_access::{Begun, Catalog, Logins, Roster};
use ramhold_base::{Effects, Instant, Level};
use ramhold_resp::Attempt;
use ramhold_wire::accounts::Accounts;
use ramhold_wire::membership::ServerListUpdate;

pub(crate) struct Doors {
    pub roster: Roster,
    pub logins: Logins,
}

impl Doors {
    pub fn new() -> Doors {
        Doors { roster: Roster::new(Doors::catalog()), logins: Logins::default() }
    }

    /// Everything that a rule can name.
    fn catalog() -> Catalog {
        Catalog::new(ramhold_resp::entries())
    }

    /// Takes the accounts that come with a server list. Returns whether they were told. A coordinator of a version without
    /// accounts tells none with a whole list: everybody may do everything, unless this server was told otherwise before.
    pub fn on_list(&mut self, update: &ServerListUpdate, effects: &mut Effects) -> bool {
        let unchanged = Accounts::default();
        let accounts = match &update.accounts {
            Some(accounts) => accounts,
            None if update.from == 0 && self.roster.version().is_none() => &unchanged,
            None => return false,
        };
        let told = accounts.accounts.iter().map(|account| {
            let rules = account.rules.iter().map(|rule| rule.to_vec()).collect();
            (account.id, account.name.as_str(), rules)
        });
        for (name, error) in self.roster.tell(accounts.version, told) {
            let text = format!(
                "account '{}' cannot be used here, because a newer version made its rules: {error}",
                name.escape_debug()
            );
            effects.report(Level::Warn, text);
        }
        true
    }

    pub fn login(&mut self, now: Instant, attempt: Attempt<'_>, effects: &mut Effects) -> Begun {
        let member = self.roster.member(attempt.name);
        self.logins.begin(now, attempt.address, member, attempt.password, effects)
    }
}
