//! Numbers as Redis's `INCRBYFLOAT` computes with them: 64 bits of mantissa, 15 bits of exponent, rounded to
//! nearest, ties to even (the `long double` of x86). Doubles would give other results for sums of money and
//! the like.
//!
//! Not here: any other arithmetic. Nothing else in Ramhold decides with fractions.

use crate::whole::Whole;

/// `magnitude * 2^exponent`. The magnitude's highest bit is set, unless the exponent is the least
/// (`EXPONENT_MIN`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extended {
    negative: bool,
    magnitude: u64,
    exponent: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed {
    Finite(Extended),
    Infinite,
}

const EXPONENT_MIN: i32 = -16_445;
const EXPONENT_MAX: i32 = 16_320;
/// Bytes of the longest text that Redis reads as such a number.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimal exponents beyond this bound are too large or too small for any number of that many digits.
const DECIMAL_EXPONENT_MAX: i64 = 11_000;
/// The same bound for exponents of two.
const BINARY_EXPONENT_MAX: i64 = 40_000;
/// Digits that are written behind the decimal point.
const DECIMALS: usize = 17;

impl Extended {
    /// Reads a text that C's `strtold` would read to its last byte. `None`: the text is no number, or its
    /// number cannot be told from zero or infinity though it is neither.
    pub fn parse(text: &[u8]) -> Option<Parsed> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let lower = rest.to_ascii_lowercase();
        match &lower[..] {
            b"inf" | b"infinity" => return Some(Parsed::Infinite),
            [b'0', b'x', digits @ ..] => {
                let (digits, exponent) = digits_and_exponent(digits, 16, b'p')?;
                // Each hexadecimal digit behind the point is four bits.
                let exponent = exponent.in_digits.checked_mul(4)?.checked_add(exponent.written)?;
                let exponent = exponent.clamp(-BINARY_EXPONENT_MAX, BINARY_EXPONENT_MAX) as i32;
                Extended::nearest(negative, digits, Whole::from(1), exponent)
            }
            digits => {
                let (mut digits, exponent) = digits_and_exponent(digits, 10, b'e')?;
                let exponent = exponent.in_digits.checked_add(exponent.written)?;
                let exponent = exponent.clamp(-DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MAX);
                let mut divisor = Whole::from(1);
                let scaled = if exponent < 0 { &mut divisor } else { &mut digits };
                if !scaled.is_zero() {
                    scaled.multiply_by_power(10, exponent.unsigned_abs());
                }
                Extended::nearest(negative, digits, divisor, 0)
            }
        }
        .map(Parsed::Finite)
    }

    /// The number nearest to `dividend / divisor * 2^exponent`. `None`: it is too large, or too small to be
    /// told from zero.
    fn nearest(negative: bool, mut dividend: Whole, mut divisor: Whole, exponent: i32) -> Option<Extended> {
        if dividend.is_zero() {
            return Some(Extended { negative, magnitude: 0, exponent: EXPONENT_MIN });
        }
        // This shift gives the quotient 65 or 66 bits, which are one or two more than are kept.
        let shift = 65 - (dividend.bit_count() as i32 - divisor.bit_count() as i32);
        if shift > 0 {
            dividend.shift_left(shift as usize);
        } else {
            divisor.shift_left(shift.unsigned_abs() as usize);
        }
        let mut quotient: u128 = 0;
        divisor.shift_left(65);
        for _ in 0..66 {
            quotient <<= 1;
            if dividend >= divisor {
                dividend.subtract(&divisor);
                quotient |= 1;
            }
            dividend.shift_left(1);
        }
        let rounded = Extended::rounded(negative, quotient, exponent - shift, !dividend.is_zero())?;
        (rounded.magnitude > 0).then_some(rounded)
    }

    /// Rounds `bits * 2^exponent`, or a little more than that if `more`. `None`: the number is too large.
    fn rounded(negative: bool, bits: u128, exponent: i32, more: bool) -> Option<Extended> {
        let surplus = (128 - bits.leading_zeros() as i32 - 64).max(EXPONENT_MIN - exponent);
        if surplus <= 0 {
            assert!(!more, "what was cut off is smaller than what is cut off now");
            let shift = surplus.unsigned_abs();
            return Some(Extended {
                negative,
                magnitude: (bits << shift) as u64,
                exponent: exponent - shift as i32,
            });
        }
        let (mut kept, cut, half) = match surplus {
            ..128 => (bits >> surplus, bits & ((1 << surplus) - 1), 1 << (surplus - 1)),
            // The number is less than half of the least one.
            _ => (0, 0, 1),
        };
        if cut > half || cut == half && (more || kept & 1 == 1) {
            kept += 1;
        }
        let mut exponent = exponent + surplus;
        if kept >> 64 != 0 {
            kept >>= 1;
            exponent += 1;
        }
        (exponent <= EXPONENT_MAX).then_some(Extended { negative, magnitude: kept as u64, exponent })
    }

    /// `None`: the sum is too large.
    pub fn sum(self, other: Extended) -> Option<Extended> {
        let size = |number: &Extended| (number.exponent, number.magnitude);
        let (large, small) = if size(&self) >= size(&other) { (self, other) } else { (other, self) };
        // Bits of room: above them for a carry, below them for the low bits of the smaller number.
        const ROOM: i32 = 62;
        let distance = (large.exponent - small.exponent).unsigned_abs();
        let one = u128::from(large.magnitude) << ROOM;
        let other = u128::from(small.magnitude) << ROOM;
        let (two, more) = match distance {
            ..128 => (other >> distance, other & ((1 << distance) - 1) != 0),
            _ => (0, other != 0),
        };
        let bits = if large.negative == small.negative { one + two } else { one - two - u128::from(more) };
        if bits == 0 && !more {
            return Some(Extended { negative: false, magnitude: 0, exponent: EXPONENT_MIN });
        }
        Extended::rounded(large.negative, bits, large.exponent - ROOM, more)
    }

    /// Writes a decimal number without an exponent, rounded to `DECIMALS` (17) digits behind the point,
    /// without zeros at its end.
    pub fn text(self) -> String {
        let digits = match self.exponent {
            0.. => {
                let mut whole = Whole::from(self.magnitude);
                whole.shift_left(self.exponent as usize);
                whole.decimal()
            }
            exponent => {
                let scaled = u128::from(self.magnitude) * 10u128.pow(DECIMALS as u32);
                let shift = exponent.unsigned_abs();
                let (mut kept, cut, half) = match shift {
                    ..128 => (scaled >> shift, scaled & ((1 << shift) - 1), 1u128 << (shift - 1)),
                    _ => (0, 0, 1),
                };
                if cut > half || cut == half && kept & 1 == 1 {
                    kept += 1;
                }
                let digits = format!("{kept:0width$}", width = DECIMALS + 1);
                let (before, behind) = digits.split_at(digits.len() - DECIMALS);
                format!("{before}.{behind}").trim_end_matches('0').trim_end_matches('.').to_string()
            }
        };
        if self.negative && digits != "0" { format!("-{digits}") } else { digits }
    }
}

