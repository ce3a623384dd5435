//! Pages between bricks that hold what no brick has (docs/protocols/quorum.md, rule 89).

use crate::pages::{has_said, log};
use crate::rig::{MILLI, Rig, TABLE};
use crate::runs::{BUFFERED, seeds};
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterTime, Stamp, Status};
use ramhold_wire::bricks::{PageRecord, TabletPageTold};
use ramhold_wire::control::encode_into;
use ramhold_wire::{Kind, Opcode, decode, frame};

const SECOND: u64 = 1000 * MILLI;
const FORGED: &[u8] = b"forged";

fn work(rig: &mut Rig, operations: u32) {
    rig.left = operations;
    (0..2).for_each(|client| rig.go_on(client));
    rig.finish();
}

impl Rig {
    /// The answer of a brick to a question for a page has the forged record, too.
    pub(crate) fn with_forged(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(forged) = &self.forged else { return bytes };
        let (header, body) = frame::parse(&bytes).unwrap();
        let is_page = header.kind == Kind::Reply && header.opcode() == Some(Opcode::TabletPage);
        if !is_page || header.status() != Status::Ok {
            return bytes;
        }
        let mut told: TabletPageTold = decode(body).unwrap();
        let has_values = told.records.iter().any(|record| record.value.is_some());
        if has_values != forged.value.is_some() {
            return bytes;
        }
        told.records.push(forged.clone());
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| encode_into(out, &told));
        bytes
    }

    /// The forged record, as of now.
    fn forge(&mut self, seed: u64) -> bool {
        let time = self.hosts[1].node.as_ref().unwrap().brick.time(self.instant());
        let fine = PageRecord {
            position: 0,
            key: FORGED.to_vec(),
            stamp: Stamp { time, session: 4 },
            value: Some(b"1".to_vec()),
            expires: Some(ClusterTime(u64::MAX)),
            is_tombstone: false,
        };
        let (stamps, session) = (fine.clone(), Stamp { time, session: 0 });
        self.forged = Some(match seed % 6 {
            // Nobody has asked for it.
            0 => fine,
            1 => PageRecord { key: vec![7; KEY_BYTES_MAX + 1], ..fine },
            2 => PageRecord { value: Some(vec![7; VALUE_BYTES_MAX + 1]), ..fine },
            3 => PageRecord { stamp: session, ..fine },
            4 => PageRecord { stamp: session, value: None, expires: None, ..stamps },
            _ => PageRecord { key: vec![7; KEY_BYTES_MAX + 1], value: None, expires: None, ..stamps },
        });
        seed.is_multiple_of(6)
    }

    fn has_forged(&self) -> bool {
        let hash = PlacementHasher::new(PlacementSeed(5)).hash(FORGED);
        self.hosts.iter().any(|host| log(host).newest(TABLE, hash, FORGED).unwrap().is_some())
    }
}

// I6: rule 89. The log asserts that a record is possible, and a sweep stores no key that it has not compared.
#[test]
fn a_sweep_stores_nothing_of_a_forged_page() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 100);
        rig.finish();
        let away = rig.rng.below(3) as usize;
        rig.kill(away);
        work(&mut rig, 100);
        rig.start(away);
        rig.run_until(Rig::all_vote);
        let is_possible = rig.forge(seed);
        rig.run_for(70 * SECOND);
        assert!(!rig.has_forged());
        assert!(is_possible || rig.hosts.iter().any(|host| has_said(host, "no log can hold")));
        rig.forged = None;
        rig.run_for(130 * SECOND);
        assert!((1..3).all(|host| rig.stamps_of_values(host) == rig.stamps_of_values(0)));
        rig.read_all();
        rig.check();
    }
}

// I6: rule 89.
#[test]
fn a_rebuilding_stores_nothing_of_a_forged_page_and_ends_without_it() {
    let mut refused = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 100);
        rig.finish();
        let lost = rig.rng.below(3) as usize;
        let is_possible = rig.forge(seed);
        rig.cut_power(lost);
        rig.start(lost);
        rig.run_for(5 * SECOND);
        assert!(!rig.has_forged());
        // Not every power cut takes a value away that is then asked for.
        refused += u32::from(!is_possible && has_said(&rig.hosts[lost], "no log can hold"));
        rig.forged = None;
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
    assert!(refused > 0, "no forged page was seen");
}
