//! Random weather over updates: coordinators come and go, frames are doubled, held and lost, and every update ends once
//! and with the truth.

use crate::fake::*;
use ramhold_base::{LeaseId, Lost, Machine, Rng, Sequence, Status, TableId};
use ramhold_client_core::{Operation, OperationId, Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::control::decode;
use ramhold_wire::table::{TableCreate, TableCreated};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The result that a coordinator remembers of a number: the table that was made, or the refusal.
type Result = std::result::Result<TableId, Status>;

/// A coordinator as docs/protocols/exactly-once.md has it, 12 to 16.
#[derive(Default)]
struct Played {
    results: BTreeMap<(LeaseId, Sequence), Result>,
    floors: BTreeMap<LeaseId, Sequence>,
    over: BTreeSet<LeaseId>,
    /// The tables made under each name, which is an operation's own.
    made: BTreeMap<String, Vec<TableId>>,
    tables: u32,
}

impl Played {
    /// None: the frame is dropped.
    fn take(&mut self, rng: &mut Rng, sent: &Sent) -> Option<Result> {
        let number = (sent.header.lease, sent.header.sequence);
        if self.over.contains(&number.0) {
            return Some(Err(Status::LeaseOver));
        }
        let floor = self.floors.entry(number.0).or_default();
        *floor = sent.header.unacknowledged.max(*floor);
        if number.1 < *floor {
            return None;
        }
        if let Some(result) = self.results.get(&number) {
            return Some(*result);
        }
        let result = match rng.below(6) {
            0 => Err(Status::Retry),
            1 => Err(Status::TableExists),
            _ => {
                self.tables += 1;
                let name = decode::<TableCreate>(&sent.body).expect("the session sends a creation").name;
                self.made.entry(name).or_default().push(TableId(self.tables));
                Ok(TableId(self.tables))
            }
        };
        self.results.insert(number, result);
        Some(result)
    }
}

#[test]
fn whatever_happens_an_update_ends_once_and_tells_the_truth() {
    // A3, G4
    let mut ends = [0; 3];
    for seed in 0..300 {
        weather(seed, &mut ends);
    }
    assert!(ends.iter().all(|count| *count > 100), "each way to end is met: {ends:?}");
}

fn weather(seed: u64, ends: &mut [u32; 3]) {
    let mut rng = Rng::new(seed);
    let mut fake = Fake::with(|config| {
        config.coordinators = vec![coordinator(0), coordinator(1)];
        config.deadline = Duration::from_secs(4);
    });
    let mut played = Played::default();
    let mut names: BTreeMap<OperationId, String> = BTreeMap::new();
    // Frames on their way, and answers.
    let (mut frames, mut answers) = (Vec::<Sent>::new(), Vec::<(Sent, Result)>::new());
    let mut outcomes: Vec<(OperationId, Outcome, usize)> = Vec::new();
    let end = fake.now + Duration::from_secs(20);
    while fake.now < end || fake.session.deadline().is_some() {
        if fake.now < end && rng.chance(1, 4) && fake.session.under_way_count() < 10 {
            let name = format!("t{}", names.len());
            let create = Operation::CreateTable { name: name.clone(), options: options(), left_open: None };
            names.insert(fake.start(create), name);
        }
        for sent in std::mem::take(&mut fake.sent) {
            assert_eq!(sent.opcode(), Opcode::TableCreate);
            if rng.chance(1, 4) {
                frames.push(sent.clone());
            }
            if rng.chance(9, 10) {
                frames.push(sent);
            }
        }
        while !frames.is_empty() && rng.chance(2, 3) {
            let sent = frames.remove(rng.below(frames.len() as u64) as usize);
            if rng.chance(1, 8) {
                // A coordinator that is starting, has been deposed, or is of another cluster.
                let status = *rng.pick(&[Status::NotReady, Status::NotCoordinator]).expect("two statuses");
                answers.push((sent, Err(status)));
            } else if let Some(result) = played.take(&mut rng, &sent) {
                answers.push((sent, result));
            }
        }
        while !answers.is_empty() && rng.chance(1, 2) {
            let (sent, result) = answers.remove(rng.below(answers.len() as u64) as usize);
            if rng.chance(1, 6) {
                continue;
            }
            match result {
                Ok(table) => fake.answer_with(&sent, &TableCreated { table }),
                Err(status) => fake.answer(&sent, status, b""),
            }
        }
        if rng.chance(1, 60) {
            fake.lose(coordinator(rng.below(2) as u16), Lost::Broken);
        }
        if rng.chance(1, 200) {
            played.over.extend(played.floors.keys().copied());
        }
        if fake.sent.is_empty() {
            fake.wait(millis(rng.between(1, 100)));
        }
        while let Some((id, outcome)) = fake.session.take_outcome() {
            let made = played.made.get(&names[&id]).map_or(0, Vec::len);
            outcomes.push((id, outcome, made));
        }
    }
    // Whatever was doubled arrives in the end.
    for sent in frames {
        played.take(&mut rng, &sent);
    }
    assert_eq!(outcomes.len(), names.len(), "seed {seed}: each ends once");
    for (id, outcome, at_end) in outcomes {
        let made = played.made.get(&names[&id]).map_or(&[][..], Vec::as_slice);
        match outcome {
            Outcome::Done(Reply::TableCreated { table }) => {
                ends[0] += 1;
                assert_eq!(made, [table], "seed {seed}: done");
            }
            Outcome::Refused { status, .. } => {
                ends[1] += 1;
                assert_eq!(at_end, 0, "seed {seed}: {status:?}");
                assert!(made.is_empty(), "seed {seed}: a late frame has made what was refused: {status:?}");
            }
            Outcome::Unknown { .. } => {
                ends[2] += 1;
                assert!(made.len() <= 1, "seed {seed}: unknown");
            }
            Outcome::Done(other) => panic!("seed {seed}: {other:?}"),
        }
    }
}
