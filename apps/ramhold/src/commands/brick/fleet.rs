//! All bricks as an operator sees them now: which tablets they share, and which of them vote.
//!
//! The coordinator tells names and addresses. Whether a brick votes is asked of the brick itself, so nothing of the answer is
//! old.

use crate::failure::{Failure, NOT_FOUND};
use crate::question::{NoAnswer, ask};
use ramhold_base::{ClusterId, Status};
use ramhold_client::{BrickReport, Client, ServerId};
use ramhold_wire::Header;
use ramhold_wire::restart::{BrickProbe, BrickProbed, BrickRestart, RestartAnswer};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A brick that does not answer sooner does not vote, as far as an operator is concerned.
const PROBE_WITHIN: Duration = Duration::from_secs(1);
/// A supervisor answers an operator at once.
const RESTART_WITHIN: Duration = Duration::from_secs(5);
/// It asks its brick ten times a second until it knows the brick's life.
const ASK_INTERVAL: Duration = Duration::from_millis(100);

pub struct Fleet {
    cluster: ClusterId,
    pub bricks: Vec<BrickReport>,
    /// The bricks of each tablet of a quorum table.
    tablets: Vec<BTreeSet<ServerId>>,
}

impl Fleet {
    pub fn of(client: &mut Client) -> Result<Fleet, Failure> {
        let status = client.cluster_status()?;
        let mut tablets = Vec::new();
        for table in client.tables()? {
            if table.options.quorum.is_none() {
                continue;
            }
            let described = client.describe_table(&table.name)?.quorum.unwrap_or_default();
            tablets.extend(described.iter().map(|tablet| tablet.bricks.iter().map(|it| it.brick).collect()));
        }
        Ok(Fleet { cluster: status.cluster, bricks: status.bricks, tablets })
    }

    pub fn find(&self, brick: ServerId) -> Result<&BrickReport, Failure> {
        let found = self.bricks.iter().find(|report| report.brick == brick);
        found.ok_or_else(|| {
            let names: Vec<String> = self.bricks.iter().map(|report| report.brick.to_string()).collect();
            let text = match names.is_empty() {
                true => format!("{brick} is no brick, and the cluster has none"),
                false => format!("{brick} is no brick; these are: {}", names.join(", ")),
            };
            Failure::new(NOT_FOUND, text)
        })
    }

    /// The bricks that share a tablet with this one.
    fn sharers(&self, brick: ServerId) -> BTreeSet<ServerId> {
        let own = self.tablets.iter().filter(|tablet| tablet.contains(&brick));
        own.flatten().copied().filter(|other| *other != brick).collect()
    }

    /// The first of the other bricks of its tablets that does not vote, and why.
    pub fn trouble_beside(&self, brick: ServerId) -> Option<String> {
        self.sharers(brick).into_iter().find_map(|other| self.trouble_now(other))
    }

    /// Why a brick does not vote in all tablets that it is to have.
    pub fn trouble_now(&self, brick: ServerId) -> Option<String> {
        self.trouble_of(brick, 0).or_else(|| {
            // It does not know yet what it lacks.
            let report = self.find(brick).ok().filter(|report| report.taken < report.assigned)?;
            Some(format!("{} has not taken its newest tablets yet", report.brick))
        })
    }

    /// Why a brick does not vote in a life above this one; none: it does.
    pub fn trouble_of(&self, brick: ServerId, above: u64) -> Option<String> {
        let Ok(report) = self.find(brick) else { return Some(format!("{brick} is not known")) };
        match probe(report.address.0) {
            Ok(told) if told.brick != brick && told.life > 0 => {
                Some(format!("{} is another brick, {}", report.address.0, told.brick))
            }
            Ok(told) if told.life <= above && above > 0 => {
                Some(format!("{brick} still runs in life {above}"))
            }
            Ok(told) if told.life == 0 => Some(format!("{brick} starts")),
            Ok(told) if !told.serves => Some(format!("{brick} starts")),
            Ok(told) if told.without_vote > 0 => {
                let tablets = if told.without_vote == 1 { "tablet" } else { "tablets" };
                Some(format!("{brick} does not vote in {} {tablets} yet", told.without_vote))
            }
            Ok(_) => None,
            Err(why) => Some(format!("{brick} does not answer: {why}")),
        }
    }

