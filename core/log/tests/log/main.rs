//! The log from outside: against a model, through replay, and at its limits.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod cleaning;
mod commit;
mod damage;
mod dead;
mod format;
mod harness;
mod limits;
mod model;
mod reclass;
mod recount;
mod replay;
mod rot;
mod scan;
mod side;
mod stamped;
mod will;
