//! The audit of the state at rest: a real picture is accepted, and each way of falsifying it is rejected. // J3

use ramhold_base::{Epoch, KeyHash, SegmentId, ServerId, TableId};
use ramhold_node::Phase;
use ramhold_world::audit::{MasterSeen, ServerSeen, disagreements, under_way};
use ramhold_world::stage::Stage;

const SERVERS: u8 = 5;

type Picture = Vec<ServerSeen>;

/// Changes one thing in a picture.
type Falsify = fn(&mut Picture);

/// A master that serves, and has closed segments and a head.
fn master(picture: &mut Picture) -> &mut MasterSeen {
    let masters = picture.iter_mut().filter_map(|server| server.master.as_mut());
    masters.max_by_key(|m| m.segments.len()).unwrap()
}

/// Its place, and who holds the first of its replicas that is closed (or open), at which place.
fn replica(picture: &Picture, closed: bool) -> (usize, usize, usize) {
    let count = |s: &ServerSeen| s.master.as_ref().map_or(0, |m| m.segments.len());
    let owner = (0..picture.len()).max_by_key(|at| count(&picture[*at])).unwrap();
    let seen = &picture[owner].master.as_ref().unwrap().replicas;
    let wanted = seen.iter().find(|r| r.closed == closed).unwrap();
    let holder = picture.iter().position(|s| s.id == wanted.backup).unwrap();
    let log = picture[owner].id;
    let held = &picture[holder].held;
    let at = held.iter().position(|h| h.log.server == log && h.segment == wanted.segment).unwrap();
    (owner, holder, at)
}

