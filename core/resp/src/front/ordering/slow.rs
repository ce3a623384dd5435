//! Commands about accounts that are under way: what they wait for.
//!
//! Not here: how they go on (`logins`, `accounts`).

use crate::{Front, Protocol};
use ramhold_wire::accounts::AccountsChanged;

/// A login whose password is being compared.
#[derive(Debug)]
pub struct Login {
    /// The name that was given.
    pub user: Vec<u8>,
    pub wish: Wish,
}

/// The wishes of a client for when it is let in.
#[derive(Debug, Default)]
pub struct Wish {
    /// The version of the protocol, of a `HELLO`.
    pub hello: Option<Protocol>,
    pub name: Option<Vec<u8>>,
}

/// A change of accounts, or a new password.
#[derive(Debug)]
pub enum Change {
    /// The coordinator has not answered yet.
    Asked(Front),
    /// This server has not been told yet.
    Made(Front, AccountsChanged),
    /// The random bytes are not there yet. The number of hexadecimal digits that the password has.
    Password(usize),
}
