//! Scans of a rig's table while clients put and bricks are killed: pages of several bricks, compared, and gets of the keys
//! on which they differ.
//!
//! The word of a scan about a key is a read of it, and so is that it tells nothing of a key whose place it has passed.

use crate::history::Operation;
use crate::network::CLUSTER;
use crate::network::Party;
use crate::rig::{MILLI, Rig, Setting, TABLE, key_of};
use crate::runs::{BUFFERED, SYNCED, seeds};
use crate::sessions::{Doing, GET_WITHIN, PAGE_AGAIN, Value};
use ramhold_base::{KeyHash, RpcId, ServerId, Stamp, Status};
use ramhold_quorum::{
    BrickId, Heard, Life, PageGet, PageGot, PageKey, PageOut, PageRecord, PageSaid, RecordSaid, Thresholds,
};
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::brick_page::{BrickPageReply, BrickPageRequest, BrickPageSaid, PageWants, RecordState};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;

/// Records of a page: so few that a scan has many pages.
const COUNT: u32 = 5;

/// Sums over scans: a scan that meets nothing shows nothing.
#[derive(Default, Debug)]
struct Sums {
    scans: u32,
    pages: u32,
    agreed: u32,
    read: u32,
    kills: u32,
}

impl Rig {
    pub(crate) fn ask_page(&mut self, client: usize, number: u64, position: u64, out: PageOut) {
        let (to, has_values) = match out {
            PageOut::Send { to, has_values } => (to, has_values),
            PageOut::WakeAt(at) => return self.at(at.0, crate::rig::Event::Wake { client, number }),
        };
        let what = if has_values { PageWants::Values } else { PageWants::Lengths };
        let (first, last, bytes) = (KeyHash(0), KeyHash(u64::MAX), 1 << 20);
        let request = BrickPageRequest { table: TABLE, what, first, last, position, count: COUNT, bytes };
        self.rpc_last += 1;
        self.askers.insert(self.rpc_last, (client, number, 0));
        let header = Header {
            cluster: CLUSTER,
            target: ServerId(to.0),
            ..Header::request(Opcode::BrickPage, RpcId(self.rpc_last))
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| request.encode(out));
        self.send(Party::Client(client), Party::Host(to.0 as usize - 1), bytes);
    }

    /// Asks for one page. None: too few bricks have told in time.
    fn page(
        &mut self,
        client: usize,
        position: u64,
        sums: &mut Sums,
    ) -> Option<(Vec<PageKey<Value>>, Option<u64>)> {
        let mut order: Vec<BrickId> = self.hosts.iter().map(|host| BrickId(host.id.raw())).collect();
        self.rng.shuffle(&mut order);
        let now = self.instant();
        let of = (&order[..], Thresholds::majority(3).unwrap(), true);
        let mut get = PageGet::new(now, of, (now + GET_WITHIN, PAGE_AGAIN));
        let mut outs = Vec::new();
        get.start(now, &mut outs);
        let it = &mut self.clients[client];
        it.number += 1;
        let number = it.number;
        it.doing = Doing::Page { get, position, got: None };
        outs.into_iter().for_each(|out| self.ask_page(client, number, position, out));
        if self.rng.chance(1, 6) {
            let wait = self.rng.below(3 * MILLI);
            self.run_for(wait);
            sums.kills += u32::from(self.disturb());
        }
        let has_got = |rig: &Rig| matches!(&rig.clients[client].doing, Doing::Page { got: Some(_), .. });
        self.run_until(has_got);
        let doing = std::mem::replace(&mut self.clients[client].doing, Doing::Nothing);
        match doing {
            Doing::Page { got: Some(PageGot::Found { keys, next, .. }), .. } => Some((keys, next)),
            Doing::Page { got: Some(PageGot::NoQuorum(_)), .. } => None,
            _ => panic!("nobody moves"),
        }
    }

    /// Kills a brick for a while, if all are up.
    fn disturb(&mut self) -> bool {
        let all = self.all_serve();
        if all {
            let host = self.rng.below(3) as usize;
            self.kill(host);
            let away = self.rng.between(1, 100) * MILLI;
            self.start_after(host, away);
        }
        all
    }

