//! `ramhold user`: accounts, and what they may do (J4).
//!
//! The coordinator keeps accounts and hashes passwords. Here rules are checked before they are sent, and passwords are read
//! from where no other user of this machine sees them.
//!
//! Protocol: docs/protocols/access.md.

mod change;
mod generated;
mod obstacle;
mod password;
mod remove;
mod rules;
mod show;
mod typed;

use crate::failure::Failure;
use crate::global::Global;
use change::{Add, Set};
use clap::{Args, Subcommand};
use remove::Remove;
use show::{Describe, List};

/// Add, change, show and remove accounts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user add app --generate '~app:*' +@read +@write
  ramhold user set app -@dangerous
  ramhold user list
  ramhold user describe app
  ramhold user remove app

Rules have the syntax of Redis's ACL. The account 'default' is that of all
clients that do not log in; until it is changed it may do everything.")]
pub struct User {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand, Debug)]
enum UserCommand {
    Add(Add),
    Set(Set),
    List(List),
    Describe(Describe),
    Remove(Remove),
}

impl User {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            UserCommand::Add(add) => add.run(global),
            UserCommand::Set(set) => set.run(global),
            UserCommand::List(list) => list.run(global),
            UserCommand::Describe(describe) => describe.run(global),
            UserCommand::Remove(remove) => remove.run(global),
        }
    }
}
