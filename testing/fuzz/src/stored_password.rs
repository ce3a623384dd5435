//! Stored passwords: texts that operators give (`secret=` in the rules of an account).
//!
//! Promised:
//! - Reading takes little memory, whatever the text says.
//! - A text that is read is short and has visible characters only, and its parameters are there, once each, within the limits.
//! - A text that is read can be compared with.
//!
//! Random input is no such text, so every input is also tried as the parameters of one, and as its salt and hash.

use crate::memory;
use ramhold_base::Password;
use ramhold_runtime::{is_password, is_stored_password};

const HELD: usize = 4 * 1024;
const TEXT_BYTES_MAX: usize = 256;
const MEMORY_KIB_MAX: u64 = 256 * 1024;
const PASS_COUNT_MAX: u64 = 10;
/// Texts that take more are read only, so that an input takes microseconds.
const COMPARED_KIB_MAX: u64 = 64;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    read(text);
    read(&format!("$argon2id$v=19${text}"));
    read(&format!("$argon2id$v=19$m=8,t=1,p=1${text}"));
}

fn read(text: &str) {
    let (is_read, held) = memory::peak(|| is_stored_password(text));
    assert!(held <= HELD, "{held} bytes held");
    if !is_read {
        return;
    }
    assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "other characters");
    let [kib, pass_count] = ["m=", "t="].map(|name| parameter(text, name).expect("all parameters are there"));
    assert!(kib <= MEMORY_KIB_MAX && pass_count <= PASS_COUNT_MAX, "{kib} KiB, {pass_count} passes");
    if kib <= COMPARED_KIB_MAX {
        let compared = is_password(&Password::Plain(b"abc".to_vec()), text);
        assert!(compared.is_ok(), "{compared:?}");
    }
}

fn parameter(text: &str, name: &str) -> Option<u64> {
    let parameters = text.split('$').nth(3)?;
    parameters.split(',').find_map(|parameter| parameter.strip_prefix(name)?.parse().ok())
}
