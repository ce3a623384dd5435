//! The words of the register as messages, and the other way round.
//!
//! Not here: the bytes (core/wire). Catalogue: I1.

use crate::Value;
use crate::question::{Answered, Asker, PageTold, Refusal};
use ramhold_base::{Peer, ServerId, Status};
use ramhold_quorum::{Ask, Heard, Said, Write};
use ramhold_wire::ask::{AskReply, AskSaid, AskWhat, StampedValue};
use ramhold_wire::brick_page::BrickPageHead;
use ramhold_wire::control::encode_into;
use ramhold_wire::{Header, Kind, Opcode, Step, frame};

pub(crate) fn ask_of(what: AskWhat<'_>) -> Ask<Value> {
    match what {
        AskWhat::Value => Ask::Value,
        AskWhat::Stamp => Ask::Stamp,
        AskWhat::Write(write) => Ask::Write(Write {
            stamp: write.stamp,
            value: write.value.map(|it| Value { bytes: it.bytes.to_vec(), expires: it.expires }),
            begun: write.begun,
            is_repair: write.is_repair,
        }),
    }
}

/// The header of an answer of this brick.
fn answer(step: &Step<'_>, opcode: Opcode, asker: Asker, status: Status) -> Header {
    Header {
        kind: Kind::Reply,
        status: status.code(),
        cluster: step.view.cluster,
        sender: step.view.me,
        target: asker.brick,
        ..Header::request(opcode, asker.rpc)
    }
}

pub(crate) fn answer_refused(step: &mut Step<'_>, opcode: Opcode, asker: Asker, refusal: Refusal) {
    let header = answer(step, opcode, asker, refusal.status());
    step.effects.send_with(Peer::Conn(asker.conn), |out| frame::write(out, &header, |_| {}));
}

pub(crate) fn answer_told<T: minicbor::Encode<()>>(
    step: &mut Step<'_>,
    opcode: Opcode,
    asker: Asker,
    told: &T,
) {
    let header = answer(step, opcode, asker, Status::Ok);
    step.effects.send_with(Peer::Conn(asker.conn), |out| {
        frame::write(out, &header, |out| encode_into(out, told));
    });
}

pub(crate) fn answer_asked(step: &mut Step<'_>, answered: &Answered) {
    let said = match &answered.answer.said {
        Said::Value(stamp, value) => AskSaid::Value(
            *stamp,
            value.as_ref().map(|it| StampedValue { bytes: &it.bytes, expires: it.expires }),
        ),
        Said::Stamp(stamp) => AskSaid::Stamp(*stamp),
        Said::Applied => AskSaid::Applied,
        Said::Rejected(stamp) => AskSaid::Rejected(*stamp),
        Said::Unknown(stamp) => AskSaid::Unknown(*stamp),
        Said::WrongOwner => AskSaid::WrongOwner,
    };
    let reply = AskReply {
        life: answered.answer.life.0,
        siblings: siblings(&answered.answer),
        epoch: answered.answer.epoch,
        clock: answered.answer.clock,
        said,
    };
    let header = answer(step, Opcode::Ask, answered.asker, Status::Ok);
    step.effects.send_with(Peer::Conn(answered.asker.conn), |out| {
        frame::write(out, &header, |out| reply.encode(out));
    });
}

pub(crate) fn answer_page(step: &mut Step<'_>, asker: Asker, told: &PageTold) {
    let Heard { life, epoch, clock, said, .. } = told.head;
    let head = BrickPageHead { life: life.0, siblings: siblings(&told.head), epoch, clock, said };
    let header = answer(step, Opcode::BrickPage, asker, Status::Ok);
    step.effects.send_with(Peer::Conn(asker.conn), |out| {
        frame::write(out, &header, |out| {
            head.encode(out);
            out.extend_from_slice(&told.records);
        });
    });
}

fn siblings<S>(heard: &Heard<S>) -> Vec<(ServerId, u64)> {
    heard.siblings.iter().map(|(brick, life)| (ServerId(brick.0), life.0)).collect()
}
