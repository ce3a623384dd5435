//! `AUTH` and `HELLO`: how a client is let in, and in which version of the protocol it speaks.

use super::client::Client;
use super::client_command::check_name;
use super::info::{REDIS_VERSION, mode};
use crate::fault::shown;
use crate::front::config::RespConfig;
use crate::parse::integer;
use crate::{Fault, Protocol, Reply};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// `AUTH`: compares user and password.
pub fn authenticate(config: &RespConfig, client: &mut Client, given: &[&[u8]]) -> Result<(), Fault> {
    let (user, password) = match given {
        [password] => (&b"default"[..], *password),
        [user, password] => (*user, *password),
        _ => return Err(Fault::SYNTAX),
    };
    let Some(wanted) = &config.password else {
        let text = "ERR AUTH <password> called without any password configured for the default user. Are you \
                    sure your configuration is correct?";
        // If a name is given, Redis looks the user up, and its default user has no password.
        return if given.len() == 1 {
            Err(Fault::fixed(text))
        } else if user == b"default" {
            Ok(())
        } else {
            Err(Fault::fixed(WRONG_PASSWORD))
        };
    };
    if user == b"default" && is_same(wanted.as_bytes(), password) {
        client.admission.is_known = true;
        Ok(())
    } else {
        Err(Fault::fixed(WRONG_PASSWORD))
    }
}

/// `HELLO`: chooses the version of the protocol, and may give password and name.
pub fn hello(config: &RespConfig, client: &mut Client, args: &[&[u8]], out: &mut Vec<u8>) {
    let mut protocol = client.protocol;
    let mut rest = &args[1..];
    if let Some((version, more)) = rest.split_first() {
        rest = more;
        protocol = match integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => {
                return Reply::new(out, protocol)
                    .fault(&Fault::fixed("NOPROTO unsupported protocol version"));
            }
            None => {
                let text = "ERR Protocol version is not an integer or out of range";
                return Reply::new(out, protocol).fault(&Fault::fixed(text));
            }
        };
    }
    let mut fault = None;
    while let Some((option, more)) = rest.split_first()
        && fault.is_none()
    {
        match (option.to_ascii_lowercase().as_slice(), more) {
            (b"auth", [user, password, more @ ..]) => {
                rest = more;
                fault = authenticate(config, client, &[user, password]).err();
            }
            (b"setname", [given, more @ ..]) => {
                rest = more;
                fault = check_name(given).err();
                // The name counts, whatever becomes of the options behind it.
                if fault.is_none() {
                    client.name = given.to_vec();
                }
            }
            _ => {
                let shown = shown(option.split(|byte| *byte == 0).next().unwrap_or(option));
                fault = Some(Fault::said(format!("ERR Syntax error in HELLO option '{shown}'")));
            }
        }
    }
    if fault.is_none() && !client.admission.is_known {
        let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                    AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                    version at the same time";
        fault = Some(Fault::fixed(text));
    }
    if let Some(fault) = fault {
        return Reply::new(out, client.protocol).fault(&fault);
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

/// Compares in the same time, wherever the first difference is.
fn is_same(wanted: &[u8], given: &[u8]) -> bool {
    let differs = |at: usize| wanted[at] ^ given.get(at).copied().unwrap_or(!wanted[at]);
    (0..wanted.len()).fold(u8::from(wanted.len() != given.len()), |sum, at| sum | differs(at)) == 0
}
