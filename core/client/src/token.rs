//! A put of a quorum table whose outcome is unknown, kept so that it can be settled later.
//!
//! The token holds everything that the put has sent: key, stamp, value, and when it began. The put goes on with the
//! same stamp and with no other, so it takes effect at most once, however often the token is used. The token names its
//! cluster, because another cluster may have a table with the same number.
//!
//! Text: base64url without padding, over these bytes: version u8, bytes of the rest u32, cluster u64, table u32, stamp
//! (time u64, session u64), begun u64, flags u8 (1: a value, 2: the value has an end), key length u16, end u64 if flag 2
//! is set, key, value, CRC-32C u32 of everything before it.
//!
//! Not here: settling it (`quorum`). Protocol: docs/protocols/quorum.md, rule 8. Catalogue: I3.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::crc;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{ClusterId, ClusterTime, Stamp, TableId};
use std::fmt;
use std::str::FromStr;

const VERSION: u8 = 1;
const HAS_VALUE: u8 = 1;
const HAS_END: u8 = 2;
/// Version and length.
const HEAD_BYTES: usize = 5;
const SUM_BYTES: usize = 4;
/// The fields between head and checksum, at their longest.
const FIELDS_BYTES_MAX: usize = 47 + KEY_BYTES_MAX + VALUE_BYTES_MAX;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Settles a put that ended as unknown; see `Operation::Resume`. Its text may be kept anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(crate) cluster: ClusterId,
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
    pub(crate) stamp: Stamp,
    /// None: a removal.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) expires: Option<ClusterTime>,
    /// When the put began: microseconds of its session's clock.
    pub(crate) begun: u64,
}

/// A text that is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoToken {
    /// A part of it is missing.
    Cut,
    /// Characters or fields that no token has, or a wrong checksum.
    Corrupt,
    /// A later version of Ramhold made it.
    Version(u8),
}

impl Token {
    pub fn table(&self) -> TableId {
        self.table
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether the put removes the object.
    pub fn is_removal(&self) -> bool {
        self.value.is_none()
    }

    fn encode(&self) -> Vec<u8> {
        let value = self.value.as_deref().unwrap_or_default();
        let flags = match (&self.value, self.expires) {
            (None, _) => 0,
            (Some(_), None) => HAS_VALUE,
            (Some(_), Some(_)) => HAS_VALUE | HAS_END,
        };
        let mut bytes = vec![VERSION];
        bytes.put_u32(0);
        bytes.put_u64(self.cluster.raw());
        bytes.put_u32(self.table.raw());
        bytes.put_u64(self.stamp.time);
        bytes.put_u64(self.stamp.session);
        bytes.put_u64(self.begun);
        bytes.put_u8(flags);
        bytes.put_u16(u16::try_from(self.key.len()).expect("a key within its limit"));
        if flags & HAS_END != 0 {
            self.expires.into_iter().for_each(|end| bytes.put_u64(end.0));
        }
        bytes.put_bytes(&self.key);
        bytes.put_bytes(value);
        let rest =
            u32::try_from(bytes.len() - HEAD_BYTES + SUM_BYTES).expect("key and value within their limits");
        bytes[1..HEAD_BYTES].copy_from_slice(&rest.to_le_bytes());
        let sum = crc(&bytes);
        bytes.put_u32(sum);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Token, NoToken> {
        let mut head = Reader::new(bytes);
        let version = head.u8().ok_or(NoToken::Cut)?;
        if version != VERSION {
            // A token of any version tells its length there; other text is none.
            let is_token = head.u32().is_some_and(|bytes| head.rest().len() == bytes as usize);
            return Err(if is_token { NoToken::Version(version) } else { NoToken::Corrupt });
        }
        let rest_bytes = head.u32().ok_or(NoToken::Cut)? as usize;
        let rest = head.rest();
        if rest.len() < rest_bytes {
            return Err(NoToken::Cut);
        }
        let is_sound = rest.len() == rest_bytes && rest_bytes <= FIELDS_BYTES_MAX + SUM_BYTES;
        let (fields, sum) =
            rest.split_at_checked(rest.len().wrapping_sub(SUM_BYTES)).ok_or(NoToken::Corrupt)?;
        let summed = &bytes[..HEAD_BYTES + fields.len()];
        if !is_sound || sum != crc(summed).to_le_bytes() {
            return Err(NoToken::Corrupt);
        }
        Self::read(&mut Reader::new(fields)).ok_or(NoToken::Corrupt)
    }

    fn read(reader: &mut Reader<'_>) -> Option<Token> {
        let (cluster, table) = (ClusterId(reader.u64()?), TableId(reader.u32()?));
        let stamp = Stamp { time: reader.u64()?, session: reader.u64()? };
        let (begun, flags, key_bytes) = (reader.u64()?, reader.u8()?, usize::from(reader.u16()?));
        if !matches!(flags, 0 | HAS_VALUE) && flags != HAS_VALUE | HAS_END {
            return None;
        }
        let expires = if flags & HAS_END != 0 { Some(ClusterTime(reader.u64()?)) } else { None };
        let key = reader.take(key_bytes)?.to_vec();
        let bytes = reader.rest();
        let has_value = flags & HAS_VALUE != 0;
        let is_sound = stamp.is_of_put() && bytes.len() <= VALUE_BYTES_MAX && (has_value || bytes.is_empty());
        let value = has_value.then(|| bytes.to_vec());
        is_sound.then_some(Token { cluster, table, key, stamp, value, expires, begun })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_text(&self.encode()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { table, key, stamp, value, .. } = self;
        let bytes = value.as_ref().map(Vec::len);
        write!(f, "Token {{ {table}, key {key:?}, stamp {stamp:?}, value of {bytes:?} bytes }}")
    }
}

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Token, NoToken> {
        let (bytes, is_whole) = of_text(text)?;
        // A cut text may end within a byte; that it is cut is told first.
        let token = Token::decode(&bytes)?;
        if is_whole { Ok(token) } else { Err(NoToken::Corrupt) }
    }
}

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoToken::Cut => write!(f, "a part of the token is missing"),
            NoToken::Corrupt => write!(f, "not a token, or a damaged one"),
            NoToken::Version(version) => {
                write!(f, "a token of version {version}, which this version of Ramhold does not know")
            }
        }
    }
}

