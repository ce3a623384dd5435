//! Why the last attempt of an operation did not end the operation, told so that a human can act on it.

use ramhold_base::{ServerId, Status};
use ramhold_wire::shortage::Shortage;
use std::fmt;
use std::net::SocketAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub who: Who,
    pub addr: SocketAddr,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Coordinator,
    Server(ServerId),
    Brick(ServerId),
    /// The process that listens at the address.
    Process,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Nothing sent has arrived.
    RefusedConnection,
    BrokenConnection,
    Silent,
    /// An answer that would have ended the operation, but whose body makes no sense.
    Unreadable,
    Answered(Status),
    /// Nothing was sent: as many questions of this session wait for the brick's answers as it answers in time.
    WindowFull,
    /// A refusal because writes wait for backups.
    Lacks(Shortage),
    /// The tablet map says that the key has no owner for now.
    NoOwner,
    /// The tablet map says that no server has taken the key's tablet yet.
    NotTaken,
}

impl Trouble {
    /// The status of an operation that ends with this trouble.
    pub fn status(self) -> Status {
        match self.what {
            What::Answered(status) => status,
            What::Lacks(_) => Status::TooFewBackups,
            What::NoOwner => Status::Recovering,
            What::NotTaken => Status::NotReady,
            What::WindowFull => Status::TooMany,
            What::RefusedConnection | What::BrokenConnection | What::Silent | What::Unreadable => {
                Status::Retry
            }
        }
    }
}

impl Trouble {
    /// The shortage, if a shortage is the trouble.
    pub fn shortage(self) -> Option<Shortage> {
        match self.what {
            What::Lacks(shortage) => Some(shortage),
            What::RefusedConnection
            | What::BrokenConnection
            | What::Silent
            | What::Unreadable
            | What::Answered(_)
            | What::WindowFull
            | What::NoOwner
            | What::NotTaken => None,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Coordinator => write!(f, "the coordinator at {}", self.addr)?,
            Who::Server(server) => write!(f, "server {server} at {}", self.addr)?,
            Who::Brick(brick) => write!(f, "brick {brick} at {}", self.addr)?,
            Who::Process => write!(f, "the process at {}", self.addr)?,
        }
        match self.what {
            What::RefusedConnection => write!(f, " refused the connection"),
            What::BrokenConnection => write!(f, " could not be reached: the connection failed or broke"),
            What::Silent => write!(f, " did not answer"),
            What::Unreadable => write!(f, " gave an answer that cannot be read"),
            What::Answered(status) => write!(f, " answered: {status}"),
            What::WindowFull => {
                write!(
                    f,
                    " was not asked: it does not keep up with the questions that it has; try fewer at once"
                )
            }
            What::Lacks(shortage) => write!(f, " answered: {}: {shortage}", Status::TooFewBackups),
            What::NotTaken => {
                write!(f, " says that the key's tablet is being made, and no server has it yet")
            }
            What::NoOwner => write!(f, " says that the key's tablet has no owner at present"),
        }
    }
}
