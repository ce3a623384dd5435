//! The operations: the one table of their numbers, of who asks them and who answers, and of the gate before each answer.
//!
//! Each operation is in the group of the role that answers it. A role gets its requests as the enum of its group, so a
//! new operation fails to compile where it must be handled, and nowhere else. `Opcode` names all operations together.
//!
//! Invariant: the number of an operation never changes, and is never used for another one.
//!
//! Not here: the check that a gate stands for (`node`, `coordinator`), the bodies (docs/formats/messages.md).

/// The check that a process makes before it looks at the body of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// None at a server: the request is answered to anybody at any time, or its answerer checks by itself. The
    /// coordinator answers all but `Ping` as behind `Leader`.
    Open,
    /// The request names this cluster and this life of this server.
    Member,
    /// `Member`, and the request is of a coordinator that has not been deposed.
    Coordinator,
    /// `Member`, and the server serves the named shard.
    Serving,
    /// `Serving` and `Coordinator`.
    ServingCoordinator,
    /// At the coordinator: it has its state. A sender that is a server must be Up.
    Leader,
    /// At the coordinator: it has its state. The sender may be a server that has no id yet.
    LeaderOfStrangers,
}

macro_rules! opcodes {
    ($(
        $(#[$group_doc:meta])* $group:ident, $to:literal {
            $($(#[$doc:meta])* $name:ident = $code:literal, $from:literal, $gate:ident;)*
        }
    )*) => {
        /// Sent in frames: a number is never used for something else.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Opcode { $($($(#[$doc])* $name = $code,)*)* }

        $(
            $(#[$group_doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum $group { $($name,)* }

            impl From<$group> for Opcode {
                fn from(request: $group) -> Opcode {
                    match request { $($group::$name => Opcode::$name,)* }
                }
            }

            impl TryFrom<Opcode> for $group {
                /// The operation that another role answers.
                type Error = Opcode;

                fn try_from(opcode: Opcode) -> Result<$group, Opcode> {
                    match opcode.addressee() {
                        Addressee::$group(request) => Ok(request),
                        _ => Err(opcode),
                    }
                }
            }
        )*

        /// An operation as the role knows it that answers it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Addressee { $($group($group),)* }

        impl Opcode {
            /// All operations, group by group.
            pub const ALL: &'static [Opcode] = &[$($(Opcode::$name,)*)*];

            pub fn from_code(code: u16) -> Option<Opcode> {
                match code { $($($code => Some(Opcode::$name),)*)* _ => None }
            }
            pub const fn code(self) -> u16 { self as u16 }
            pub const fn name(self) -> &'static str {
                match self { $($(Opcode::$name => stringify!($name),)*)* }
            }
            /// The senders of the request.
            pub const fn asker(self) -> &'static str {
                match self { $($(Opcode::$name => $from,)*)* }
            }
            /// The role that answers the request.
            pub const fn answerer(self) -> &'static str {
                match self { $($(Opcode::$name => $to,)*)* }
            }
            /// Processes of the cluster send this request to each other, so that the cluster goes on. It is heard before
            /// the requests of clients (E4).
            pub const fn goes_first(self) -> bool {
                match self { $($(Opcode::$name => const { is_of_cluster($from) },)*)* }
            }
            pub const fn gate(self) -> Gate {
                match self { $($(Opcode::$name => Gate::$gate,)*)* }
            }
            pub const fn addressee(self) -> Addressee {
                match self { $($(Opcode::$name => Addressee::$group($group::$name),)*)* }
            }
        }
    };
}

