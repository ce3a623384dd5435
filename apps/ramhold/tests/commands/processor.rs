//! `RAMHOLD_CPU`, which selects the instructions for checksums and copies.

use crate::binary::Ran;
use ramhold_base::processor::{Level, Path};
use std::process::Command;

fn ramhold_on(path: &str, arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_ramhold"))
        .env("RAMHOLD_CPU", path)
        .args(arguments)
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn every_path_of_this_processor_can_be_chosen_and_the_others_are_refused() {
    const REPLAY: [&str; 7] = ["bench", "replay", "--records", "1000", "--runs", "1", "--json"];
    for level in Level::ALL {
        let ran = ramhold_on(level.name(), &REPLAY);
        if Path::of(level).is_some() {
            assert_eq!(ran.ok().json()["processor"], level.name());
        } else {
            let text = ran.failed(2);
            assert!(text.contains(&format!("RAMHOLD_CPU={}", level.name())), "{text}");
            assert!(text.contains(&format!("lacks {}", level.lacks().join(", "))), "{text}");
        }
    }
}

#[test]
fn an_unknown_path_is_refused_with_those_that_run_here() {
    let text = ramhold_on("pentium", &["plan", "--servers", "10"]).failed(2);
    let here: Vec<String> = Path::all_here().map(|path| path.to_string()).collect();
    assert!(text.contains("RAMHOLD_CPU=pentium: unknown processor path"), "{text}");
    assert!(text.contains(&here.join(", ")), "{text}");
}
