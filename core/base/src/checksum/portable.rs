//! CRC32C with tables: eight bytes a step, on any processor.
//!
//! `TABLES[n][byte]` is the checksum of `byte` with `n` zero bytes behind it. The checksum so far is added to
//! the first four of eight bytes. Then each byte is looked up in the table for the number of bytes behind it.
//!
//! Not here: processors that have an instruction for it (`checksum`). Source: Kounavis and Berry, "A
//! Systematic Approach to Building High Performance Software-based CRC Generators".

use super::POLYNOMIAL;

static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[behind - 1][byte];
            tables[behind][byte] = before >> 8 ^ tables[0][before as usize & 0xFF];
            byte += 1;
        }
        behind += 1;
    }
    tables
};

/// The CRC32C of the bytes that `so_far` covers, followed by `bytes`.
pub(super) fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = !so_far;
    for word in words {
        let word = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        let parts = word.iter().zip(TABLES.iter().rev());
        crc = parts.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}
