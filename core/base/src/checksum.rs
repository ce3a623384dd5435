//! CRC32C, the checksum of entries, certificates, frames and disk records.

/// CRC32C of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC32C of what `so_far` covers followed by `bytes`.
pub fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value_and_appending_agree() {
        assert_eq!(crc(b"123456789"), 0xE306_9283);
        assert_eq!(crc_append(crc(b"12345"), b"6789"), 0xE306_9283);
    }
}