    /// The bricks to restart, and those that hold nothing and do not answer: they are gone, or offline, and nobody misses
    /// them. An error if one of the former has no supervisor that answers, before anything is restarted.
    pub fn to_restart(&self) -> Result<(Vec<ServerId>, Vec<ServerId>), Failure> {
        let is_left_out = |report: &&BrickReport| report.tablets == 0 && probe(report.address.0).is_err();
        let (left_out, wanted): (Vec<&BrickReport>, Vec<&BrickReport>) =
            self.bricks.iter().partition(is_left_out);
        let trouble = |report: &&BrickReport| match supervisor_of(report) {
            None => Some(format!("{} was started without one", report.brick)),
            Some(address) => {
                let why = TcpStream::connect_timeout(&address, PROBE_WITHIN).err()?;
                Some(format!("that of {} at {address} does not answer ({why})", report.brick))
            }
        };
        let troubles: Vec<String> = wanted.iter().filter_map(trouble).collect();
        if !troubles.is_empty() {
            let text =
                format!("nothing is restarted: each brick needs a supervisor, and {}", troubles.join(", "));
            return Err(Failure::new(NOT_FOUND, text));
        }
        let ids = |reports: Vec<&BrickReport>| reports.into_iter().map(|report| report.brick).collect();
        Ok((ids(wanted), ids(left_out)))
    }

    /// Tells the supervisor of a brick to restart it. The life that ends.
    pub fn restart(&self, brick: ServerId) -> Result<u64, Failure> {
        let report = self.find(brick)?;
        let told = probe(report.address.0).ok().filter(|told| told.brick == brick);
        // The coordinator may not have heard the newest life. Any life of a brick that does not answer is meant.
        let life = told.as_ref().map_or(report.life, |told| told.life);
        let supervisor = supervisor_of(report).ok_or_else(|| {
            let text = format!(
                "{brick} was started without a supervisor: restart its process by hand, or end it and start it with 'ramhold \
                 supervise -- server --brick ...'"
            );
            Failure::new(NOT_FOUND, text)
        })?;
        let header = Header { cluster: self.cluster, target: brick, ..Header::default() };
        let message = BrickRestart { brick, life: told.map_or(0, |told| told.life) };
        let end = Instant::now() + RESTART_WITHIN;
        loop {
            match ask::<BrickRestart>(supervisor, &header, &message, RESTART_WITHIN) {
                Ok(RestartAnswer { .. }) => return Ok(life),
                // It has not asked this life yet.
                Err(NoAnswer::Refused(Status::NotReady)) if Instant::now() < end => {
                    std::thread::sleep(ASK_INTERVAL);
                }
                Err(why) => {
                    let text = format!(
                        "the supervisor of {brick} at {supervisor} has not restarted it: {why}; look after it there, and try \
                         again"
                    );
                    return Err(Failure::new(NOT_FOUND, text));
                }
            }
        }
    }
}

fn supervisor_of(report: &BrickReport) -> Option<SocketAddr> {
    Some(SocketAddr::new(report.address.0.ip(), report.supervisor?))
}

