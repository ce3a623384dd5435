//! Free ports of this machine.

use crate::failure::Failure;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below those that the kernel gives to outgoing connections (from 32768), so that a member that is started again finds
/// its port free.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Whether nobody listens there.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Refuses when one of the ports is taken, and says which and what to do.
pub fn check_free(ports: &[u16]) -> Result<(), Failure> {
    match ports.iter().find(|port| !is_free(**port)) {
        None => Ok(()),
        Some(port) => Err(Failure::usage(format!(
            "port {port} of 127.0.0.1 is in use, and the cluster needs the ports {} to {}; choose others with --port \
             ('ss -ltnp' shows who uses the port; 'ramhold stop --dir DIR' stops a cluster of 'ramhold dev')",
            ports[0],
            ports[ports.len() - 1]
        ))),
    }
}

/// `count` ports in a row that are free now, somewhere.
pub fn find_free(count: u16) -> Result<Vec<u16>, Failure> {
    let random = RandomState::new().hash_one(std::process::id());
    let start = (random % u64::from(COUNT)) as u16;
    for step in 0..COUNT / count {
        let first = FIRST + (start + step * count) % (COUNT - count);
        let ports: Vec<u16> = (first..first + count).collect();
        if ports.iter().all(|port| is_free(*port)) {
            return Ok(ports);
        }
    }
    Err(Failure::usage(format!(
        "no {count} free ports in a row from {FIRST} on; stop programs that hold ports there"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named() {
        let ports = find_free(3).unwrap();
        assert!(check_free(&ports).is_ok());
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, ports[1])).unwrap();
        let refused = check_free(&ports).unwrap_err();
        assert!(refused.text().contains(&format!("port {} ", ports[1])), "{}", refused.text());
    }
}