const KINDS: &[(&str, Falsify)] = &[
    ("a tablet that nobody has", |p| {
        master(p).tablets.pop();
    }),
    ("a tablet that nobody serves", |p| master(p).tablets[0].serving = false),
    ("two owners", |p| {
        let tablet = master(p).tablets[0];
        let other = p.iter_mut().filter_map(|s| s.master.as_mut()).min_by_key(|m| m.segments.len()).unwrap();
        other.tablets.push(tablet);
    }),
    ("tablets that overlap", |p| {
        let half = master(p).tablets[0];
        master(p).tablets.push(ramhold_master::TabletSeen { first: KeyHash(5), ..half });
    }),
    ("a tablet of no table", |p| {
        let tablet = master(p).tablets[0];
        master(p).tablets.push(ramhold_master::TabletSeen { table: TableId(999), ..tablet });
    }),
    ("a tablet that is cut and not stored so", |p| {
        let whole = master(p).tablets[0];
        master(p).tablets[0].last = KeyHash(99);
        master(p).tablets.push(ramhold_master::TabletSeen { first: KeyHash(100), ..whole });
    }),
    ("the first hash has no owner", |p| master(p).tablets[0].first = KeyHash(1)),
    ("the last hash has no owner", |p| master(p).tablets[0].last = KeyHash(u64::MAX - 1)),
    ("a replica that is not held", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held.remove(at);
    }),
    ("a replica that another holds", |p| {
        let (owner, holder, at) = replica(p, true);
        let moved = p[holder].held.remove(at);
        let elsewhere = (0..p.len()).find(|s| *s != holder && *s != owner).unwrap();
        p[elsewhere].held.push(moved);
    }),
    ("a replica that is held twice", |p| {
        let (_, holder, at) = replica(p, true);
        let again = p[holder].held[at];
        p[holder].held.push(again);
    }),
    ("a replica for nobody", |p| {
        let (_, holder, at) = replica(p, true);
        let mut extra = p[holder].held[at];
        extra.segment = SegmentId(9999);
        p[holder].held.push(extra);
    }),
    ("a replica of another log", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].log.server = ServerId(777);
    }),
    ("a certificate that is too short", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].certificate.as_mut().unwrap().length -= 1;
    }),
    ("a certificate of other bytes", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].certificate.as_mut().unwrap().crc ^= 1;
    }),
    ("a closed replica without a certificate", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].certificate = None;
    }),
    ("a replica of another epoch", |p| {
        let (_, holder, at) = replica(p, false);
        let held = &mut p[holder].held[at];
        held.epoch = Epoch(held.epoch.raw() + 1);
    }),
    ("a replica that is open and counts as closed", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].closed = false;
    }),
    ("a replica that is closed and counts as open", |p| {
        let (_, holder, at) = replica(p, false);
        p[holder].held[at].closed = true;
    }),
    ("a cut replica", |p| {
        let (_, holder, at) = replica(p, false);
        p[holder].held[at].cut = true;
    }),
    ("a corrupt replica", |p| {
        let (_, holder, at) = replica(p, true);
        p[holder].held[at].corrupt = true;
    }),
    ("replicas of no segment", |p| {
        let (owner, holder, at) = replica(p, true);
        let segment = p[holder].held[at].segment;
        p[owner].master.as_mut().unwrap().segments.retain(|s| s.id != segment);
    }),
    ("a replica too few, on both sides", |p| {
        let (owner, holder, at) = replica(p, true);
        let held = p[holder].held.remove(at);
        let backup = p[holder].id;
        let master = p[owner].master.as_mut().unwrap();
        master.replicas.retain(|r| (r.segment, r.backup) != (held.segment, backup));
    }),
    ("a replica too many, on both sides", |p| {
        let (owner, holder, at) = replica(p, true);
        let held = p[holder].held[at];
        let backup = p[holder].id;
        let holds = |s: &ServerSeen| s.held.iter().any(|h| h.log == held.log && h.segment == held.segment);
        let new = (0..p.len()).find(|s| *s != owner && !holds(&p[*s])).unwrap();
        let id = p[new].id;
        p[new].held.push(held);
        let master = p[owner].master.as_mut().unwrap();
        let same = |r: &&ramhold_replication::ReplicaSeen| (r.segment, r.backup) == (held.segment, backup);
        let mut seen = *master.replicas.iter().find(same).unwrap();
        seen.backup = id;
        master.replicas.push(seen);
    }),
    ("two replicas on one backup", |p| {
        let replicas = &mut master(p).replicas;
        let (first, second) = (replicas[0], replicas[1]);
        assert_eq!(first.segment, second.segment);
        replicas[1].backup = first.backup;
    }),
    ("a replica on its own server, on both sides", |p| {
        let (owner, holder, at) = replica(p, true);
        let held = p[holder].held.remove(at);
        let (backup, own) = (p[holder].id, p[owner].id);
        p[owner].held.push(held);
        let master = p[owner].master.as_mut().unwrap();
        let same =
            |r: &&mut ramhold_replication::ReplicaSeen| (r.segment, r.backup) == (held.segment, backup);
        master.replicas.iter_mut().find(same).unwrap().backup = own;
    }),
    ("a stream with another number of replicas", |p| {
        *master(p).streams.values_mut().next().unwrap() = 2;
    }),
    ("a server that does not run", |p| {
        p.pop();
    }),
    ("a server that does not serve", |p| p[1].phase = Phase::Enlisting),
    ("a server that knows a dead one", |p| p[1].listed += 1),
    ("a server that does not know one", |p| p[1].listed -= 1),
    ("a server without a master", |p| p[1].master = None),
    ("segments that are being copied", |p| master(p).fully_replicated = false),
    ("damage in memory", |p| {
        let segment = master(p).segments[0].id;
        master(p).damaged.push(segment);
    }),
    ("a head that is being closed", |p| {
        let head = master(p).replicas.iter().find(|r| !r.closed).unwrap().segment;
        master(p).segments.iter_mut().find(|s| s.id == head).unwrap().closed = true;
    }),
];

#[test]
fn every_kind_of_falsehood_in_a_real_picture_is_rejected() {
    assert!(KINDS.len() >= 20);
    let mut stage = Stage::new(SERVERS);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 120);
    stage.settle();
    let (truth, tables) = (stage.seen(), stage.tables());
    assert_eq!(under_way(SERVERS, &truth), None);
    assert_eq!(disagreements(Some(3), &tables, &truth), Vec::<String>::new());
    let rejects = |picture: &Picture| {
        under_way(SERVERS, picture).is_some() || !disagreements(Some(3), &tables, picture).is_empty()
    };
    for (name, falsify) in KINDS {
        let mut picture = truth.clone();
        falsify(&mut picture);
        assert!(rejects(&picture), "{name} is accepted");
    }
}
