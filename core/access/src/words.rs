//! Puts the words of a command together to rules.
//!
//! A selector in parentheses may come in one word or in several, since shells split it.

use crate::limits::{RULE_BYTES_MAX, RULE_COUNT_MAX};
use crate::rule::RuleFault;

/// The rules in these words. A selector is one rule, with a space between its parts.
pub fn whole_rules(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, RuleFault> {
    if words.len() > RULE_COUNT_MAX {
        return Err(RuleFault::TooMany("rules in one change", RULE_COUNT_MAX));
    }
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for word in words {
        let mut rule = match open.take() {
            Some(mut begun) => {
                begun.push(b' ');
                begun
            }
            None => Vec::new(),
        };
        rule.extend_from_slice(word);
        // Each word has its own bound, and the words have one. A selector in one word is bounded by its rules, which its
        // reader looks at; so whole rules stay as they are.
        if word.len() > RULE_BYTES_MAX && !(word.starts_with(b"(") && word.ends_with(b")")) {
            return Err(RuleFault::TooLong);
        }
        if rule.starts_with(b"(") && !rule.ends_with(b")") {
            open = Some(rule);
        } else {
            rules.push(rule);
        }
    }
    if open.is_some() {
        return Err(RuleFault::UnclosedSelector);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_may_be_split_by_spaces() {
        let whole = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let rules = whole_rules(&words)?;
            Ok(rules.into_iter().map(|rule| String::from_utf8_lossy(&rule).into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            whole(&["on", "(+get ~a)", "+@read"]),
            Ok(vec!["on".into(), "(+get ~a)".into(), "+@read".into()])
        );
        assert_eq!(whole(&["(+get", "~a", "%R~b)", "off"]), Ok(vec!["(+get ~a %R~b)".into(), "off".into()]));
        let long: Vec<String> = (0..200).map(|n| format!("~pattern-{n}")).collect();
        let joined = format!("({})", long.join(" "));
        assert_eq!(whole(&[joined.as_str()]), Ok(vec![joined.clone()]), "whole rules stay as they are");
        assert_eq!(whole(&["(+get", "~a"]), Err(RuleFault::UnclosedSelector));
        assert_eq!(whole(&["+get)"]), Ok(vec!["+get)".into()]), "no rule, which its reader says");
    }
}
