//! `user add` and `user set`: rules are checked here, and applied by the coordinator, all or none.

use super::obstacle::{self, Subject};
use super::password::{Given, PasswordSource};
use super::rules::{Words, check_name};
use super::show::{abilities, login};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_access::Account;
use ramhold_client::{AccountsChanged, Client, Presence};
use serde_json::json;

/// Make an account.
///
/// Without rules it is on and may do nothing. It is asked for a password on the terminal, unless an option gives one, or
/// a rule says how it logs in: nopass, resetpass, off, '#SHA256' or cert=NAME.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user add app --generate '~app:*' +@read +@write
  ramhold user add ann --ask-password '~*' +@all -@admin -@dangerous
  ramhold user add metrics --password-file /run/secrets/metrics +info +ping

Options stand before the rules.

Exit codes: 0 the account is made, 1 there is one with this name, 2 a rule or a
password cannot be used, 3 there are too many accounts.")]
pub struct Add {
    /// Name of the account: 1 to 128 visible ASCII characters without parentheses.
    name: String,
    /// Rules in the syntax of Redis's ACL: +get, +@read, '~app:*', '%R~*', '&news.*', table=db0 [default: on]
    #[arg(value_name = "RULE", allow_hyphen_values = true)]
    rules: Vec<String>,
    #[command(flatten)]
    password: PasswordSource,
}

/// Change an account's rules, or give it a further password.
///
/// All rules are applied, in their order, or none; a password comes behind them. Everything that they do not name stays as it is.
/// Servers hear of the change at once, and connections that are open follow it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user set app '~app2:*' +mget
  ramhold user set app -@dangerous
  ramhold user set app --generate resetpass
  ramhold user set app off
  ramhold user set default resetpass off

Options stand before the rules.

Exit codes: 0 the account is changed, 1 there is no such account or no such
password, 2 a rule or a password cannot be used, 3 the account would be too
large.")]
pub struct Set {
    /// Name of the account.
    name: String,
    /// Rules in the syntax of Redis's ACL: on, off, +get, '~app:*', resetkeys, resetpass, '!SHA256', reset
    #[arg(value_name = "RULE", allow_hyphen_values = true)]
    rules: Vec<String>,
    #[command(flatten)]
    password: PasswordSource,
}

impl Add {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        check_name(&self.name)?;
        let words = Words::check(&self.rules)?;
        // The account is new, so the cluster need not be asked what it may do.
        let account = words.on_new(&self.name)?;
        let given = match self.password.read(&self.name)? {
            Some(given) => Some(given),
            None if words.say_how_to_log_in() => None,
            None => Some(PasswordSource::ask_or_refuse(&self.name)?),
        };
        let mut rules = vec![b"on".to_vec()];
        rules.extend_from_slice(words.rules());
        let done = Done { name: self.name, what: "made", given };
        let mut client = global.connect()?;
        let changed = done.send(&mut client, rules, Presence::New)?;
        done.tell(global, changed, Some(&account))
    }
}

impl Set {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        check_name(&self.name)?;
        let words = Words::check(&self.rules)?;
        let given = self.password.read(&self.name)?;
        if given.is_none() && self.rules.is_empty() {
            return Err(Failure::usage(
                "there is nothing to change: give rules, or a password with --generate, --password-file or --ask-password",
            ));
        }
        let rules = words.rules().to_vec();
        let done = Done { name: self.name, what: "changed", given };
        let mut client = global.connect()?;
        let changed = done.send(&mut client, rules, Presence::Known)?;
        done.tell(global, changed, None)
    }
}

/// A change of one account, and what is told of it.
struct Done {
    name: String,
    what: &'static str,
    given: Option<Given>,
}

impl Done {
    fn send(
        &self,
        client: &mut Client,
        mut rules: Vec<Vec<u8>>,
        presence: Presence,
    ) -> Result<AccountsChanged, Failure> {
        let words = rules.clone();
        rules.extend(self.given.as_ref().map(Given::rule));
        let is_unseen = self.given.as_ref().and_then(Given::generated).is_some();
        let about = |error| {
            let failure = Failure::from(error).about(&format!("account '{}'", self.name));
            if !is_unseen {
                return failure;
            }
            // If the change was made, nobody has seen its password.
            let way_out = format!(
                "if the account is there, give it another password with 'ramhold user set {} --generate resetpass'",
                self.name
            );
            failure.and(&way_out)
        };
        let changed = client.set_account(&self.name, rules, presence).map_err(about)?;
        match changed.obstacle {
            None => Ok(changed),
            Some(obstacle) => {
                Err(obstacle::failure(client, obstacle, &Subject { name: &self.name, rules: &words }))
            }
        }
    }

    fn tell(self, global: &Global, changed: AccountsChanged, made: Option<&Account>) -> Result<(), Failure> {
        let Done { name, what, given } = self;
        let generated = given.as_ref().and_then(Given::generated);
        if global.json {
            let mut told = json!({ "account": name, "version": changed.version });
            if let Some(password) = generated {
                told["password"] = password.into();
            }
            return output::print_json(&told);
        }
        let mut text = format!("account '{name}' is {what}\n");
        if let Some(account) = made {
            let passwords = account.secrets().len() + usize::from(given.is_some());
            text.push_str(&login(account, passwords));
            text.push_str(&abilities(account));
        }
        if let Some(password) = generated {
            text.push_str(&format!("password, shown only now: {password}\n"));
        }
        output::print(&text)
    }
}