fn probe(address: SocketAddr) -> Result<BrickProbed, NoAnswer> {
    ask(address, &Header::default(), &BrickProbe::default(), PROBE_WITHIN)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ramhold_wire::control::{Address, encode_into};
    use ramhold_wire::{Kind, frame};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A brick that says this to everybody who asks.
    fn brick_that_says(told: BrickProbed) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut question = vec![0; 4096];
                let count = stream.read(&mut question).unwrap();
                let (header, _) = frame::parse(&question[..count]).unwrap();
                let mut answer = Vec::new();
                frame::write(&mut answer, &Header { kind: Kind::Reply, ..header }, |out| {
                    encode_into(out, &told)
                });
                stream.write_all(&answer).unwrap();
            }
        });
        address
    }

    fn probed(brick: u64, without_vote: u32) -> BrickProbed {
        BrickProbed {
            cluster: ClusterId(1),
            brick: ServerId(brick),
            life: 3,
            mark: 1,
            serves: true,
            without_vote,
            siblings: Vec::new(),
            may_restart: false,
        }
    }

    pub fn report(brick: u64, address: SocketAddr, (assigned, taken): (u64, u64)) -> BrickReport {
        BrickReport {
            brick: ServerId(brick),
            address: Address(address),
            labels: Vec::new(),
            life: 3,
            heard_millis: Some(1),
            tablets: 1,
            rebuilding: 0,
            log_bytes: 1,
            used_bytes: 0,
            is_replaced: false,
            assigned,
            taken,
            supervisor: None,
            scaling: None,
            waits: None,
            is_removed: false,
            ended: None,
        }
    }

    // I6: what is gone keeps nothing from being restarted, and what cannot be restarted is known before the first restart.
    #[test]
    fn a_brick_that_is_gone_is_left_out_and_one_without_a_supervisor_stops_all() {
        let nobody = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let supervisor = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = supervisor.local_addr().unwrap().port();
        let with = |brick, address, tablets, supervisor| BrickReport {
            tablets,
            supervisor,
            ..report(brick, address, (5, 5))
        };
        let answering = |brick| brick_that_says(probed(brick, 0));
        let fleet = |bricks| Fleet { cluster: ClusterId(1), bricks, tablets: Vec::new() };
        let all = vec![
            with(1, answering(1), 1, Some(port)),
            // Its tablets make it one that is missed.
            with(2, nobody(), 1, Some(port)),
            with(3, nobody(), 0, None),
            with(4, answering(4), 0, Some(port)),
        ];
        let (wanted, left_out) = fleet(all.clone()).to_restart().unwrap();
        assert_eq!((wanted, left_out), ([1, 2, 4].map(ServerId).to_vec(), vec![ServerId(3)]));
        let without =
            [all, vec![with(5, answering(5), 1, None), with(6, answering(6), 1, Some(nobody().port()))]];
        let failure = fleet(without.concat()).to_restart().unwrap_err();
        let text = failure.text();
        assert!(text.starts_with("nothing is restarted: "), "{text}");
        assert!(text.contains("s5 was started without one, that of s6 at 127.0.0.1:"), "{text}");
    }

    // I6: it has not heard yet that it has a tablet, so it does not know that it does not vote.
    #[test]
    fn a_brick_that_has_not_taken_its_tablets_keeps_its_siblings_from_a_restart() {
        let (told, lacking) = (probed(2, 0), probed(2, 1));
        let fleet = |told, versions| Fleet {
            cluster: ClusterId(1),
            bricks: vec![report(2, brick_that_says(told), versions)],
            tablets: vec![[1, 2].map(ServerId).into()],
        };
        let trouble = |told, versions| fleet(told, versions).trouble_beside(ServerId(1));
        assert_eq!(trouble(told.clone(), (5, 5)), None);
        assert_eq!(trouble(told.clone(), (5, 4)).unwrap(), "s2 has not taken its newest tablets yet");
        assert_eq!(trouble(told.clone(), (5, 6)), None, "the coordinator's state is an old one");
        assert_eq!(trouble(lacking, (5, 5)).unwrap(), "s2 does not vote in 1 tablet yet");
        let starting = BrickProbed { life: 0, brick: ServerId::NONE, ..told.clone() };
        assert_eq!(trouble(starting, (5, 5)).unwrap(), "s2 starts");
        let restarting = fleet(told, (5, 5));
        assert_eq!(restarting.trouble_of(ServerId(2), 3).unwrap(), "s2 still runs in life 3");
        assert_eq!(restarting.trouble_of(ServerId(2), 2), None);
    }
}
