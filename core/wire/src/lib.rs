//! Every message that Ramhold processes send each other, to the byte.
//!
//! A frame is a fixed header with all identity fields, and a body. Bodies of the data plane (reads, writes,
//! appends to replicas, recovery data) are laid out by hand in `data`. The control plane uses CBOR structs,
//! one file per conversation. Roles meet in this crate and nowhere else.
//!
//! Not here: how a role acts on a message. Formats: docs/formats/frame.md, docs/formats/messages.md.

pub mod accounts;
pub mod ask;
pub mod brick_page;
pub mod brick_status;
pub mod bricks;
pub mod calls;
pub mod class;
pub mod clock;
pub mod commit;
pub mod control;
pub mod copies;
pub mod count;
pub mod data;
pub mod frame;
pub mod lease;
pub mod local;
pub mod membership;
pub mod multi;
pub mod neighbours;
pub mod obstacle;
pub mod opcode;
pub mod outage;
mod packed;
pub mod pubsub;
pub mod quorum;
mod read_times;
pub mod recovery;
mod replica_placement;
pub mod restart;
pub mod scan;
pub mod server_list;
pub mod shortage;
pub mod statistics;
pub mod status;
mod step;
pub mod table;
pub mod topology;

pub use calls::{Call, CallRole, Calls, Gone};
pub use control::{Message, decode, refuse_malformed, reply, reply_with, request};
pub use frame::{BadFrame, Header, Kind};
pub use opcode::{
    Addressee, ForBackup, ForBrick, ForCoordinator, ForMaster, ForObject, ForProcess, ForServer,
    ForSupervisor, Gate, Opcode,
};
pub use replica_placement::{NEIGHBOURHOODS_MAX, Neighbouring, ReplicaPlacement};
pub use server_list::{ServerList, Standing, View};
pub use step::Step;