    /// Scans the whole table. `places` are the positions of keys, as far as any page has told them.
    fn scan(&mut self, client: usize, places: &mut BTreeMap<usize, u64>, sums: &mut Sums) {
        let number_of: BTreeMap<Vec<u8>, usize> =
            (0..self.setting.keys).map(|key| (key_of(key), key)).collect();
        let mut told = vec![0; self.setting.keys];
        let mut position = 0;
        loop {
            let began = self.now;
            let Some((keys, next)) = self.page(client, position, sums) else { continue };
            sums.pages += 1;
            let ended = self.now;
            let mut met = Vec::new();
            for PageKey { position, key, agreed } in keys {
                let key = number_of[&key];
                places.insert(key, position);
                met.push(key);
                told[key] += 1;
                let Some((_, value)) = agreed else {
                    sums.read += 1;
                    self.get(client, key);
                    continue;
                };
                sums.agreed += 1;
                let value = u64::from_le_bytes(*value.first_chunk().unwrap());
                self.histories[key].push(Operation { is_put: false, value, began, ended });
            }
            let is_passed = |place: u64| place >= position && next.is_none_or(|next| place < next);
            let passed = places.iter().filter(|(key, place)| is_passed(**place) && !met.contains(key));
            for (key, _) in passed {
                self.histories[*key].push(Operation { is_put: false, value: 0, began, ended });
            }
            let Some(next) = next else { break };
            assert!(next > position);
            position = next;
        }
        assert!(told.iter().all(|times| *times <= 1), "{told:?}");
        sums.scans += 1;
    }

    /// Reads a key, however often it must be tried.
    fn get(&mut self, client: usize, key: usize) {
        loop {
            let failed = self.failed;
            self.begin_on(client, key, false);
            self.run_until(|rig| matches!(rig.clients[client].doing, Doing::Nothing));
            if self.failed == failed {
                return;
            }
        }
    }
}

pub(crate) fn heard(from: ServerId, body: &[u8]) -> Heard<PageSaid<Value>> {
    let BrickPageReply { head, records } = BrickPageReply::decode(body).unwrap();
    let said = match head.said {
        BrickPageSaid::WrongOwner => PageSaid::WrongOwner,
        BrickPageSaid::Page { next, has_values } => {
            let records = records.iter().map(|record| PageRecord {
                position: record.position,
                key: record.key.to_vec(),
                said: match record.state {
                    RecordState::Open => RecordSaid::Open,
                    RecordState::Tombstone(stamp) => RecordSaid::Stored(stamp, None),
                    RecordState::Value { stamp, value, .. } => {
                        RecordSaid::Stored(stamp, Some(value.unwrap_or_default().to_vec()))
                    }
                },
            });
            PageSaid::Page { records: records.collect(), next, has_values }
        }
    };
    let siblings = head.siblings.iter().map(|(brick, life)| (BrickId(brick.raw()), Life(*life)));
    let (from, life, siblings) = (BrickId(from.raw()), Life(head.life), siblings.collect());
    Heard { from, life, siblings, epoch: head.epoch, clock: head.clock, said }
}

/// Scans while clients write and bricks are killed.
fn scans_are_reads(setting: Setting) {
    let mut sums = Sums::default();
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, setting);
        rig.add_clients(4, 1000);
        // The last client scans, and does nothing else.
        rig.add_clients(1, 0);
        let mut places = BTreeMap::new();
        while rig.left > 0 {
            rig.scan(4, &mut places, &mut sums);
            let wait = rig.rng.below(20 * MILLI);
            rig.run_for(wait);
        }
        rig.finish();
        rig.run_until(Rig::all_vote);
        rig.scan(4, &mut places, &mut sums);
        rig.read_all();
        rig.check();
    }
    println!("{sums:?}");
    assert!(sums.agreed > sums.read && sums.read > 0 && sums.kills > 0, "{sums:?}");
}

// A6, I1
#[test]
fn a_scan_tells_every_key_as_a_read_would_while_bricks_are_killed() {
    scans_are_reads(BUFFERED);
}

// A6, I1
#[test]
fn a_scan_of_a_synced_table_tells_every_key_as_a_read_would() {
    scans_are_reads(SYNCED);
}

const WHOLE: BrickPageRequest = BrickPageRequest {
    table: TABLE,
    what: PageWants::Values,
    first: KeyHash(0),
    last: KeyHash(u64::MAX),
    position: 0,
    count: 100,
    bytes: 1 << 20,
};

