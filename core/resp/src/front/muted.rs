//! Replies that a client does not want: `CLIENT REPLY`.
//!
//! A request whose reply is left out takes effect all the same, and keeps its place among the requests under
//! way. Only the bytes of the reply are left out.

use super::connection::Connection;
use super::flow::Taking;
use super::{Host, Resp};
use crate::{Command, Fault, Front, Reply, Run, find};
use ramhold_base::{ConnId, Effects, Instant};

/// The setting that `CLIENT REPLY` has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replies {
    Sent,
    /// The reply to the next request is left out.
    NextSkipped,
    /// The request whose reply is left out is being treated.
    Skipped,
    /// No replies are sent; messages of subscriptions are.
    Off,
}

/// Carries out `CLIENT REPLY` itself.
pub(super) fn choose(connection: &mut Connection, word: &[u8], reply: &mut Reply<'_>) {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => {
            connection.replies = Replies::Sent;
            reply.ok();
        }
        b"off" => connection.replies = Replies::Off,
        b"skip" if connection.replies == Replies::Off => {}
        b"skip" => connection.replies = Replies::NextSkipped,
        _ => reply.fault(&Fault::SYNTAX),
    }
}

impl Resp {
    /// Begins one whole request, and leaves out its reply if the client does not want one (`CLIENT REPLY`).
    pub(super) fn request_muted(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        args: &[&[u8]],
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taking {
        let before = connection.replies;
        if before == Replies::Sent {
            return self.request(now, conn, connection, args, out, host, effects);
        }
        if before == Replies::NextSkipped {
            connection.replies = Replies::Skipped;
        }
        let (sent, begun) = (out.len(), connection.running.len());
        if let Taking::Later = self.request(now, conn, connection, args, out, host, effects) {
            connection.replies = before;
            return Taking::Later;
        }
        // `CLIENT REPLY` decides on its own reply. Confirmations of subscriptions are messages, so they are
        // sent.
        let is_wanted = match connection.replies {
            Replies::Sent | Replies::NextSkipped => true,
            Replies::Skipped | Replies::Off => {
                find(args.first().copied().unwrap_or_default()).is_some_and(confirms)
            }
        };
        if connection.replies == Replies::Skipped {
            connection.replies = Replies::Sent;
        }
        if !is_wanted {
            out.truncate(sent);
            connection.running.iter_mut().skip(begun).for_each(|running| running.is_muted = true);
        }
        Taking::Done
    }
}

/// Whether the command's replies are pushed, as messages are.
fn confirms(row: &Command) -> bool {
    let Run::Front(front) = row.run else { return false };
    matches!(
        front,
        Front::Subscribe
            | Front::Unsubscribe
            | Front::PSubscribe
            | Front::PUnsubscribe
            | Front::SSubscribe
            | Front::SUnsubscribe
    )
}