opcodes! {
    /// Requests that every process answers.
    ForProcess, "server, coordinator" {
        /// Are you there, and who are you.
        Ping = 1, "server, coordinator, anybody", Open;
        /// Show an operator your state.
        ProcessStatus = 3, "anybody", Open;
        /// A part of the coordinator's state, from a process that has a copy of it (G1).
        StateRead = 91, "client, coordinator", Open;
    }

    /// Not a request: the answer to bytes that are no frame. Its status says why, then the connection ends.
    ForSender, "the sender of the bytes" {
        Malformed = 2, "the process that got bytes that are no frame", Open;
    }

    /// Requests about one object; many of them fit in one `Multi` (A3, A4).
    ForObject, "master" {
        Read = 10, "client", Serving;
        Write = 11, "client", Serving;
        Remove = 12, "client", Serving;
        Increment = 13, "client", Serving;
    }

    /// Other requests to masters.
    ForMaster, "master" {
        Multi = 14, "client", Serving;
        Scan = 15, "client", Serving;
        Commit = 16, "client", Serving;
        Count = 17, "client", Serving;
        LeaseMeet = 18, "client", Serving;
        /// Which replicas of its log a master still needs (D7).
        ReplicasNeeded = 32, "backup", Serving;
        Recover = 42, "coordinator", ServingCoordinator;
        TabletTake = 61, "coordinator", ServingCoordinator;
        TabletDrop = 62, "coordinator", ServingCoordinator;
        TabletDivide = 63, "coordinator", ServingCoordinator;
        TabletWeights = 67, "coordinator", ServingCoordinator;
        TabletReclass = 68, "coordinator", ServingCoordinator;
    }

    /// Requests to backups (D1, F2, F4).
    ForBackup, "backup" {
        Append = 30, "master", Member;
        ReplicaFree = 31, "master", Member;
        /// The replica of a damaged segment (C8).
        ReplicaRead = 33, "master", Member;
        RecoveryRead = 40, "recovery master", Member;
        Fence = 41, "coordinator", Coordinator;
        RecoveryWork = 66, "coordinator", Coordinator;
    }

    /// Requests to bricks (I1, I6).
    ForBrick, "brick" {
        Ask = 100, "client", Member;
        Announce = 101, "brick", Member;
        TabletPage = 102, "brick", Member;
        /// A part of a scan (A6).
        BrickPage = 103, "client", Member;
        /// Show an operator what you have noticed and done.
        BrickEvents = 108, "anybody", Open;
        /// The statistics of a brick, by which bricks are compared. It has no answer.
        StatisticsReport = 109, "brick", Member;
        /// Is your loop alive, and which life is this?
        BrickProbe = 110, "supervisor, client", Open;
    }

    /// Requests to the process that restarts a brick (I6).
    ForSupervisor, "supervisor" {
        RestartOrder = 111, "brick", Member;
        BrickRestart = 112, "client", Open;
    }

    /// Requests to a server as a whole.
    ForServer, "server" {
        ServerListUpdate = 60, "coordinator", Coordinator;
        Reach = 64, "coordinator", Coordinator;
        Room = 65, "coordinator", Coordinator;
        /// Records of the coordinator's state, to be held for it (G1). The term is noted only if the records are taken.
        StateCopy = 69, "coordinator", Open;
        /// Messages to the Redis clients of another server (J1).
        Publish = 70, "server", Serving;
        Listeners = 71, "server", Serving;
        /// Whether a server answers this one (H3).
        ReachNeighbour = 72, "server", Member;
        /// Which state of the coordinator a server holds (G1). A refusal tells it too.
        StateTell = 90, "coordinator", Open;
    }

    /// Requests to the coordinator.
    ForCoordinator, "coordinator" {
        TableCreate = 20, "client", Leader;
        TableList = 21, "client", Leader;
        TableDescribe = 22, "client", Leader;
        TableDrop = 23, "client", Leader;
        ClusterStatus = 24, "client", Leader;
        Recoveries = 25, "client", Leader;
        LossAcknowledge = 26, "client", Leader;
        LeaseOpen = 27, "client", Leader;
        LeaseRenew = 28, "client", Leader;
        TableDivide = 29, "client", Leader;
        Recovered = 43, "recovery master", Leader;
        Enlist = 50, "server", LeaderOfStrangers;
        SuspectServer = 51, "server, client", Leader;
        StreamRegister = 52, "master", Leader;
        HeadRecord = 53, "master", Leader;
        CeilingRaise = 54, "master", Leader;
        MembershipVerify = 55, "server", Leader;
        LeaseCheck = 56, "master", Leader;
        ReadLease = 57, "master", Leader;
        TabletReclassed = 58, "master", Leader;
        Settled = 59, "master", Leader;
        LossAccept = 80, "client", Leader;
        TableAlter = 81, "client", Leader;
        /// Makes a table empty (J1).
        TableTruncate = 82, "client", Leader;
        /// A server that is gone is not expected to come back.
        ServerForget = 83, "client", Leader;
        /// The neighbours that do not answer a server (H3).
        NeighbourReport = 84, "server", Leader;
        /// A brick is there (I4).
        BrickHello = 85, "brick", LeaderOfStrangers;
        /// A brick does not come back: another one takes its place (I6).
        BrickReplace = 86, "client", Leader;
        /// A brick gets a share of the quorum tables, or gives its tablets to others (I7).
        BrickScale = 87, "client", Leader;
        /// All accounts, without their secrets (J4).
        AccountList = 88, "client", Leader;
        /// Makes or changes an account (J4).
        AccountSet = 89, "client", Leader;
        /// A brick that holds nothing is not expected to come back (I6).
        BrickForget = 92, "client", Leader;
        /// Removes accounts, and ends their connections (J4).
        AccountRemove = 93, "client", Leader;
    }
}

