//! `acknowledge-loss`: the operator has seen a loss report, so it is not shown any more.

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use clap::Args;
use serde_json::json;

/// Confirm that a reported loss of data has been seen.
#[derive(Args, Debug)]
#[command(after_help = "\
Example ('ramhold status' shows losses with their ids):
  ramhold acknowledge-loss 3")]
pub struct AcknowledgeLoss {
    id: u64,
}

impl AcknowledgeLoss {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let id = self.id;
        let result = global.connect()?.acknowledge_loss(id);
        result.map_err(|error| Failure::from(error).about(&format!("loss {id}")))?;
        if global.json {
            output::print_json(&json!({ "id": id }))
        } else {
            output::print(&format!("loss {id} is acknowledged\n"))
        }
    }
}
