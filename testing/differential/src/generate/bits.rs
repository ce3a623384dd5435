//! Commands on bits.

use super::{Choice, LONG_VALUE_KEY, words};
use crate::step::Command;

impl Choice<'_> {
    pub fn bits(&mut self) -> Command {
        let key = self.key();
        match self.rng.below(16) {
            0..3 => {
                let (key, offset) = self.bit_of(key);
                words!["SETBIT", key, offset, self.bit()]
            }
            3..5 => {
                let (key, offset) = self.bit_of(key);
                words!["GETBIT", key, offset]
            }
            5..8 => {
                let command = words!["BITCOUNT", self.short_or_large(key)];
                self.ranged(command, 0)
            }
            8..10 => {
                let command = words!["BITPOS", self.short_or_large(key), self.bit()];
                self.ranged(command, 1)
            }
            10..12 => self.bitop(),
            _ => self.bitfield(key),
        }
    }

    fn bit(&mut self) -> Vec<u8> {
        if self.rng.chance(1, 20) { self.one(&["2", "-1", "abc", ""]) } else { self.one(&["0", "1"]) }
    }

    fn bit_of(&mut self, key: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        match self.rng.below(20) {
            0 => (LONG_VALUE_KEY.to_vec(), self.one(&["560000", "7999999", "8000000"])),
            1 => (key, self.one(&["-1", "4294967296", "34359738368", "9223372036854775807"])),
            2 => (key, self.near_integer()),
            _ => (key, self.rng.below(130).to_string().into_bytes()),
        }
    }

    /// Adds a beginning, an end and a unit, at random. A whole form has none of these words, or at least
    /// `least`.
    fn ranged(&mut self, mut command: Command, least: u64) -> Command {
        let count = self.rng.pick(&[0, least, 2, 2, 3, 3]).copied().unwrap_or(0);
        for _ in 0..count.min(2) {
            command.push(self.index());
        }
        if count == 3 {
            command.push(self.one(&["BIT", "BYTE", "bit", "BIT", "BYTES"]));
        }
        command
    }

    fn bitop(&mut self) -> Command {
        let name = self.one(&["AND", "OR", "XOR", "NOT", "and", "NAND"]);
        let sources = if name == b"NOT" && self.rng.chance(4, 5) {
            vec![self.key_of_one_slot()]
        } else {
            self.keys_of_one_slot(4)
        };
        [words!["BITOP", name, self.key_of_one_slot()], sources].concat()
    }

    fn bitfield(&mut self, key: Vec<u8>) -> Command {
        let mut command = words![self.one(&["BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"]), key];
        for _ in 0..self.rng.below(4) {
            match self.rng.below(7) {
                0 | 1 => command.extend(words!["GET", self.field(), self.field_offset()]),
                2 | 3 => command.extend(words!["SET", self.field(), self.field_offset(), self.field_value()]),
                4 => {
                    let how = self.one(&["WRAP", "SAT", "FAIL", "sat", "WRONG"]);
                    command.extend(words!["OVERFLOW", how]);
                }
                _ => command.extend(words!["INCRBY", self.field(), self.field_offset(), self.integer()]),
            }
        }
        command
    }

    fn field(&mut self) -> Vec<u8> {
        self.one(&[
            "u1", "u2", "i5", "u8", "i8", "i16", "u16", "i32", "u32", "i63", "u63", "i64", "u7", "i2", "i1",
            "u64", "i65", "u0", "x8", "8", "u",
        ])
    }

    /// Values not near the ends of 64 bits: Redis's own sums are wrong there with OVERFLOW SAT.
    fn field_value(&mut self) -> Vec<u8> {
        let value = self.integer();
        let number: Option<i64> = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        let is_far = number.is_some_and(|number| number.unsigned_abs() > 1 << 40);
        if is_far { self.small().to_string().into_bytes() } else { value }
    }

    fn field_offset(&mut self) -> Vec<u8> {
        match self.rng.below(16) {
            0 => self.one(&["-1", "#-1", "#", "abc", "4294967296", "#9223372036854775807", "1.5"]),
            1..6 => format!("#{}", self.rng.below(9)).into_bytes(),
            _ => self.rng.below(100).to_string().into_bytes(),
        }
    }
}
