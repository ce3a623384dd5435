//! Redis's patterns: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a character that stands for itself.
//!
//! Every part of a pattern except `*` takes exactly one byte. So after a mismatch it is enough to go back to
//! the last `*`, and no pattern costs more than its length times the length of the text (Z18).

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Matters,
    Ignored,
}

/// Whether the pattern matches the whole text.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut at, mut seen) = (0, 0);
    // The place behind the last star, and the end of the text that the star takes at least.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, seen));
            continue;
        }
        match one(&pattern[at..], text[seen], case) {
            Some(length) => {
                at += length;
                seen += 1;
            }
            None => match star {
                Some((behind, taken)) => {
                    star = Some((behind, taken + 1));
                    (at, seen) = (behind, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the pattern's first part, if that part takes this byte.
fn one(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    let fold = |byte: u8| match case {
        Case::Matters => byte,
        Case::Ignored => byte.to_ascii_lowercase(),
    };
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (length, found) = in_class(class, byte, fold);
            found.then_some(1 + length)
        }
        [b'\\', meant, ..] => (fold(*meant) == fold(byte)).then_some(2),
        [meant, ..] => (fold(*meant) == fold(byte)).then_some(1),
    }
}

/// The length of a class behind its opening bracket, and whether the byte is in the class. A class without a
/// closing bracket ends with the pattern.
fn in_class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => return (at, found != negated),
            [b'\\', meant, ..] => {
                found |= fold(*meant) == fold(byte);
                at += 2;
            }
            [b']', ..] => return (at + 1, found != negated),
            [first, b'-', last, ..] => {
                // Redis compares signed bytes, so its ranges are ranges of signed bytes.
                let [first, last, byte] = [*first, *last, byte].map(|byte| fold(byte) as i8);
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [meant, ..] => {
                found |= fold(*meant) == fold(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_read_as_redis_reads_them() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "abc"], &[]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h*llo", &["hllo", "heeello"], &["hell", "hello!"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo"]),
            ("h[^e]llo", &["hallo", "hbllo"], &["hello"]),
            ("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("h[b-a]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("a\\*b", &["a*b"], &["axb", "a\\*b"]),
            ("a\\", &["a\\"], &["a"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[a", &["a"], &["b", "[a"]),
            ("[", &[], &["[", ""]),
            ("[]", &[], &["a", "]"]),
            ("[^", &["a"], &["", "ab"]),
            ("[^]", &["a"], &[""]),
            ("[a-]", &["a", "]", "_"], &["-", "b"]),
            ("[a-", &["a", "-"], &["b"]),
            ("[\\-a]", &["-", "a"], &["\\"]),
            ("*a*b*c*", &["abc", "xaxbxcx"], &["acb", "ab"]),
            ("a**", &["a", "ab"], &["b"]),
            ("*?", &["a", "ab"], &[""]),
            ("A[b-C]", &["Ab", "AC", "Aa"], &["AB", "Ac", "ab"]),
        ] {
            for text in yes {
                assert!(matches(pattern.as_bytes(), text.as_bytes(), Case::Matters), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern.as_bytes(), text.as_bytes(), Case::Matters), "{pattern} {text}");
            }
        }
        assert!(matches(b"MAX*[A-C]", b"maxmemoryB", Case::Ignored));
        assert!(matches(b"[\x80-\xff]", b"\x90", Case::Matters));
        assert!(matches(b"[\x80-a]", b"A", Case::Matters));
    }

    // Z18: stars that a recursive matcher tries in all ways.
    #[test]
    fn many_stars_cost_no_more_than_length_times_length() {
        let pattern = [b"a*".repeat(5000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &[b'a'; 10_000], Case::Matters));
    }

    /// As Redis writes it: recursive.
    fn slowly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| slowly(rest, &text[taken..])),
            (_, [byte, rest @ ..]) => {
                one(pattern, *byte, Case::Matters).is_some_and(|length| slowly(&pattern[length..], rest))
            }
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn going_back_to_the_last_star_is_enough(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text, Case::Matters), slowly(pattern, text));
        }
    }
}
