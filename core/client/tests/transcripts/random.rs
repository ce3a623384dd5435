//! Random weather: every operation ends exactly once, by its deadline, and never better than the truth.

use crate::fake::*;
use ramhold_base::{LeaseId, Lost, Machine, Rng, Sequence, Status};
use ramhold_client_core::{OperationId, Outcome};
use ramhold_wire::data::WriteRequest;
use ramhold_wire::{Header, Opcode};
use std::collections::BTreeMap;
use std::time::Duration;

/// The fate of one operation's writes in the played cluster. Operations are told apart by their values.
#[derive(Default)]
struct Truth {
    executed: u32,
    ended: u32,
}

#[test]
fn whatever_happens_an_operation_ends_once_and_tells_the_truth() {
    // B5
    for seed in 0..300 {
        weather(seed);
    }
}

fn weather(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fake = Fake::with(|config| config.deadline = Duration::from_secs(4));
    let mut truths: BTreeMap<OperationId, Truth> = BTreeMap::new();
    let mut by_value: BTreeMap<Vec<u8>, OperationId> = BTreeMap::new();
    let mut answers: Vec<(Sent, Status, u64)> = Vec::new();
    let mut seen: BTreeMap<(LeaseId, Sequence), Option<(Status, u64)>> = BTreeMap::new();
    let mut floors: BTreeMap<LeaseId, Sequence> = BTreeMap::new();
    let end = fake.now + Duration::from_secs(20);
    let mut value = 0u64;
    while fake.now < end || fake.session.deadline().is_some() {
        if fake.now < end && rng.chance(1, 3) && fake.session.under_way_count() < 20 {
            let count = if rng.chance(1, 3) { rng.between(2, 6) } else { 1 };
            let values: Vec<[u8; 8]> = (value + 1..=value + count).map(u64::to_le_bytes).collect();
            value += count;
            let operations = values.iter().map(|bytes| write(&bytes[..2], bytes)).collect();
            for (id, bytes) in fake.start_all(operations).into_iter().zip(values) {
                by_value.insert(bytes.to_vec(), id);
                truths.insert(id, Truth::default());
            }
        }
        for sent in std::mem::take(&mut fake.sent) {
            if sent.opcode() == Opcode::TableDescribe {
                let parts = *rng.pick(&[ALL_AT_1, ALL_AT_2, HALVES, RECOVERING]).unwrap();
                if rng.chance(4, 5) {
                    fake.answer_with(&sent, &description(parts));
                }
                continue;
            }
            let id = by_value[WriteRequest::decode(&sent.body).unwrap().value];
            let number = (sent.header.lease, sent.header.sequence);
            let floor = floors.entry(number.0).or_default();
            if number.1 < *floor {
                fake.pass_over(&sent);
                continue;
            }
            *floor = sent.header.unacknowledged.max(*floor);
            // A server remembers a result, or that it has refused.
            match seen.get(&number) {
                Some(Some((status, version))) => {
                    answers.push((sent, *status, *version));
                    continue;
                }
                Some(None) if !sent.header.repeated => {
                    answers.push((sent, Status::Retry, 0));
                    continue;
                }
                Some(None) | None => {}
            }
            match rng.below(10) {
                0 => fake.pass_over(&sent),
                1 => {
                    truths.get_mut(&id).unwrap().executed += 1; // And the answer is lost.
                    seen.insert(number, Some((Status::Ok, 7)));
                    if rng.chance(1, 2) {
                        fake.pass_over(&sent);
                    }
                }
                2..=5 => {
                    truths.get_mut(&id).unwrap().executed += 1;
                    seen.insert(number, Some((Status::Ok, 7)));
                    answers.push((sent, Status::Ok, 7));
                }
                6 => {
                    seen.insert(number, Some((Status::WrongVersion, 0)));
                    answers.push((sent, Status::WrongVersion, 0));
                }
                7 => answers.push((sent, *rng.pick(&[Status::WrongOwner, Status::Recovering]).unwrap(), 0)),
                _ => {
                    seen.insert(number, None);
                    let statuses = [Status::Retry, Status::OutOfMemory, Status::TooFewBackups];
                    answers.push((sent, *rng.pick(&statuses).unwrap(), 0));
                }
            }
        }
        // Answers come in any order, late, and twice.
        while !answers.is_empty() && rng.chance(1, 2) {
            let at = rng.below(answers.len() as u64) as usize;
            let (sent, status, version) = answers[at].clone();
            if rng.chance(4, 5) {
                answers.remove(at);
            }
            fake.answer_version(&sent, status, version);
        }
        if rng.chance(1, 40) {
            fake.lose(server(rng.between(1, 2)), Lost::Broken);
        }
        if rng.chance(1, 100) {
            fake.lose(coordinator(0), if rng.chance(1, 2) { Lost::Broken } else { Lost::Refused });
        }
        if fake.sent.is_empty() {
            let most = millis(rng.between(1, 100));
            fake.wait(most);
        }
        while let Some((id, outcome)) = fake.session.take_outcome() {
            let truth = truths.get_mut(&id).unwrap();
            truth.ended += 1;
            match outcome {
                Outcome::Done(_) => assert_eq!(truth.executed, 1, "seed {seed}: done"),
                Outcome::Refused { status, .. } => assert_eq!(truth.executed, 0, "seed {seed}: {status:?}"),
                Outcome::Unknown { .. } => assert!(truth.executed <= 1, "seed {seed}: unknown"),
            }
        }
    }
    assert!(value > 20, "seed {seed}: only {value} operations");
    for (id, truth) in &truths {
        assert_eq!(truth.ended, 1, "seed {seed}: {id:?}");
    }
}

/// The session leaves alone what is not its business.
#[test]
fn a_request_with_the_id_of_an_attempt_is_no_answer() {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(write(b"a", b"1"), ALL_AT_1);
    let mut bytes = Vec::new();
    let header = Header { kind: ramhold_wire::Kind::Request, ..sent.header.answer(Status::Ok) };
    ramhold_wire::frame::write(&mut bytes, &header, |out| out.extend_from_slice(&[0; 8]));
    fake.input(ramhold_base::Input::Frame { from: ramhold_base::ConnId(1), bytes: &bytes });
    fake.expect_none_ended();
}
