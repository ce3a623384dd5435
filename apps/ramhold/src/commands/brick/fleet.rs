//! All bricks as an operator sees them now: which tablets they share, and which of them vote.
//!
//! The coordinator tells names and addresses. Whether a brick votes is asked of the brick itself, so nothing of the answer is
//! old.

use crate::failure::{Failure, NOT_FOUND};
use crate::question::{NoAnswer, ask};
use ramhold_base::ClusterId;
use ramhold_client::{BrickReport, Client, ServerId};
use ramhold_wire::Header;
use ramhold_wire::restart::{BrickProbe, BrickProbed, BrickRestart, RestartAnswer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// A brick that does not answer sooner does not vote, as far as an operator is concerned.
const PROBE_WITHIN: Duration = Duration::from_secs(1);
/// A supervisor answers an operator at once.
const RESTART_WITHIN: Duration = Duration::from_secs(5);

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
        self.sharers(brick).into_iter().find_map(|other| self.trouble_of(other, 0))
    }

    /// Why a brick does not vote in a life above this one; none: it does.
    pub fn trouble_of(&self, brick: ServerId, above: u64) -> Option<String> {
        let Ok(report) = self.find(brick) else { return Some(format!("{brick} is not known")) };
        match probe(report.address.0) {
            Ok(told) if told.brick != brick && told.life > 0 => {
                Some(format!("{} is another brick, {}", report.address.0, told.brick))
            }
            Ok(told) if told.life <= above => Some(format!("{brick} still runs in life {above}, or starts")),
            Ok(told) if !told.serves => Some(format!("{brick} starts")),
            Ok(told) if told.silent > 0 => {
                Some(format!("{brick} does not vote in {} tablets yet", told.silent))
            }
            Ok(_) => None,
            Err(why) => Some(format!("{brick} does not answer: {why}")),
        }
    }

    /// Tells the supervisor of a brick to restart it. The life that ends.
    pub fn restart(&self, brick: ServerId) -> Result<u64, Failure> {
        let report = self.find(brick)?;
        let told = probe(report.address.0).ok().filter(|told| told.brick == brick);
        // The coordinator may not have heard the newest life. Any life of a brick that does not answer is meant.
        let life = told.as_ref().map_or(report.life, |told| told.life);
        let Some(port) = report.supervisor else {
            return Err(Failure::new(
                NOT_FOUND,
                format!(
                    "{brick} has no supervisor that the coordinator knows; start it with 'ramhold supervise -- server --brick \
                     ...', or restart its process by hand"
                ),
            ));
        };
        let supervisor = SocketAddr::new(report.address.0.ip(), port);
        let header = Header { cluster: self.cluster, target: brick, ..Header::default() };
        let message = BrickRestart { brick, life: told.map_or(0, |told| told.life) };
        match ask::<BrickRestart>(supervisor, &header, &message, RESTART_WITHIN) {
            Ok(RestartAnswer { .. }) => Ok(life),
            Err(why) => Err(Failure::new(
                NOT_FOUND,
                format!(
                    "the supervisor of {brick} at {supervisor} has not restarted it: {why}; look after it there, and try again"
                ),
            )),
        }
    }
}

fn probe(address: SocketAddr) -> Result<BrickProbed, NoAnswer> {
    ask(address, &Header::default(), &BrickProbe {}, PROBE_WITHIN)
}
