//! The class of a stream, and of the tables whose tablets are in it. It is no message; several messages have its fields.

use crate::membership::Durability;

/// How the segments of a stream are kept. A table's options name the class of its tablets' streams. A further property
/// of streams becomes a field here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamClass {
    pub durability: Durability,
    /// Replicas of each segment; 0 if and only if `durability` is `None`.
    pub replicas: u8,
}

/// Gives messages with the fields `durability` and `replicas` the class that these make.
macro_rules! with_class {
    ($($message:ty),*) => {
        $(impl $message {
            pub fn class(&self) -> StreamClass {
                StreamClass { durability: self.durability, replicas: self.replicas }
            }
        })*
    };
}

with_class!(
    crate::packed::PartitionRange,
    crate::status::StreamStatus,
    crate::table::TableOptions,
    crate::table::TabletTake,
    crate::table::TabletReclass
);
