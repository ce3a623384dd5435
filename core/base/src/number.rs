//! Numbers as objects hold them: decimal text, which a plain read returns and other protocols understand.
//!
//! An integer has one spelling only, so that text in any other form is not taken for an integer. A float may
//! be written in any usual way, and is written back as the shortest decimal text of the same value, without
//! an exponent.
//!
//! Not here: which objects are counted in, and which value an absent one counts for (master). Catalogue: A7.

use crate::Status;
use std::fmt;

/// The longest text that is tried as a number. The longest text that is written has 327 bytes: the smallest
/// normal float with seventeen digits.
pub const NUMBER_TEXT_BYTES_MAX: usize = 400;

/// A signed integer of 64 bits, or a finite float of 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    /// The number in an object's value, read as the same kind as `self`. `NotANumber`: the text is no such
    /// number. An integer has no sign except a minus before a value other than 0, and no leading zeros.
    pub fn parse_alike(self, text: &[u8]) -> Result<Number, Status> {
        let text = Some(text).filter(|text| text.len() <= NUMBER_TEXT_BYTES_MAX);
        let text = text.and_then(|text| std::str::from_utf8(text).ok()).ok_or(Status::NotANumber)?;
        match self {
            Number::Integer(_) => parse_integer(text).map(Number::Integer),
            Number::Float(_) => parse_float(text).map(Number::Float),
        }
        .ok_or(Status::NotANumber)
    }

    /// Zero of the same kind: the value that an absent object counts for.
    pub fn zero_alike(self) -> Number {
        match self {
            Number::Integer(_) => Number::Integer(0),
            Number::Float(_) => Number::Float(0.0),
        }
    }

    /// The sum of two numbers of one kind. `OutOfRange`: it does not fit an integer of 64 bits, or is not
    /// finite.
    pub fn sum(self, other: Number) -> Result<Number, Status> {
        let sum = match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a.checked_add(b).map(Number::Integer),
            // Adding 0.0 turns a negative zero into a positive one.
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(a + b + 0.0)),
            (Number::Integer(_), Number::Float(_)) | (Number::Float(_), Number::Integer(_)) => {
                return Err(Status::NotANumber);
            }
        };
        sum.filter(|sum| sum.is_finite()).ok_or(Status::OutOfRange)
    }

    pub fn is_finite(self) -> bool {
        match self {
            Number::Integer(_) => true,
            Number::Float(float) => float.is_finite(),
        }
    }

    /// The number as it is sent and logged: eight bytes, which do not tell the kind.
    pub fn bits(self) -> u64 {
        match self {
            Number::Integer(integer) => integer.cast_unsigned(),
            Number::Float(float) => float.to_bits(),
        }
    }

    /// A number of the same kind as `self` from its bits. `None`: a float that is not finite.
    pub fn alike_from_bits(self, bits: u64) -> Option<Number> {
        let number = match self {
            Number::Integer(_) => Number::Integer(bits.cast_signed()),
            Number::Float(_) => Number::Float(f64::from_bits(bits)),
        };
        number.is_finite().then_some(number)
    }
}

fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    text.parse().ok().filter(|_| is_canonical)
}

fn parse_float(text: &str) -> Option<f64> {
    // Words such as "nan" are not taken as numbers.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|float: &f64| is_plain && float.is_finite())
}

/// The text that an object holds.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(integer) => write!(f, "{integer}"),
            Number::Float(float) => write!(f, "{float}"),
        }
    }
}

/// Equal numbers are of one kind and have the same bits.
impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        matches!(self, Number::Integer(_)) == matches!(other, Number::Integer(_))
            && self.bits() == other.bits()
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const INTEGER: Number = Number::Integer(0);
    const FLOAT: Number = Number::Float(0.0);

    // A7
    // Z5: a sum that does not fit ends the process in every profile, instead of being another number.
    #[test]
    #[should_panic(expected = "attempt to add with overflow")]
    fn arithmetic_is_checked() {
        let most = std::hint::black_box(u64::MAX);
        std::hint::black_box(most + std::hint::black_box(1));
    }

    #[test]
    fn an_integer_has_one_spelling() {
        let parsed = |text: &str| INTEGER.parse_alike(text.as_bytes());
        for text in ["0", "7", "-7", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parsed(text).map(|number| number.to_string()), Ok(text.to_string()));
        }
        let long = "1".repeat(NUMBER_TEXT_BYTES_MAX + 1);
        for text in ["", "-", "+1", "-0", "01", "-01", " 1", "1 ", "1.0", "1e3", "9223372036854775808", &long]
        {
            assert_eq!(parsed(text), Err(Status::NotANumber), "{text}");
        }
        assert_eq!(INTEGER.parse_alike(&[0xFF]), Err(Status::NotANumber));
    }

    // A7
    #[test]
    fn a_float_is_written_without_an_exponent() {
        let parsed = |text: &str| FLOAT.parse_alike(text.as_bytes()).map(|number| number.to_string());
        let pairs = [
            ("3.0", "3"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("5.0e-3", "0.005"),
            ("+2", "2"),
            ("-1.25", "-1.25"),
        ];
        for (text, written) in pairs {
            assert_eq!(parsed(text), Ok(written.to_string()));
        }
        for text in ["", "x", "nan", "inf", "-inf", "infinity", "1e999", "0x1p3", " 1", "1 "] {
            assert_eq!(parsed(text), Err(Status::NotANumber), "{text}");
        }
        let least = Number::Float(-f64::MIN_POSITIVE.next_up()).to_string();
        assert!(least.len() <= NUMBER_TEXT_BYTES_MAX, "{}", least.len());
        let sum = Number::Float(0.1).sum(Number::Float(0.2)).unwrap();
        assert_eq!(sum.to_string(), "0.30000000000000004");
        assert_eq!(Number::Float(-0.0).sum(Number::Float(-0.0)).unwrap().to_string(), "0");
    }

    // A7
    #[test]
    fn a_sum_that_does_not_fit_is_refused() {
        let add = |a: i64, b| Number::Integer(a).sum(Number::Integer(b));
        assert_eq!(add(i64::MAX, 1), Err(Status::OutOfRange));
        assert_eq!(add(i64::MIN, -1), Err(Status::OutOfRange));
        assert_eq!(add(i64::MIN, i64::MAX), Ok(Number::Integer(-1)));
        assert_eq!(Number::Float(f64::MAX).sum(Number::Float(f64::MAX)), Err(Status::OutOfRange));
        assert_eq!(FLOAT.alike_from_bits(f64::NAN.to_bits()), None);
        assert_ne!(FLOAT, INTEGER);
    }

    // A7
    #[test]
    fn what_is_written_is_read_as_the_same_and_hostile_text_never_panics() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let bits = rng.u64() >> rng.below(64);
            let number = Number::Integer(bits.cast_signed());
            assert_eq!(INTEGER.parse_alike(number.to_string().as_bytes()), Ok(number));
            assert_eq!(INTEGER.alike_from_bits(number.bits()), Some(number));
            if let Some(number) = FLOAT.alike_from_bits(bits) {
                let text = number.to_string();
                assert!(text.len() <= NUMBER_TEXT_BYTES_MAX && !text.contains(['e', 'E']));
                assert_eq!(FLOAT.parse_alike(text.as_bytes()), Ok(number));
            }
            let text: Vec<u8> =
                (0..rng.below(9)).map(|_| b"0123456789+-.eE \xFFx"[rng.below(18) as usize]).collect();
            let _ = INTEGER.parse_alike(&text);
            let _ = FLOAT.parse_alike(&text);
        }
    }
}
