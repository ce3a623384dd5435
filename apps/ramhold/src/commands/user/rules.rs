//! The rules of a command line: whole, known to this version, and without passwords.

use crate::connection::alike;
use crate::failure::Failure;
use crate::output::bytes_for_eyes;
use ramhold_access::limits::NAME_BYTES_MAX;
use ramhold_access::rule::Secret;
use ramhold_access::{Account, Catalog, Rule, RuleFault, whole_rules};

/// The rules of a command line, checked.
#[derive(Debug)]
pub struct Words {
    /// A selector is one of them.
    rules: Vec<Vec<u8>>,
    parsed: Vec<Rule>,
}

impl Words {
    pub fn check(words: &[String]) -> Result<Words, Failure> {
        if let Some(word) = words.iter().find(|word| has_password(word)) {
            return Err(Failure::usage(password_refused(word)));
        }
        if let Some(option) = words.iter().find(|word| word.starts_with("--")) {
            let shown = bytes_for_eyes(option.as_bytes());
            return Err(Failure::usage(format!("'{shown}' is no rule; options stand before the rules")));
        }
        let catalog = ramhold_resp::catalog();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let rules = whole_rules(&words).map_err(|fault| Failure::usage(fault.to_string()))?;
        let parse = |rule: &Vec<u8>| {
            Rule::parse(rule, Some(&catalog)).map_err(|fault| refused(rule, &fault, &catalog))
        };
        let parsed = rules.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Words { rules, parsed })
    }

    pub fn rules(&self) -> &[Vec<u8>] {
        &self.rules
    }

    /// The account that they make out of a new one that is on. A hash stands for the password that is made of it, so that
    /// passwords are counted.
    pub fn on_new(&self, name: &str) -> Result<Account, Failure> {
        let mut account = Account::new(name).map_err(|error| Failure::usage(error.to_string()))?;
        let plain = self.rules.iter().zip(&self.parsed).map(|(text, rule)| match rule {
            Rule::AddSecret(Secret::Sha256(hash)) => format!("secret={hash}").into_bytes(),
            Rule::RemoveSecret(Secret::Sha256(hash)) => format!("unsecret={hash}").into_bytes(),
            _ => text.clone(),
        });
        let rules: Vec<Vec<u8>> = std::iter::once(b"on".to_vec()).chain(plain).collect();
        account.set_rules(&rules).map_err(|error| Failure::usage(sentence(&error)))?;
        Ok(account)
    }

    /// Whether one of them says how the account logs in, or that it does not.
    pub fn say_how_to_log_in(&self) -> bool {
        self.parsed.iter().any(|rule| {
            matches!(rule, Rule::NoPass | Rule::ResetPass | Rule::Off | Rule::Certificate(_))
                || is_password(rule)
        })
    }
}

fn is_password(rule: &Rule) -> bool {
    matches!(rule, Rule::AddSecret(_) | Rule::RemoveSecret(_))
}

/// Whether a word has a password that is not hashed, or one as it is stored.
fn has_password(word: &str) -> bool {
    if word.starts_with('(') {
        return word.split(['(', ' ', ')']).any(has_password);
    }
    match Rule::parse(word.as_bytes(), None) {
        Ok(Rule::AddSecret(secret) | Rule::RemoveSecret(secret)) => match secret {
            Secret::Password(_) | Secret::Stored(_) => true,
            Secret::Sha256(_) => false,
        },
        // Too long to be read as a rule, and a password all the same.
        _ => word.starts_with(['>', '<']),
    }
}

fn password_refused(word: &str) -> String {
    let why = "a password on the command line is seen by all users of this machine ('ps') and stays in the shell's history";
    if word.starts_with('<') {
        return format!("{why}; remove it by its SHA-256 ('!SHA256'), or remove all with 'resetpass'");
    }
    format!(
        "{why}; give it with --ask-password, --password-file FILE, --password-env VARIABLE or --password-fd N, or its \
         SHA-256 as '#SHA256'"
    )
}

pub fn check_name(name: &str) -> Result<(), Failure> {
    Account::new(name).map(drop).map_err(|_| {
        Failure::usage(format!(
            "'{}' is no name of an account: it has 1 to {NAME_BYTES_MAX} visible ASCII characters without ( and )",
            bytes_for_eyes(name.as_bytes())
        ))
    })
}

