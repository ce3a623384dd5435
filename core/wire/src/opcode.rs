//! The operations and their numbers, which never change.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        /// Sent in frames: a number is never used for something else.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Opcode { $($(#[$doc])* $name = $code,)* }

        impl Opcode {
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            pub fn from_code(code: u16) -> Option<Opcode> {
                match code { $($code => Some(Opcode::$name),)* _ => None }
            }
            pub const fn code(self) -> u16 { self as u16 }
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name),)* }
            }
        }
    };
}

opcodes! {
    /// Anybody to anybody: are you there, and who are you.
    Ping = 1;
    /// The answer to bytes that are no frame; its status says why, then the connection ends.
    Malformed = 2;
    /// Anybody to a server or the coordinator: show an operator your state.
    ProcessStatus = 3;

    // Clients to masters (A3, A4).
    Read = 10;
    Write = 11;
    Remove = 12;
    Increment = 13;
    Multi = 14;
    Scan = 15;
    Commit = 16;
    Count = 17;
    LeaseMeet = 18;

    // Clients to the coordinator (A1).
    TableCreate = 20;
    TableList = 21;
    TableDescribe = 22;
    TableDrop = 23;
    ClusterStatus = 24;
    Recoveries = 25;
    LossAcknowledge = 26;
    LeaseOpen = 27;
    LeaseRenew = 28;
    TableDivide = 29;

    // Masters to backups (D1).
    Append = 30;
    ReplicaFree = 31;
    // Backups to masters (D7).
    ReplicasNeeded = 32;
    // Masters to backups (C8).
    ReplicaRead = 33;

    // Recovery masters to backups (F4).
    RecoveryRead = 40;
    // Coordinator to backups (F2).
    Fence = 41;
    // Coordinator to recovery masters.
    Recover = 42;
    // Recovery masters to the coordinator.
    Recovered = 43;

    // Servers to the coordinator.
    Enlist = 50;
    SuspectServer = 51;
    StreamRegister = 52;
    HeadRecord = 53;
    CeilingRaise = 54;
    MembershipVerify = 55;
    LeaseCheck = 56;
    ReadLease = 57;
    TabletMigrated = 58;
    Settled = 59;

    // Coordinator to servers.
    ServerListUpdate = 60;
    TabletTake = 61;
    TabletDrop = 62;
    TabletDivide = 63;
    Reach = 64;
    Room = 65;
    RecoveryWork = 66;
    TabletWeights = 67;
    TabletMigrate = 68;
    // To servers that hold its state (G1).
    StateCopy = 69;

    // Servers to servers (J1).
    Publish = 70;
    Listeners = 71;

    // Operators to the coordinator (F2).
    LossAccept = 80;
    // Also operators to the coordinator, about tables: the numbers of that group are all given out (D2).
    TableAlter = 81;
    /// Clients to the coordinator: make a table empty (J1).
    TableTruncate = 82;
    /// Operators to the coordinator: a server that is gone is not expected to come back.
    ServerForget = 83;

    // Requests for the coordinator's state, to the processes that have a copy of it (G1).
    StateTell = 90;
    StateRead = 91;
}