/// The answer of the first brick to a question that the test itself asks.
fn told(rig: &mut Rig, request: BrickPageRequest) -> (Status, Vec<u8>) {
    rig.told.clear();
    let request_header = Header::request(Opcode::BrickPage, RpcId(2));
    let header = Header { cluster: CLUSTER, target: ServerId(1), ..request_header };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| request.encode(out));
    rig.on_frame(Party::Test, Party::Host(0), bytes);
    let is_page = |header: &Header| header.opcode() == Some(Opcode::BrickPage);
    rig.run_until(|rig| rig.told.iter().any(|(header, _)| is_page(header)));
    let (header, body) = rig.told.iter().find(|(header, _)| is_page(header)).unwrap();
    (header.status(), body.clone())
}

// A6, I1: nothing is told that a kill or a loss of power could take back.
#[test]
fn a_page_does_not_tell_what_is_not_durable() {
    let mut rig = Rig::new(1, SYNCED);
    let stamp = Stamp { time: crate::host::DATE_MILLIS * 1000, session: 2 };
    let value = Some(StampedValue { bytes: b"value", expires: None });
    let begun = stamp.time + rig.now / 1000;
    let what = AskWhat::Write(AskedWrite { stamp, begun, is_repair: false, value });
    let header = Header { cluster: CLUSTER, target: ServerId(1), ..Header::request(Opcode::Ask, RpcId(1)) };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| AskRequest { table: TABLE, key: b"key", what }.encode(out));
    rig.on_frame(Party::Test, Party::Host(0), bytes);
    let (status, body) = told(&mut rig, WHOLE);
    let reply = BrickPageReply::decode(&body).unwrap();
    let states: Vec<RecordState<'_>> = reply.records.iter().map(|record| record.state).collect();
    assert_eq!((status, states), (Status::Ok, vec![RecordState::Open]), "the device does not have it yet");
    rig.run_for(100 * MILLI);
    let (_, body) = told(&mut rig, WHOLE);
    let state = BrickPageReply::decode(&body).unwrap().records[0].state;
    let whole = RecordState::Value { stamp, expires: None, bytes: 5, value: Some(b"value") };
    assert_eq!(state, whole);
}

// A6
#[test]
fn pages_of_any_size_tell_every_key_of_a_brick_once() {
    let mut rig = Rig::new(2, BUFFERED);
    rig.add_clients(4, 400);
    rig.finish();
    rig.run_for(100 * MILLI);
    let mut keys_of_all = None;
    for (count, bytes) in [(1, 1 << 20), (3, 1 << 20), (100, 1), (100, 2000), (u32::MAX, u32::MAX)] {
        let mut ends = Vec::new();
        for what in [PageWants::Values, PageWants::Lengths, PageWants::Keys] {
            let mut request = BrickPageRequest { what, count, bytes, ..WHOLE };
            let (mut met, mut ended) = (Vec::new(), Vec::new());
            loop {
                let (status, body) = told(&mut rig, request);
                let BrickPageReply { head, records } = BrickPageReply::decode(&body).unwrap();
                assert!(status == Status::Ok && records.len() <= count as usize);
                assert!(records.len() <= 1 || body.len() < bytes as usize + 100);
                met.extend(records.iter().map(|record| record.key.to_vec()));
                let BrickPageSaid::Page { next, has_values } = head.said else { panic!("it holds all") };
                assert_eq!(has_values, what == PageWants::Values);
                let Some(next) = next else { break };
                ended.push(next);
                request.position = next;
            }
            met.sort_unstable();
            assert!(met.len() > 10 && met.windows(2).all(|pair| pair[0] < pair[1]), "each key once");
            assert_eq!(keys_of_all.get_or_insert(met.clone()), &met);
            ends.push(ended);
        }
        assert_eq!(ends[0], ends[1], "a page without values ends where one with values does");
    }
    let strange = BrickPageRequest { table: ramhold_base::TableId(99), ..WHOLE };
    assert_eq!(told(&mut rig, strange).0, Status::UnknownTable);
    // It has started, and has not heard its siblings' clocks yet.
    (0..3).for_each(|host| rig.kill(host));
    rig.start(0);
    rig.run_until(|rig| rig.hosts[0].node.as_ref().is_some_and(|node| node.brick.is_serving()));
    assert_eq!(told(&mut rig, WHOLE).0, Status::NotReady);
}
