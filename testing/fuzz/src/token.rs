//! Tokens of puts whose outcome is unknown, as texts that people have kept.
//!
//! Promised:
//! - A token has one text only, so a text that was read is written as the same text.
//! - Reading takes memory in proportion to the text.
//!
//! Length and checksum reject random input, so every input is also tried as the fields of a token, with both right.

use crate::memory;
use ramhold_base::checksum::crc;
use ramhold_client_core::Token;

const HELD_PER_BYTE: usize = 8;
const HELD_ALWAYS: usize = 4 * 1024;
const VERSION: u8 = 1;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        read(text);
    }
    let mut bytes = vec![VERSION];
    let rest = u32::try_from(input.len() + 4).expect("inputs are short");
    bytes.extend_from_slice(&rest.to_le_bytes());
    bytes.extend_from_slice(input);
    let sum = crc(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    read(&text_of(&bytes));
}

fn read(text: &str) {
    let (token, held) = memory::peak(|| text.parse::<Token>());
    assert!(held <= HELD_ALWAYS + HELD_PER_BYTE * text.len(), "{held} bytes held for {}", text.len());
    if let Ok(token) = token {
        assert_eq!(token.to_string(), text, "one text only");
    }
}

/// Base64url without padding.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..=group.len() {
            let digit = (bits >> (18 - 6 * index)) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}
