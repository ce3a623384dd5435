//! The status of an answer: done, or refused, and what the asker may do about it.
//!
//! A refusal states that the request had no effect. "Unknown" is never a status: a caller concludes it when
//! no answer came (consistency rule 10, architecture decision 6).

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Sent and persisted: a number is never used for something else.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Status { $($(#[$doc])* $name = $code,)* }

        impl Status {
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            pub fn from_code(code: u16) -> Option<Status> {
                match code { $($code => Some(Status::$name),)* _ => None }
            }

            pub const fn code(self) -> u16 {
                self as u16
            }

            /// One sentence for a human, without a full stop.
            pub const fn text(self) -> &'static str {
                match self { $(Status::$name => $text,)* }
            }
        }
    };
}

statuses! {
    Ok = 0, "done";
    // Answers about objects.
    NotFound = 1, "the object does not exist";
    Exists = 2, "the object exists already";
    WrongVersion = 3, "the object has another version";
    /// Never served, and never taken for absent.
    Corrupt = 4, "the object is damaged in the server's memory and no replica of it can be read";
    NotANumber = 5, "the object's value is not a number of this kind";
    OutOfRange = 6, "the sum is beyond the range of such numbers";
    /// About a commit. Only a change of the tablets' owners changes this.
    NotTogether = 7, "the objects are not on one server, or not in one stream of its log";
    // Answers about tables.
    UnknownTable = 10, "no such table";
    TableExists = 11, "a table of this name exists already";
    NameTooLong = 12, "a table name has 1 to 255 bytes";
    TooManyTables = 13, "the cluster holds as many tables as it may";
    TooManyTablets = 14, "the table, or a server, would have more tablets than it may";
    // Limits.
    KeyTooLarge = 20, "a key has at most 65535 bytes";
    ValueTooLarge = 21, "a value has at most 1048576 bytes";
    OutOfMemory = 22, "the server's log memory is full; remove something or add memory, then try again";
    TooMany = 23, "too many of these at once; try again later";
    AnswerFull = 24, "the answer to so many at once is full; ask again for this one";
    CommitTooLarge = 25, "a commit has at most 256 objects, and its entries fit half a segment";
    // Try again.
    /// Nothing happened; ask the same server again after a short wait.
    Retry = 30, "not possible just now; try again";
    /// This server does not own the key: refresh the tablet map.
    WrongOwner = 31, "the key belongs to another server";
    /// The tablet is being recovered: wait and refresh.
    Recovering = 32, "the tablet is being recovered";
    /// Fewer failure domains are up than a table has replicas. A write may be tried again. A table that is to
    /// be made, altered or truncated stays as it is. The body of the answer is a `Shortage`.
    TooFewBackups = 33, "too few backups in separate failure domains";
    /// The process is starting or stopping.
    NotReady = 34, "the server is starting or stopping";
    /// The server's read lease has lapsed: another server may have the key by now, so refresh the tablet map.
    NotLeased = 35, "the server cannot tell just now whether the key is still its own";
    /// The end of an operation on a quorum table, told by the client itself: too few bricks answered until the
    /// deadline. Nothing was written.
    NoQuorum = 36, "too few of the key's bricks answer";
    // Identity and age of the sender.
    WrongCluster = 40, "the message is for another cluster";
    WrongServer = 41, "the message is for another server that had this address";
    /// The sender was declared dead: it must stop.
    Fenced = 42, "the sender has been declared dead";
    StaleTerm = 43, "the message comes from a deposed coordinator";
    StaleEpoch = 44, "the message carries an old epoch of the segment";
    NotCoordinator = 45, "this process is not the active coordinator";
    NotInCluster = 46, "the sender is not in the server list";
    StateIsOld = 47, "the server holds a newer state of the cluster than this coordinator began with";
    // Backups.
    /// The backup has no room for another replica: choose another backup.
    OpenRefused = 50, "the backup has no room for another replica";
    /// The append does not follow the bytes that the backup holds: send from the offset that the answer
    /// tells.
    OutOfOrder = 51, "the append does not follow what the backup holds";
    UnknownReplica = 52, "the backup holds no such replica";
    CorruptReplica = 53, "the replica's bytes do not match their checksum";
    DeviceFailed = 54, "the backup's device has failed";
    /// About a dead log's records: ask again, with the ranges of all partitions.
    UnknownRanges = 55, "the backup has not been told these ranges";
    // Malformed.
    BadFrame = 60, "the frame is malformed";
    UnsupportedVersion = 61, "the protocol version is not spoken here";
    UnknownOpcode = 62, "no such operation";
    BadRequest = 63, "the request is malformed";
    FrameTooLarge = 64, "the frame is larger than allowed";
    Unsupported = 65, "not supported";
    NotAllowed = 66, "not allowed in the present state";
    /// A server's labels give it no place in the topology. The body of the answer is a `LabelRefusal`.
    LabelRefused = 67, "the server's labels give it no place in the cluster's topology";
    /// A table is to be in a zone that no server of the list has.
    UnknownZone = 68, "no server is in this zone; 'ramhold status --wide' shows the zones";
    // Identity of a client.
    /// Nobody can tell any more whether an earlier attempt had its effect; this attempt had none.
    LeaseOver = 70, "the client's lease is over";
}

impl Status {
    /// Whether the same request, sent to the right place after a wait, may succeed without any change by an
    /// operator.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Status::Retry
                | Status::WrongOwner
                | Status::Recovering
                | Status::TooFewBackups
                | Status::NotReady
                | Status::NotLeased
                | Status::TooMany
                | Status::WrongServer
                | Status::Fenced
                | Status::NotInCluster
                | Status::NotCoordinator
                | Status::StaleTerm
                | Status::OutOfMemory
                | Status::AnswerFull
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for status in Status::ALL {
            assert_eq!(Status::from_code(status.code()), Some(*status));
        }
        assert_eq!(Status::from_code(9999), None);
    }
}
