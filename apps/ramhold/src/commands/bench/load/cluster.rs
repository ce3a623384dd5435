//! A Redis cluster: one connection to each of its masters, and every key to the master that has the key's slot.
//!
//! Who has which slot is asked once, at the start. A key whose slot has moved since then is refused by the server, and counts
//! as failed. A Redis cluster takes no command about keys of several slots, so operations that start together are single
//! commands, and so is each object of a scan; they go out together all the same.

use super::link::{Ending, Kind, Link, Request, Tag};
use super::plan::Load;
use super::text::{Dialect, SPIN, Text};
use super::values::{Values, key};
use crate::failure::{Failure, UNREACHABLE};
use ramhold_base::hash::{SLOT_COUNT, slot_of};
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The answer to `CLUSTER NODES` of a thousand masters is smaller.
const NODES_BYTES_MAX: usize = 1 << 20;

pub struct Clustered<'a> {
    load: &'a Load,
    masters: Vec<Text<'a>>,
    /// The master that has a slot.
    of_slot: Vec<usize>,
    /// The request that goes to a master next; empty between calls.
    batch: Vec<(Request, Tag)>,
    /// Scans under way, by the number that their parts have for an object.
    scans: HashMap<u64, Scan>,
    next_scan: u64,
    ended: VecDeque<(Tag, Ending)>,
    patience: Duration,
}

/// Reads of one scan.
struct Scan {
    tag: Tag,
    left: u64,
    ending: Ending,
}

impl<'a> Clustered<'a> {
    /// `address`: of any server of the cluster.
    pub fn connect(
        load: &'a Load,
        values: &'a Values,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<Clustered<'a>, Failure> {
        let unreachable = |why: String| Failure::new(UNREACHABLE, format!("{address}: {why}"));
        let nodes = ask_nodes(address, patience).map_err(|error| unreachable(error.to_string()))?;
        let (addresses, of_slot) = masters(&nodes).map_err(unreachable)?;
        let connect = |master: &SocketAddr| Text::connect(Dialect::Redis, load, values, *master, patience);
        Ok(Clustered {
            load,
            masters: addresses.iter().map(connect).collect::<Result<_, Failure>>()?,
            of_slot,
            batch: Vec::new(),
            scans: HashMap::new(),
            next_scan: 0,
            ended: VecDeque::new(),
            patience,
        })
    }

    fn send(&mut self, request: Request, object: u64, tag: Tag) {
        let slot = slot_of(&key(object, self.load.key_bytes));
        self.batch.push((request, tag));
        self.masters[self.of_slot[usize::from(slot)]].start(&mut self.batch);
    }

    /// The end of an operation or of a part of a scan.
    fn take(&mut self, (tag, ending): (Tag, Ending)) {
        if tag.kind != Kind::Scan {
            return self.ended.push_back((tag, ending));
        }
        let Some(scan) = self.scans.get_mut(&tag.object) else { return };
        scan.left -= 1;
        if let Ending::Failed { .. } = ending {
            scan.ending = ending;
        }
        if scan.left == 0
            && let Some(scan) = self.scans.remove(&tag.object)
        {
            self.ended.push_back((scan.tag, scan.ending));
        }
    }

    fn look(&mut self) {
        for number in 0..self.masters.len() {
            while let Some(ended) = self.masters[number].poll() {
                self.take(ended);
            }
        }
    }

    fn sleep(&self, time: Duration) {
        let mut all: Vec<_> = self.masters.iter().map(Text::awaited).collect();
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut all, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            // The next look finds what is wrong.
            Err(_) => std::thread::yield_now(),
        }
    }
}

