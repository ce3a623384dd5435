//! A counter from the page of metrics that a process shows to operators (`--admin`).
//!
//! Not here: what the figures mean (docs/metrics.md).

use crate::failure::{Failure, UNREACHABLE};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);
/// Far more than any page has.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The sum of a counter's samples on the page of the process at this address, `HOST:PORT`.
pub fn counter(address: &str, name: &str) -> Result<f64, Failure> {
    let page = page(address).map_err(|error| {
        Failure::new(UNREACHABLE, format!("--server-admin {address}: {error}; start the server with --admin"))
    })?;
    sum(&page, name).ok_or_else(|| {
        Failure::usage(format!("--server-admin {address}: there is no {name} on its page of metrics"))
    })
}

fn page(address: &str) -> std::io::Result<String> {
    let address = address.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ramhold\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer)?;
    let is_told = answer.split(' ').nth(1) == Some("200");
    if is_told { Ok(answer) } else { Err(std::io::Error::other("it shows no metrics")) }
}

/// Samples are `NAME VALUE` or `NAME{LABELS} VALUE`.
fn sum(page: &str, name: &str) -> Option<f64> {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_whole_name = rest.starts_with([' ', '{']);
        is_whole_name.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    samples.fold(None, |sum, sample| Some(sum.unwrap_or(0.0) + sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    // J5
    #[test]
    fn samples_of_one_name_are_added_up() {
        let page =
            "# TYPE a_total counter\na_total{of=\"x y\"} 1.5\na_total{of=\"z\"} 2\na_total_more 8\nb 3\n";
        assert_eq!(sum(page, "a_total"), Some(3.5));
        assert_eq!(sum(page, "b"), Some(3.0));
        assert_eq!(sum(page, "c"), None);
    }
}
