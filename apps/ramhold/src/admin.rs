//! `--admin`: the address at which operators reach a process over HTTP, if any.
//!
//! It is off by default: nobody watches over a port that opens by itself.

use crate::failure::Failure;
use crate::process;
use ramhold_admin::Door;
use std::net::SocketAddr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admin {
    Off,
    At(SocketAddr),
}

/// `off` or an address.
pub fn parse_admin(text: &str) -> Result<Admin, String> {
    match text {
        "off" => Ok(Admin::Off),
        address => address.parse().map(Admin::At).map_err(|_| {
            format!(
                "'{text}' is neither 'off' nor an address like 127.0.0.1:8400; port 0 takes any free port"
            )
        }),
    }
}

impl Admin {
    /// Listens there. Strangers can change nothing, but see what the process does: they are kept out as elsewhere.
    pub fn open(self, is_network_allowed: bool) -> Result<Option<Door>, Failure> {
        let Admin::At(address) = self else { return Ok(None) };
        process::check_exposure(&[address], is_network_allowed)?;
        let failed = |error: std::io::Error| {
            Failure::usage(format!("cannot listen on {address}: {error}; choose another address or port"))
                .about("--admin")
        };
        Door::open(address).map(Some).map_err(failed)
    }
}

/// A line for what a process tells at its start.
pub fn line(address: Option<SocketAddr>) -> String {
    match address {
        Some(address) => format!("  admin        http://{address}/metrics, /health and /ready"),
        None => "  admin        off; --admin ADDR gives metrics and health".to_owned(),
    }
}

/// The answer to what could not be started.
pub fn thread_failed(error: std::io::Error) -> Failure {
    Failure::usage(format!("cannot start a thread: {error}")).about("--admin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_off_is_read_and_strangers_are_kept_out() {
        assert_eq!(parse_admin("off"), Ok(Admin::Off));
        let outside = parse_admin("0.0.0.0:0").unwrap();
        for wrong in ["", "on", "8400", "localhost:8400", "127.0.0.1"] {
            assert!(parse_admin(wrong).is_err(), "{wrong}");
        }
        assert!(outside.open(false).is_err_and(|failure| failure.text().contains("--insecure-network")));
        assert!(Admin::Off.open(false).unwrap().is_none());
        let door = parse_admin("127.0.0.1:0").unwrap().open(false).unwrap().unwrap();
        let taken = Admin::At(door.address()).open(false);
        assert!(taken.is_err_and(|failure| failure.text().contains("--admin")));
    }
}