/// Whether the first of the senders of a request is a process of the cluster.
const fn is_of_cluster(senders: &str) -> bool {
    !begins_with(senders, b"client") && !begins_with(senders, b"anybody") && !begins_with(senders, b"the ")
}

const fn begins_with(text: &str, word: &[u8]) -> bool {
    match text.as_bytes().split_at_checked(word.len()) {
        Some((begin, _)) => {
            let mut at = 0;
            while at < word.len() && begin[at] == word[at] {
                at += 1;
            }
            at == word.len()
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // E1
    #[test]
    fn every_operation_is_in_the_group_that_answers_it() {
        let codes: BTreeSet<u16> = Opcode::ALL.iter().map(|opcode| opcode.code()).collect();
        assert_eq!(codes.len(), Opcode::ALL.len());
        for opcode in Opcode::ALL.iter().copied() {
            assert_eq!(Opcode::from_code(opcode.code()), Some(opcode));
            let again = match opcode.addressee() {
                Addressee::ForProcess(request) => request.into(),
                Addressee::ForSender(request) => request.into(),
                Addressee::ForObject(request) => request.into(),
                Addressee::ForMaster(request) => request.into(),
                Addressee::ForBackup(request) => request.into(),
                Addressee::ForBrick(request) => request.into(),
                Addressee::ForSupervisor(request) => request.into(),
                Addressee::ForServer(request) => request.into(),
                Addressee::ForCoordinator(request) => request.into(),
            };
            assert_eq!(opcode, again);
        }
    }

    // E4
    #[test]
    fn requests_of_the_cluster_go_first_and_those_of_clients_do_not() {
        for first in [Opcode::Ping, Opcode::Append, Opcode::RecoveryRead, Opcode::ReadLease, Opcode::Announce]
        {
            assert!(first.goes_first(), "{}", first.name());
        }
        for last in [Opcode::Read, Opcode::Multi, Opcode::Ask, Opcode::TableList, Opcode::ProcessStatus] {
            assert!(!last.goes_first(), "{}", last.name());
        }
    }

    // G1
    #[test]
    fn only_the_coordinator_asks_what_its_gates_guard() {
        let guarded =
            Opcode::ALL.iter().filter(|o| matches!(o.gate(), Gate::Coordinator | Gate::ServingCoordinator));
        assert!(guarded.clone().count() > 0);
        assert!(guarded.clone().all(|o| o.asker() == "coordinator"), "{:?}", guarded.collect::<Vec<_>>());
    }
}