/// The parts of an exponent: the number of digits behind the point (as a negative number), and the exponent
/// written behind the digits.
struct Exponent {
    in_digits: i64,
    written: i64,
}

/// Reads digits, with or without a point, and an exponent behind `mark`.
fn digits_and_exponent(text: &[u8], base: u32, mark: u8) -> Option<(Whole, Exponent)> {
    let marked = text.iter().position(|byte| *byte == mark);
    let (digits, written) = match marked {
        None => (text, 0),
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
    };
    let point = digits.iter().position(|byte| *byte == b'.');
    let (before, behind) = point.map_or((digits, &[][..]), |at| (&digits[..at], &digits[at + 1..]));
    if before.is_empty() && behind.is_empty() {
        return None;
    }
    let digits: Option<Vec<u32>> =
        before.iter().chain(behind).map(|digit| char::from(*digit).to_digit(base)).collect();
    let mut whole = Whole::from(0);
    for part in digits?.chunks(Whole::DIGITS_AT_ONCE) {
        let value = part.iter().fold(0, |value, digit| value * base + digit);
        whole.multiply_add(base.pow(part.len() as u32), value);
    }
    Some((whole, Exponent { in_digits: -(behind.len() as i64), written }))
}

/// Reads a decimal number, with or without a sign. A number that is far too large counts as very large.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = char::from(*digit).to_digit(10)?;
        value = (value * 10 + i64::from(digit)).min(1_000_000_000);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(text: &str) -> Option<Extended> {
        match Extended::parse(text.as_bytes()) {
            Some(Parsed::Finite(number)) => Some(number),
            Some(Parsed::Infinite) | None => None,
        }
    }

    #[test]
    fn numbers_are_rounded_to_64_bits() {
        let table = [
            ("0", false, 0, EXPONENT_MIN),
            ("-0.0e99999999999999999999", true, 0, EXPONENT_MIN),
            ("1", false, 1 << 63, -63),
            ("0x1.8p1", false, 3 << 62, -62),
            ("18446744073709551615", false, u64::MAX, 0),
            // A tie goes to the even one.
            ("18446744073709551617e0", false, 1 << 63, 1),
            ("18446744073709551619", false, (1 << 63) + 2, 1),
            ("0.1", false, 0xcccc_cccc_cccc_cccd, -67),
            // The greatest and the least.
            ("0xffffffffffffffffp16320", false, u64::MAX, EXPONENT_MAX),
            ("0x1p-16445", false, 1, EXPONENT_MIN),
            ("0x1.8p-16445", false, 2, EXPONENT_MIN),
            ("3.6e-4951", false, 1, EXPONENT_MIN),
        ];
        for (text, negative, magnitude, exponent) in table {
            assert_eq!(finite(text), Some(Extended { negative, magnitude, exponent }), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x",
            "0x.",
            "0xp1",
            "1 ",
            " 1",
            "1_0",
            "--1",
            "1.2.3",
            "nan",
            "infinit",
            "1e5000",
            "1e-5000",
            "0x1p16384",
            "0x1p-16447",
            "0x1p-16446",
            "1e99999999999999999999",
            "1,5",
            "1e1.5",
            "0b1",
            "1p3",
            "0x1e+1",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(b"-InFinity"), Some(Parsed::Infinite));
        assert_eq!(Extended::parse(&[b'1'; TEXT_BYTES_MAX + 1]), None);
    }

    #[test]
    fn sums_are_rounded_once() {
        for (one, other, want) in [
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "1.23", "3001.22999999999999998"),
            ("1e4931", "-1e4931", "0"),
            ("1", "-1e-30", "1"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("18446744073709551614", "0.5", "18446744073709551614"),
            ("-1e-20", "0", "0"),
            ("0x1p-16445", "-0x1p-16444", "0"),
            ("1e-17", "0", "0.00000000000000001"),
        ] {
            let sum = finite(one).unwrap().sum(finite(other).unwrap()).unwrap();
            assert_eq!(sum.text(), want, "{one} {other}");
            assert_eq!(finite(other).unwrap().sum(finite(one).unwrap()), Some(sum), "{one} {other}");
        }
        let most = finite("0xffffffffffffffffp16320").unwrap();
        assert_eq!(most.sum(most), None);
        assert_eq!(most.sum(finite("0x1p16318").unwrap()), Some(most));
        assert_eq!(most.sum(finite("0x1p16319").unwrap()), None);
    }
}
