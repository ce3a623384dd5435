//! `AUTH` and `HELLO`: who a client says that it is, and in which version of the protocol it speaks.
//!
//! Not here: whether it is (`ordering::logins`).

use super::client::Client;
use super::client_command::check_name;
use super::info::{REDIS_VERSION, mode};
use crate::fault::shown;
use crate::parse::integer;
use crate::{Fault, Protocol, Reply};
use ramhold_access::account::DEFAULT;

/// The error for a wrong password, and for a name that no account has.
pub const WRONG_PASSWORD: Fault =
    Fault::fixed("WRONGPASS invalid username-password pair or user is disabled.");

/// Name and password that a client gives.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub user: &'a [u8],
    pub password: &'a [u8],
    /// `AUTH` with a password alone.
    pub is_old_form: bool,
}

impl<'a> Given<'a> {
    /// The words behind `AUTH`.
    pub fn of_auth(words: &[&'a [u8]]) -> Result<Given<'a>, Fault> {
        match *words {
            [password] => Ok(Given { user: DEFAULT.as_bytes(), password, is_old_form: true }),
            [user, password] => Ok(Given { user, password, is_old_form: false }),
            _ => Err(Fault::SYNTAX),
        }
    }
}

/// The wishes of a `HELLO`.
pub struct Hello<'a> {
    pub protocol: Protocol,
    pub given: Option<Given<'a>>,
    /// The client's name, if it comes behind name and password: it counts with them.
    pub name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// Reads the words behind `HELLO`. A name for the client counts at once, whatever becomes of the options behind it.
    pub fn read(client: &mut Client, words: &[&'a [u8]]) -> Result<Hello<'a>, Fault> {
        let mut hello = Hello { protocol: client.protocol, given: None, name: None };
        let mut rest = words;
        if let Some((version, more)) = rest.split_first() {
            rest = more;
            hello.protocol = match integer(version) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return Err(Fault::fixed("NOPROTO unsupported protocol version")),
                None => return Err(Fault::fixed("ERR Protocol version is not an integer or out of range")),
            };
        }
        while let Some((option, more)) = rest.split_first() {
            rest = match (option.to_ascii_lowercase().as_slice(), more) {
                (b"auth", [user, password, more @ ..]) => {
                    hello.given = Some(Given { user, password, is_old_form: false });
                    more
                }
                (b"setname", [given, more @ ..]) => {
                    check_name(given)?;
                    match hello.given {
                        Some(_) => hello.name = Some(given),
                        None => client.name = given.to_vec(),
                    }
                    more
                }
                _ => {
                    let shown = shown(option.split(|byte| *byte == 0).next().unwrap_or(option));
                    return Err(Fault::said(format!("ERR Syntax error in HELLO option '{shown}'")));
                }
            };
        }
        Ok(hello)
    }
}

/// Ends a `HELLO`: the client speaks this version from now on, if it is somebody.
pub fn greet(client: &mut Client, protocol: Protocol, out: &mut Vec<u8>) {
    if !client.is_known() {
        let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                    AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                    version at the same time";
        return Reply::new(out, client.protocol).fault(&Fault::fixed(text));
    }
    client.protocol = protocol;
    let mut reply = Reply::new(out, protocol);
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(client.id as i64);
    reply.bulk(b"mode");
    reply.bulk(mode(client.is_of_cluster).as_bytes());
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
