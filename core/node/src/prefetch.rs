//! Prefetches the memory that requests of several connections will need, for all of them together.

use crate::server::{Phase, ServerNode};
use ramhold_base::Coming;
use ramhold_master::Wanted;
use ramhold_wire::frame;

/// The most frames of one connection that are looked at ahead.
const FRAME_COUNT_MAX: usize = 256;

impl ServerNode {
    pub(crate) fn look_ahead(&self, coming: &mut dyn Iterator<Item = Coming<'_>>) {
        let Some(master) = self.master.as_ref().filter(|_| self.phase == Phase::Serving) else { return };
        let mut wanted = master.wanted();
        for Coming { from, bytes } in coming {
            if bytes.first() == Some(&frame::MAGIC[0]) {
                frames_ahead(bytes, &mut wanted);
            } else if let Some(resp) = &self.resp {
                resp.ahead(from, bytes, |table, key| wanted.key(table, key));
            }
        }
        wanted.fetch();
    }
}

fn frames_ahead(mut bytes: &[u8], wanted: &mut Wanted<'_>) {
    for _ in 0..FRAME_COUNT_MAX {
        let Ok(Some(length)) = frame::length(bytes) else { return };
        let Some((whole, rest)) = bytes.split_at_checked(length) else { return };
        let (opcode, body) = frame::glance(whole);
        if let Some(opcode) = opcode {
            wanted.request(opcode, body);
        }
        bytes = rest;
    }
}
