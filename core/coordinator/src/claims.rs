//! Checks of labels, addresses and names that processes and clients give, before any of them is stored.
//!
//! Not here: whether a process may come (`enlist`, `bricks`), whether a name is free (`state`). Catalogue: A1, B1.

use ramhold_base::Status;
use ramhold_base::limits::{LABEL_BYTES_MAX, LABEL_COUNT_MAX, TABLE_NAME_BYTES_MAX};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Label;

pub(crate) fn are_labels(labels: &[Label]) -> bool {
    let fits = |label: &Label| {
        !label.name.is_empty() && label.name.len() <= LABEL_BYTES_MAX && label.value.len() <= LABEL_BYTES_MAX
    };
    labels.len() <= LABEL_COUNT_MAX && labels.iter().all(fits)
}

/// Whether others can reach a process there.
pub(crate) fn is_address(address: &Address) -> bool {
    address.0.port() != 0 && !address.0.ip().is_unspecified()
}

pub(crate) fn check_table_name(name: &str) -> Result<(), Status> {
    let fits = !name.is_empty() && name.len() <= TABLE_NAME_BYTES_MAX;
    if fits { Ok(()) } else { Err(Status::NameTooLong) }
}