impl std::error::Error for NoToken {}

fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..=group.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * index) & 63) as usize]));
        }
    }
    text
}

/// The bytes, and whether the last character has no bits that belong to no byte.
fn of_text(text: &str) -> Result<(Vec<u8>, bool), NoToken> {
    let most = (HEAD_BYTES + FIELDS_BYTES_MAX + SUM_BYTES).div_ceil(3) * 4;
    if text.len() > most {
        return Err(NoToken::Corrupt);
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let mut is_whole = true;
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for index in 0..4 {
            let sextet = match group.get(index) {
                Some(character) => value_of(*character).ok_or(NoToken::Corrupt)?,
                None => 0,
            };
            bits = bits << 6 | sextet;
        }
        let [_, decoded @ ..] = bits.to_be_bytes();
        let meant = group.len().checked_sub(1).filter(|meant| *meant > 0).ok_or(NoToken::Cut)?;
        let (meant, rest) = decoded.split_at(meant);
        is_whole &= rest.iter().all(|byte| *byte == 0);
        bytes.extend_from_slice(meant);
    }
    Ok((bytes, is_whole))
}

fn value_of(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<Token> {
        let whole = Token {
            cluster: ClusterId(99),
            table: TableId(7),
            key: b"key".to_vec(),
            stamp: Stamp { time: 1_700_000_000_000_000, session: 8 },
            value: Some(b"value".to_vec()),
            expires: Some(ClusterTime(9)),
            begun: 1_700_000_000_000_001,
        };
        let bare = Token { key: Vec::new(), value: Some(Vec::new()), expires: None, ..whole.clone() };
        let removal = Token { value: None, expires: None, ..whole.clone() };
        let large =
            Token { key: vec![1; KEY_BYTES_MAX], value: Some(vec![2; VALUE_BYTES_MAX]), ..whole.clone() };
        vec![whole, bare, removal, large]
    }

    // I3
    #[test]
    fn the_text_of_a_token_is_one_word_and_gives_the_token_back() {
        for token in tokens() {
            let text = token.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            assert_eq!(text.parse(), Ok(token));
        }
    }

    // I3
    #[test]
    fn every_cut_and_every_changed_character_is_refused() {
        for token in &tokens()[..3] {
            let text = token.to_string();
            for cut in 0..text.len() {
                assert_eq!(text[..cut].parse::<Token>(), Err(NoToken::Cut), "cut at {cut}");
            }
            assert_eq!(format!("{text}A").parse::<Token>().ok(), None);
            for at in 0..text.len() {
                for other in ALPHABET.iter().chain(b" =+/") {
                    let mut changed = text.clone().into_bytes();
                    if changed[at] == *other {
                        continue;
                    }
                    changed[at] = *other;
                    let changed = String::from_utf8(changed).unwrap();
                    assert!(changed.parse::<Token>().is_err(), "{changed}");
                }
            }
            assert_eq!(format!("{text} ").parse::<Token>(), Err(NoToken::Corrupt));
        }
    }

    // I3
    #[test]
    fn a_later_version_and_a_stamp_that_no_put_has_are_refused() {
        let mut bytes = tokens()[0].encode();
        bytes[0] = 2;
        assert_eq!(to_text(&bytes).parse::<Token>(), Err(NoToken::Version(2)));
        for stamp in [Stamp::NONE, Stamp { time: 5, session: 9 }] {
            let strange = Token { stamp, ..tokens()[0].clone() };
            assert_eq!(strange.to_string().parse::<Token>(), Err(NoToken::Corrupt));
        }
    }
}
