//! `acknowledge-loss`: the operator has seen a loss report, so it is not shown any more.

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use clap::Args;
use serde_json::json;

/// Confirm that a loss report has been seen.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  ramhold acknowledge-loss 3

'ramhold status' does not show the loss report any more after that.")]
pub struct AcknowledgeLoss {
    /// Id of the loss report, as 'ramhold status' shows it.
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
