//! `resume`: settles a put or a removal in a quorum table whose outcome was unknown (I3).

use crate::failure::{self, Failure};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_client::{Error, Status, Token};
use serde_json::json;
use std::io::Read;

/// The longest text of a token: 1 MiB and 64 KiB, as base64, and its other fields.
const TOKEN_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Settle a put or removal whose outcome is unknown.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold resume AaQAAABjAAAAAAAA...
  ramhold resume - < token

A put or removal in a quorum table may end as unknown when too few bricks
answer. The error then shows a token, and 'resume' carries the operation to its
end. It takes effect once at most, however often its token is used.

A token that is less than a minute old may make the operation take effect. An
older one writes nothing new. All bricks of the key must then answer, and the
outcome stays unknown for good if the key was written again since.

Exit codes:
  0  it took effect
  3  it never took effect, and never will; or the table does not exist any more
  4  still unknown; use the token again if the error shows one")]
pub struct Resume {
    /// Token from the error of the operation; '-' reads it from stdin.
    token: String,
}

impl Resume {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let text = if self.token == "-" { read_stdin()? } else { self.token };
        let token: Token = text.trim().parse().map_err(|error| Failure::usage(format!("TOKEN: {error}")))?;
        let is_removal = token.is_removal();
        let key = output::bytes_for_eyes(token.key());
        let version = global.connect()?.resume(token).map_err(|error| settled(&key, error))?.raw();
        if global.json {
            return output::print_json(&json!({ "version": version }));
        }
        let what = if is_removal { "the removal" } else { "the put" };
        output::print(&format!("{what} of '{key}' took effect, version {version}\n"))
    }
}

fn settled(key: &str, error: Error) -> Failure {
    let failure = match error {
        Error::Refused { status: Status::WrongVersion, detail, .. } => {
            Failure::new(failure::REFUSED, format!("{detail}; repeat it if it is still wanted"))
        }
        Error::Unknown { detail, token: None } => {
            Failure::new(failure::UNKNOWN, format!("whether it took effect stays unknown: {detail}"))
        }
        error => Failure::from(error),
    };
    failure.about(&format!("'{key}'"))
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read the token from stdin: {error}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: Status, detail: &str) -> Error {
        Error::Refused { status, version: None, shortage: None, detail: detail.to_owned() }
    }

    // I3
    #[test]
    fn each_end_of_a_token_has_its_exit_code() {
        let never = settled("k", refused(Status::WrongVersion, "it never took effect"));
        assert_eq!(never.code(), failure::REFUSED);
        assert_eq!(never.text(), "'k': it never took effect; repeat it if it is still wanted");
        assert_eq!(settled("k", refused(Status::UnknownTable, "gone")).code(), failure::REFUSED);
        let unknown = settled("k", Error::Unknown { detail: "written again".to_owned(), token: None });
        assert_eq!(unknown.code(), failure::UNKNOWN);
        assert_eq!(unknown.text(), "'k': whether it took effect stays unknown: written again");
    }
}
