//! Finds the bricks of a cluster and asks each one for its state.
//!
//! The coordinator's list is complete, and names bricks that are dead. Bricks that it does not name are found through
//! the bricks that are known: each tells the addresses of those that share a tablet with it.

use super::reach::{self, Tablet};
use crate::failure::{Failure, UNREACHABLE};
use crate::global::Global;
use ramhold_client::{
    BrickReport, BrickStatus, Client, Error, Label, Operation, OperationId, ProcessStatus, Reply, ServerId,
    SiblingStatus, parse_addresses,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// A brick or coordinator that does not answer within this is taken for silent.
const TIMEOUT: Duration = Duration::from_secs(1);
/// More than any cluster has; bounds the search.
const BRICK_COUNT_MAX: usize = 1000;

/// The way to the bricks.
pub struct Source {
    pub client: Client,
    /// Addresses that were given: of bricks, or of a coordinator.
    given: Vec<SocketAddr>,
}

/// All bricks that were found, at one time.
pub struct Survey {
    /// Why the coordinator named no bricks. `None`: it did.
    pub coordinator: Option<String>,
    pub bricks: Vec<Found>,
    /// Tablets of quorum tables: none while all bricks vote.
    pub tablets: Vec<Tablet>,
}

/// A brick that answers or that others know.
#[derive(Clone, Debug)]
pub struct Found {
    /// `NONE`: it has no id yet.
    pub id: ServerId,
    pub address: SocketAddr,
    pub labels: Vec<Label>,
    /// The newest life that is known.
    pub life: u64,
    /// Tablets that it holds, as it told last. `None`: nobody knows.
    pub tablets: Option<u64>,
    /// Time since the coordinator or another brick has heard it. `None`: nobody has.
    pub heard_millis: Option<u64>,
    /// Its own words, or the reason why there are none.
    pub told: Result<Box<ProcessStatus>, String>,
}

impl Found {
    /// A brick as the coordinator and itself tell of it.
    pub fn of(report: &BrickReport, told: Result<Box<ProcessStatus>, String>) -> Found {
        let life = told.as_ref().ok().and_then(|status| status.brick.as_ref()).map_or(0, |brick| brick.life);
        Found {
            id: report.brick,
            address: report.address.0,
            labels: report.labels.clone(),
            life: life.max(report.life),
            tablets: told.as_ref().map_or(Some(u64::from(report.tablets)), |status| Some(status.tablets)),
            heard_millis: report.heard_millis,
            told,
        }
    }
}

impl Source {
    /// `bricks`: addresses of bricks, which are asked first.
    pub fn connect(global: &Global, bricks: Option<&str>) -> Result<Source, Failure> {
        let parse =
            |text: &str, option| parse_addresses(text).map_err(|error| Failure::from(error).about(option));
        let mut given = bricks.map_or(Ok(Vec::new()), |bricks| parse(bricks, "--bricks"))?;
        given.extend(parse(&global.cluster, "--cluster")?);
        let client = global.connect_to(&given).map_err(|failure| match failure.code() {
            UNREACHABLE => Failure::new(
                UNREACHABLE,
                format!("{}; without a coordinator, name a brick with --bricks", failure.text()),
            ),
            _ => failure,
        })?;
        Ok(Source { client, given })
    }

    pub fn survey(&mut self) -> Result<Survey, Failure> {
        let asked = self.client.submit_within(Operation::ClusterStatus, TIMEOUT);
        let named = match self.outcome_of(asked) {
            Ok(Reply::ClusterStatus(status)) => Ok(status.bricks),
            Ok(_) => Err(Error::UnexpectedReply.to_string()),
            Err(error) => Err(reason(error)),
        };
        let coordinator = named.as_ref().err().cloned();
        let known: BTreeMap<ServerId, BrickReport> =
            named.into_iter().flatten().map(|report| (report.brick, report)).collect();
        let mut siblings = BTreeMap::<ServerId, SiblingStatus>::new();
        let mut told = BTreeMap::<SocketAddr, Result<Box<ProcessStatus>, String>>::new();
        let mut open: BTreeSet<SocketAddr> = known.values().map(|report| report.address.0).collect();
        if coordinator.is_some() {
            open.extend(&self.given);
        }
        while !open.is_empty() && told.len() < BRICK_COUNT_MAX {
            let answers = self.ask(&open);
            for sibling in
                answers.values().flatten().flat_map(|status| status.brick.iter().flat_map(|it| &it.siblings))
            {
                let known = siblings.entry(sibling.brick).or_insert(*sibling);
                known.life = known.life.max(sibling.life);
                known.heard_millis = [known.heard_millis, sibling.heard_millis].into_iter().flatten().min();
            }
            told.extend(answers);
            open = siblings
                .values()
                .map(|sibling| sibling.address.0)
                .filter(|it| !told.contains_key(it))
                .collect();
        }
        let mut bricks = Vec::new();
        for (address, answer) in told {
            let by_address = |report: &&BrickReport| report.address.0 == address;
            let id = match &answer {
                Ok(status) if status.brick.is_none() => continue,
                Ok(status) => Some(status.server),
                Err(_) => {
                    let named = known.values().find(by_address).map(|report| report.brick);
                    named.or(siblings.values().find(|it| it.address.0 == address).map(|it| it.brick))
                }
            };
            // An address that was given and where nobody answers may be that of the coordinator.
            let Some(id) = id else { continue };
            let report = known.get(&id);
            let sibling = siblings.get(&id);
            let own = answer.as_ref().ok().and_then(|status| status.brick.as_ref());
            let lives = [own.map(|it| it.life), report.map(|it| it.life), sibling.map(|it| it.life)];
            let heard = [report.and_then(|it| it.heard_millis), sibling.and_then(|it| it.heard_millis)];
            bricks.push(Found {
                id,
                address,
                labels: own
                    .map(|it| it.labels.clone())
                    .or(report.map(|it| it.labels.clone()))
                    .unwrap_or_default(),
                life: lives.into_iter().flatten().max().unwrap_or_default(),
                tablets: answer.as_ref().ok().map(|it| it.tablets).or(report.map(|it| u64::from(it.tablets))),
                heard_millis: heard.into_iter().flatten().min(),
                told: answer,
            });
        }
        // A brick that has moved answers at its new address; at the old one nobody does.
        bricks.sort_by_key(|brick| (brick.id, brick.told.is_err()));
        let mut seen = BTreeSet::new();
        bricks.retain(|brick| brick.id.is_none() || seen.insert(brick.id));
        if bricks.is_empty()
            && let Some(why) = &coordinator
        {
            let text =
                format!("neither the coordinator nor a brick answers: {why}; name a brick with --bricks");
            return Err(Failure::new(UNREACHABLE, text));
        }
        let tablets = self.tablets(coordinator.is_none(), &bricks);
        Ok(Survey { coordinator, bricks, tablets })
    }

    /// The tablets, if perhaps not all of them have their quorum.
    fn tablets(&mut self, has_coordinator: bool, bricks: &[Found]) -> Vec<Tablet> {
        let votes = |status: &BrickStatus| status.is_serving && status.without_vote == 0;
        let is_voting = |brick: &Found| {
            let told = brick.told.as_ref().ok().and_then(|status| status.brick.as_ref());
            told.is_some_and(votes)
        };
        if bricks.iter().all(is_voting) {
            return Vec::new();
        }
        let described = has_coordinator.then(|| reach::described(&mut self.client).ok()).flatten();
        let told = bricks.iter().filter_map(|brick| brick.told.as_ref().ok()?.brick.as_ref());
        described.unwrap_or_else(|| reach::told(told))
    }

    /// Asks processes for their state, all at once.
    fn ask(
        &mut self,
        addresses: &BTreeSet<SocketAddr>,
    ) -> BTreeMap<SocketAddr, Result<Box<ProcessStatus>, String>> {
        let asked: Vec<(SocketAddr, OperationId)> = addresses
            .iter()
            .take(BRICK_COUNT_MAX)
            .map(|address| {
                let operation = Operation::ServerStatus { address: *address };
                (*address, self.client.submit_within(operation, TIMEOUT))
            })
            .collect();
        let mut told = BTreeMap::new();
        let mut ended = BTreeMap::new();
        while ended.len() < asked.len() {
            let Some((id, outcome)) = self.client.wait_any() else { break };
            ended.insert(id, outcome);
        }
        for (address, id) in asked {
            let answer = match ended.remove(&id).map(Error::check) {
                Some(Ok(Reply::ServerStatus(status))) => Ok(status),
                Some(Ok(_)) => Err(Error::UnexpectedReply.to_string()),
                Some(Err(error)) => Err(reason(error)),
                None => Err("no answer".to_owned()),
            };
            told.insert(address, answer);
        }
        told
    }

    fn outcome_of(&mut self, asked: OperationId) -> Result<Reply, Error> {
        while let Some((id, outcome)) = self.client.wait_any() {
            if id == asked {
                return Error::check(outcome);
            }
        }
        Err(Error::UnexpectedReply)
    }
}

/// The last thing that went wrong, without the attempts before it.
fn reason(error: Error) -> String {
    let text = match error {
        Error::Unreachable { detail } => detail,
        error => error.to_string(),
    };
    match text.split_once("last, ") {
        Some((_, last)) => last.trim_end_matches(')').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_attempts_the_last_one_is_told() {
        let detail =
            "tried for 1.0s, 2 attempts; last, the process at 127.0.0.1:9404 did not answer".to_owned();
        assert_eq!(reason(Error::Unreachable { detail }), "the process at 127.0.0.1:9404 did not answer");
        assert_eq!(reason(Error::Unreachable { detail: "gone".into() }), "gone");
    }
}
