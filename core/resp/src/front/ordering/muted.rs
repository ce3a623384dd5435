//! Replies that a client does not want: `CLIENT REPLY`.
//!
//! A request whose reply is left out takes effect all the same, and keeps its place among the requests under
//! way. Only the bytes of the reply are left out.

use super::turn::Turn;
use crate::find;
use crate::front::clients::client::Client;
use crate::front::clients::replies::Replies;

/// A request that begins while its client may not want replies.
pub struct Muting {
    /// Bytes that went out, and commands that were under way, before the request.
    sent: usize,
    begun: usize,
}

impl Muting {
    /// Notes that a request begins. `None`: the client wants its reply.
    pub fn begin(client: &mut Client, sent: usize, begun: usize) -> Option<Muting> {
        match client.replies {
            Replies::Sent => return None,
            Replies::NextSkipped => client.replies = Replies::Skipped,
            Replies::Skipped | Replies::Off => {}
        }
        Some(Muting { sent, begun })
    }

    /// Leaves out the reply of the request that has begun, if the client does not want it.
    pub fn end(self, turn: &mut Turn<'_>, client: &mut Client, args: &[&[u8]]) {
        // `CLIENT REPLY` decides on its own reply. Confirmations of subscriptions are messages, so they are
        // sent.
        let is_wanted = match client.replies {
            Replies::Sent | Replies::NextSkipped => true,
            Replies::Skipped | Replies::Off => {
                find(args.first().copied().unwrap_or_default()).is_some_and(|row| row.confirms())
            }
        };
        if client.replies == Replies::Skipped {
            client.replies = Replies::Sent;
        }
        if !is_wanted {
            turn.out.truncate(self.sent);
            turn.queue.behind(self.begun).for_each(|running| running.is_muted = true);
        }
    }
}
