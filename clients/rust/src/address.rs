//! The addresses of a cluster's coordinator, as people write them.

use crate::Error;
use std::net::{SocketAddr, ToSocketAddrs};

/// The coordinator's port, when none is written.
pub const PORT_DEFAULT: u16 = 7400;

/// `HOST[:PORT][,HOST[:PORT]]...`: names are looked up, IPv6 addresses stand in brackets when a port follows.
pub fn parse_addresses(text: &str) -> Result<Vec<SocketAddr>, Error> {
    let mut addresses = Vec::new();
    for part in text.split(',').map(str::trim) {
        let wrong = |why: String| Error::Address { text: part.to_owned(), why };
        if part.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        let found = match part.parse() {
            Ok(address) => vec![address],
            Err(_) => look_up(part).map_err(|error| wrong(error.to_string()))?,
        };
        if found.is_empty() {
            return Err(wrong("the name has no address".to_owned()));
        }
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    Ok(addresses)
}

fn look_up(part: &str) -> std::io::Result<Vec<SocketAddr>> {
    let bare = part.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse() {
        return Ok(vec![SocketAddr::new(ip, PORT_DEFAULT)]);
    }
    if part.contains(':') {
        return Ok(part.to_socket_addrs()?.collect());
    }
    Ok((part, PORT_DEFAULT).to_socket_addrs()?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_port() {
        let parse = |text| parse_addresses(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(parse("127.0.0.1:7400"), ["127.0.0.1:7400"]);
        assert_eq!(parse("127.0.0.1, 10.0.0.2:9"), ["127.0.0.1:7400", "10.0.0.2:9"]);
        assert_eq!(parse("::1"), ["[::1]:7400"]);
        assert_eq!(parse("[::1]"), ["[::1]:7400"]);
        assert_eq!(parse("[::1]:9"), ["[::1]:9"]);
        assert_eq!(parse("127.0.0.1,127.0.0.1:7400"), ["127.0.0.1:7400"]);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in ["", ",", "127.0.0.1:7400,", "127.0.0.1:port", "127.0.0.1:99999"] {
            let error = parse_addresses(text).unwrap_err();
            assert!(error.to_string().contains("is not an address like host:port"), "{text}: {error}");
        }
    }
}