fn refused(rule: &[u8], fault: &RuleFault, catalog: &Catalog) -> Failure {
    let way_out = match fault {
        RuleFault::UnknownCommand(name) => {
            let meant = alike(name, catalog.iter().map(|(_, entry)| entry.name.as_str()));
            meant.map(|meant| format!("; did you mean '{meant}'?"))
        }
        RuleFault::UnknownClass(name) => {
            let meant = alike(name, ramhold_access::Class::ALL.iter().map(|class| class.name()));
            meant.map(|meant| format!("; did you mean '@{meant}'?"))
        }
        RuleFault::Syntax => {
            Some("; rules are like on, off, +get, -@write, '~key*', '&channel*', nopass".into())
        }
        _ => None,
    };
    Failure::usage(format!("rule '{}': {fault}{}", bytes_for_eyes(rule), way_out.unwrap_or_default()))
}

/// An error of an account, with the rule in front.
pub fn sentence(error: &ramhold_access::AccountError) -> String {
    match error {
        ramhold_access::AccountError::Rule { rule, fault } if rule.is_empty() => fault.to_string(),
        ramhold_access::AccountError::Rule { rule, fault } => format!("rule '{rule}': {fault}"),
        ramhold_access::AccountError::Name => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str]) -> Result<Words, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Words::check(&words).map_err(|failure| failure.text().to_owned())
    }

    // J4
    #[test]
    fn a_password_in_an_argument_is_refused_with_the_reason_and_the_way_out() {
        let long = format!(">canary{}", "x".repeat(2000));
        for word in [
            ">canary",
            "<canary",
            "secret=canary",
            "UNSECRET=canary",
            "(>canary",
            "(+get >canary)",
            ">",
            &long,
        ] {
            let refused = check(&["on", word]).expect_err("it is seen by all");
            assert!(refused.contains("'ps'"), "{refused}");
            assert!(!refused.contains("canary"), "{refused}");
            assert!(refused.contains(if word.starts_with('<') { "'!SHA256'" } else { "--password-file" }));
        }
        let hash = "0123456789abcdef".repeat(4);
        check(&[&format!("#{hash}"), &format!("!{hash}")]).expect("hashes may be seen");
    }

    #[test]
    fn rules_are_checked_with_the_commands_of_this_version() {
        let words =
            check(&["on", "+get", "-client|kill", "(+@read", "~a*)", "%R~b"]).expect("these are rules");
        assert_eq!(words.rules().len(), 5);
        assert!(!words.say_how_to_log_in());
        let told = |words: &[&str]| check(words).expect_err("this is no rule");
        assert_eq!(told(&["+gett"]), "rule '+gett': Unknown command 'gett'; did you mean 'get'?");
        assert_eq!(told(&["+@raed"]), "rule '+@raed': Unknown category '@raed'; did you mean '@read'?");
        assert!(!told(&["x\x1b"]).contains('\x1b'));
        assert_eq!(told(&["+get", "--generate"]), "'--generate' is no rule; options stand before the rules");
        assert!(told(&["readonly"]).contains("rules are like"));
        assert!(told(&["(+get"]).contains("Unmatched parenthesis"));
    }

    #[test]
    fn the_rules_of_a_new_account_are_applied_before_they_are_sent() {
        let words = check(&["~*", "~a"]).expect("both are rules");
        let told = words.on_new("ann").expect_err("the second one has no effect").text().to_owned();
        assert!(told.starts_with("rule '~a': Adding a pattern after"), "{told}");
        let hash = format!("#{}", "0123456789abcdef".repeat(4));
        let words = check(&[&hash, "~a"]).expect("both are rules");
        assert!(words.say_how_to_log_in());
        assert_eq!(words.on_new("ann").expect("it is a hash").secrets().len(), 1);
        let words = check(&[&hash, "nopass"]).expect("both are rules");
        assert!(words.on_new("ann").expect("they go together").secrets().is_empty());
        let words = check(&[&hash.replace('#', "!")]).expect("a rule");
        assert!(words.on_new("ann").is_err(), "a new account has no password");
        for word in ["nopass", "resetpass", "off", "cert=CN1"] {
            assert!(check(&[word]).expect("a rule").say_how_to_log_in(), "{word}");
        }
    }
}
