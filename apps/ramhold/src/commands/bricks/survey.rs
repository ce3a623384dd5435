//! Finds the bricks of a cluster and asks each one for its state.
//!
//! The coordinator's list is complete, and names bricks that are dead. Bricks that it does not name are found through
//! the bricks that are known: each tells the addresses of those that share a tablet with it.

use super::reach::{self, Tablet};
use crate::commands::brick::scale::{Ordered, ordered};
use crate::failure::{Failure, UNREACHABLE};
use crate::global::Global;
use ramhold_client::{
    BrickReport, BrickStatus, Client, Error, Label, Operation, OperationId, ProcessStatus, Reply, ServerId,
    SiblingStatus, parse_addresses,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// A brick or coordinator that does not answer within this is taken for silent, unless --timeout says otherwise.
const TIMEOUT: Duration = Duration::from_secs(1);
/// More than any cluster has; bounds the search.
const BRICK_COUNT_MAX: usize = 1000;

/// The way to the bricks.
pub struct Source {
    pub client: Client,
    /// Addresses of bricks that were given.
    bricks: Vec<SocketAddr>,
    /// Addresses of a coordinator that were given. While it does not answer, they may be those of bricks.
    cluster: Vec<SocketAddr>,
    /// How long an answer is waited for.
    pub within: Duration,
}

/// The answer of each process that was asked, or the reason why there is none.
type Answers = BTreeMap<SocketAddr, Result<Box<ProcessStatus>, String>>;

/// All bricks that were found, at one time.
pub struct Survey {
    /// Why the coordinator named no bricks. `None`: it did.
    pub coordinator: Option<String>,
    pub bricks: Vec<Found>,
    /// Tablets of quorum tables: none while all bricks vote.
    pub tablets: Vec<Tablet>,
    /// Addresses that were given as those of bricks and where no brick answers that anybody knows, and why.
    pub strange: Vec<(SocketAddr, String)>,
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
    /// Another brick has heard of its supervisor that it stays offline.
    pub is_offline: bool,
    /// It is being added or removed.
    pub scaling: Option<Ordered>,
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
            is_offline: false,
            scaling: ordered(report),
            told,
        }
    }
}

impl Source {
    /// `bricks`: addresses of bricks, which are asked first.
    pub fn connect(global: &Global, bricks: Option<&str>) -> Result<Source, Failure> {
        let parse =
            |text: &str, option| parse_addresses(text).map_err(|error| Failure::from(error).about(option));
        let named = bricks.map_or(Ok(Vec::new()), |bricks| parse(bricks, "--bricks"))?;
        let cluster = parse(&global.cluster, "--cluster")?;
        let all: Vec<SocketAddr> = named.iter().chain(&cluster).copied().collect();
        let client = global.connect_to(&all).map_err(|failure| match failure.code() {
            UNREACHABLE => Failure::new(
                UNREACHABLE,
                match bricks {
                    None => format!("{}; without a coordinator, name a brick with --bricks", failure.text()),
                    Some(named) => {
                        format!("{}; nor does {named}: name another brick with --bricks", failure.text())
                    }
                },
            ),
            _ => failure,
        })?;
        Ok(Source { client, bricks: named, cluster, within: global.patience.unwrap_or(TIMEOUT) })
    }

    pub fn survey(&mut self) -> Result<Survey, Failure> {
        let asked = self.client.submit_within(Operation::ClusterStatus, self.within);
        let named = match self.outcome_of(asked) {
            Ok(Reply::ClusterStatus(status)) => Ok(status.bricks),
            Ok(_) => Err(Error::UnexpectedReply.to_string()),
            Err(error) => Err(reason(error)),
        };
        let coordinator = named.as_ref().err().cloned();
        let known: BTreeMap<ServerId, BrickReport> =
            named.into_iter().flatten().map(|report| (report.brick, report)).collect();
        let mut first: BTreeSet<SocketAddr> = known.values().map(|report| report.address.0).collect();
        first.extend(&self.bricks);
        if coordinator.is_some() {
            first.extend(&self.cluster);
        }
        let found = search(first, |addresses| self.ask(addresses));
        let (bricks, unknown) = together(&known, found);
        let strange = unknown.into_iter().filter(|(address, _)| self.bricks.contains(address)).collect();
        if bricks.is_empty()
            && let Some(why) = &coordinator
        {
            let text =
                format!("neither the coordinator nor a brick answers: {why}; name a brick with --bricks");
            return Err(Failure::new(UNREACHABLE, text));
        }
        let tablets = self.tablets(coordinator.is_none(), &bricks);
        Ok(Survey { coordinator, bricks, tablets, strange })
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
                (*address, self.client.submit_within(operation, self.within))
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

/// All that was found: answers by address, and what bricks tell of each other.
struct Search {
    told: Answers,
    siblings: BTreeMap<ServerId, SiblingStatus>,
    /// The brick that is said to be at an address. Several addresses are told of one that has moved.
    places: BTreeMap<SocketAddr, ServerId>,
}

/// Asks at these addresses, and at all that the answers tell of.
fn search(first: BTreeSet<SocketAddr>, mut ask: impl FnMut(&BTreeSet<SocketAddr>) -> Answers) -> Search {
    let mut found = Search { told: BTreeMap::new(), siblings: BTreeMap::new(), places: BTreeMap::new() };
    let mut open = first;
    while !open.is_empty() && found.told.len() < BRICK_COUNT_MAX {
        let answers = ask(&open);
        let told = answers.values().flatten().filter_map(|status| status.brick.as_ref());
        for sibling in told.flat_map(|brick| &brick.siblings) {
            let known = found.siblings.entry(sibling.brick).or_insert(*sibling);
            // Only the words about its newest life count.
            known.is_offline = match known.life.cmp(&sibling.life) {
                Ordering::Less => sibling.is_offline,
                Ordering::Equal => known.is_offline || sibling.is_offline,
                Ordering::Greater => known.is_offline,
            };
            known.life = known.life.max(sibling.life);
            known.heard_millis = [known.heard_millis, sibling.heard_millis].into_iter().flatten().min();
            found.places.insert(sibling.address.0, sibling.brick);
        }
        found.told.extend(answers);
        open = found.places.keys().copied().filter(|it| !found.told.contains_key(it)).collect();
    }
    found
}

/// The bricks that were found, each once, and the addresses where none is that anybody knows.
fn together(
    known: &BTreeMap<ServerId, BrickReport>,
    found: Search,
) -> (Vec<Found>, Vec<(SocketAddr, String)>) {
    let Search { told, siblings, places } = found;
    let (mut bricks, mut unknown) = (Vec::new(), Vec::new());
    for (address, answer) in told {
        let by_address = |report: &&BrickReport| report.address.0 == address;
        let id = match &answer {
            Ok(status) if status.brick.is_none() => {
                unknown.push((address, "a process that is no brick answers".to_owned()));
                continue;
            }
            Ok(status) => Some(status.server),
            Err(_) => {
                let named = known.values().find(by_address).map(|report| report.brick);
                named.or(places.get(&address).copied())
            }
        };
        let Some(id) = id else {
            unknown.extend(answer.err().map(|why| (address, why)));
            continue;
        };
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
            is_offline: sibling.is_some_and(|sibling| sibling.is_offline),
            scaling: report.and_then(ordered),
            told: answer,
        });
    }
    // A brick that has moved answers at its new address; at the old one nobody does.
    bricks.sort_by_key(|brick| (brick.id, brick.told.is_err()));
    let mut seen = BTreeSet::new();
    bricks.retain(|brick| brick.id.is_none() || seen.insert(brick.id));
    (bricks, unknown)
}