impl Link for Clustered<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        for (request, tag) in requests.drain(..) {
            match request {
                Request::Read { object } | Request::Write { object } => self.send(request, object, tag),
                Request::ReadSeveral { first, count } => {
                    let number = self.next_scan;
                    self.next_scan += 1;
                    self.scans.insert(number, Scan { tag, left: count, ending: Ending::Done });
                    let tag = Tag { kind: Kind::Scan, object: number, ..tag };
                    for object in first..first + count {
                        self.send(Request::Read { object }, object, tag);
                    }
                }
            }
        }
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        let began = Instant::now();
        loop {
            self.look();
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            if self.masters.iter().all(Text::is_idle) {
                return None;
            }
            let waited = began.elapsed();
            match self.patience.checked_sub(waited) {
                Some(_) if waited < SPIN => std::thread::yield_now(),
                Some(left) => self.sleep(left),
                None => self.masters.iter_mut().filter(|master| !master.is_idle()).for_each(Text::give_up),
            }
        }
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        if self.ended.is_empty() {
            self.look();
        }
        self.ended.pop_front()
    }

    fn is_lost(&self) -> bool {
        self.masters.iter().any(Link::is_lost)
    }
}

/// The answer to `CLUSTER NODES`, a bulk string.
fn ask_nodes(address: SocketAddr, patience: Duration) -> std::io::Result<String> {
    let odd = || std::io::Error::other("it is not in cluster mode: CLUSTER NODES is refused");
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    (&stream).write_all(b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.by_ref().take(64).read_line(&mut line)?;
    let length: usize =
        line.trim_end().strip_prefix('$').and_then(|text| text.parse().ok()).ok_or_else(odd)?;
    if length > NODES_BYTES_MAX {
        return Err(odd());
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    String::from_utf8(text).map_err(|_| odd())
}

/// The masters that have slots, and for each slot the number of its master.
fn masters(nodes: &str) -> Result<(Vec<SocketAddr>, Vec<usize>), String> {
    let mut addresses = Vec::new();
    let mut of_slot = vec![None; usize::from(SLOT_COUNT)];
    for node in nodes.lines() {
        let mut words = node.split(' ').skip(1);
        let (Some(address), Some(flags)) = (words.next(), words.next()) else { continue };
        // Slots that are moving are in brackets; they are still here.
        let ranges: Vec<&str> = words.skip(5).filter(|range| !range.starts_with('[')).collect();
        if !flags.split(',').any(|flag| flag == "master") || ranges.is_empty() {
            continue;
        }
        let address = address.split(['@', ',']).next().unwrap_or_default();
        let address = address.parse().map_err(|_| format!("a master is at {address:?}"))?;
        for range in ranges {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
            let slots = bounds.and_then(|(first, last)| of_slot.get_mut(first..=last));
            slots.ok_or_else(|| format!("a master has slots {range:?}"))?.fill(Some(addresses.len()));
        }
        addresses.push(address);
    }
    let missing = of_slot.iter().filter(|master| master.is_none()).count();
    match of_slot.into_iter().collect::<Option<Vec<usize>>>() {
        Some(of_slot) => Ok((addresses, of_slot)),
        None => {
            Err(format!("{missing} slots have no master: wait until 'cluster info' tells cluster_state:ok"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
a1 127.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-5460 [5460->-b2]
b2 127.0.0.1:7002@17002,host master - 0 1 2 connected 5461-10922 10924-16383
c3 127.0.0.1:7003@17003 slave a1 0 1 1 connected
d4 127.0.0.1:7004@17004 master - 0 1 4 connected 10923
e5 127.0.0.1:7005@17005 master - 0 1 5 connected
";

    #[test]
    fn each_slot_has_its_master() {
        let (addresses, of_slot) = masters(NODES).unwrap();
        let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [7001, 7002, 7004]);
        assert_eq!((of_slot[0], of_slot[5460], of_slot[5461]), (0, 0, 1));
        assert_eq!((of_slot[10922], of_slot[10923], of_slot[10924], of_slot[16383]), (1, 2, 1, 1));
    }

    #[test]
    fn a_cluster_that_lacks_slots_is_refused() {
        assert!(masters(&NODES.replace(" 10923", "")).unwrap_err().contains("1 slots have no master"));
        assert!(masters(&NODES.replace("16383", "16384")).is_err());
        assert!(masters(&NODES.replace("127.0.0.1:7004", ":7004")).is_err());
        assert!(masters("").is_err());
    }
}