/// The last thing that went wrong, without the attempts before it.
pub fn reason(error: Error) -> String {
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
    use super::super::reach::tests::{address, status};
    use super::*;
    use ramhold_wire::control::Address;

    /// A brick that answers, and tells of these others.
    fn telling(id: u64, siblings: &[(u64, u8)]) -> Result<Box<ProcessStatus>, String> {
        let mut told = status(None);
        told.server = ServerId(id);
        let sibling = |(brick, host): &(u64, u8)| SiblingStatus {
            brick: ServerId(*brick),
            address: Address(address(*host)),
            life: 1,
            heard_millis: Some(u64::from(*host)),
            is_silent: false,
            is_offline: false,
        };
        told.brick.as_mut().unwrap().siblings = siblings.iter().map(sibling).collect();
        Ok(Box::new(told))
    }

    fn silent() -> Result<Box<ProcessStatus>, String> {
        Err("connection refused".to_owned())
    }

    // J5: one of the others has not heard of the move yet.
    #[test]
    fn a_brick_that_has_moved_is_found_at_each_address_that_is_told_of_it() {
        let network: Answers = [
            (address(1), telling(1, &[(2, 2), (3, 3)])),
            (address(2), telling(2, &[(1, 1), (3, 33)])),
            (address(3), silent()),
            (address(33), telling(3, &[(1, 1), (2, 2)])),
        ]
        .into();
        for first in [1, 2] {
            let found = search([address(first)].into(), |asked| {
                asked.iter().map(|it| (*it, network[it].clone())).collect()
            });
            let (bricks, unknown) = together(&BTreeMap::new(), found);
            let places: Vec<(u64, SocketAddr, bool)> =
                bricks.iter().map(|it| (it.id.raw(), it.address, it.told.is_ok())).collect();
            let at = |id, host| (id, address(host), true);
            assert_eq!(places, [at(1, 1), at(2, 2), at(3, 33)]);
            assert_eq!(unknown, [], "the old address is known to be its");
        }
    }

    // J5: with a wrong --coordinator it is in nobody's list.
    #[test]
    fn a_brick_without_an_id_is_found_where_it_was_given_and_an_empty_address_is_told() {
        let mut unnamed = telling(0, &[]).unwrap();
        unnamed.brick.as_mut().unwrap().life = 0;
        let network: Answers = [
            (address(1), telling(1, &[])),
            (address(8), Ok(unnamed)),
            (address(9), silent()),
            (address(10), Ok(Box::default())),
        ]
        .into();
        let first = network.keys().copied().collect();
        let (bricks, unknown) = together(&BTreeMap::new(), search(first, |_| network.clone()));
        let found: Vec<(u64, SocketAddr)> = bricks.iter().map(|it| (it.id.raw(), it.address)).collect();
        assert_eq!(found, [(0, address(8)), (1, address(1))]);
        let (no_brick, refused) = ("a process that is no brick answers", "connection refused");
        assert_eq!(unknown, [(address(9), refused.to_owned()), (address(10), no_brick.to_owned())]);
    }

    #[test]
    fn of_many_attempts_the_last_one_is_told() {
        let detail =
            "tried for 1.0s, 2 attempts; last, the process at 127.0.0.1:9404 did not answer".to_owned();
        assert_eq!(reason(Error::Unreachable { detail }), "the process at 127.0.0.1:9404 did not answer");
        assert_eq!(reason(Error::Unreachable { detail: "gone".into() }), "gone");
    }
}
