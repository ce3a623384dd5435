//! `ramhold user`: against a played cluster, and against a real coordinator. J4

use crate::binary::{Directory, nobody, ramhold_at};
use crate::played::{Mischief, Played};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

#[test]
fn an_account_is_added_changed_shown_and_removed() {
    let played = Played::start(Mischief::default());
    let made =
        played.ramhold(&["user", "add", "app", "nopass", "~app:*", "+@read", "-@dangerous"]).ok().text();
    let expected = "account 'app' is made\n  logs in     with any password or none\n  commands    +@read -@dangerous\n\
                    \x20 keys        app:*\n  channels    none\n  tables      all\n";
    assert_eq!(made, expected);
    let again = played.ramhold(&["user", "add", "app", "nopass"]).failed(1);
    assert!(
        again.contains("there is an account 'app'") && again.contains("'ramhold user set app'"),
        "{again}"
    );
    let changed = played.ramhold(&["user", "set", "app", "%R~x", "-get"]).ok().text();
    assert_eq!(changed, "account 'app' is changed\n");
    let list = played.ramhold(&["user", "list"]).ok().text();
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains("default  on     any"), "{list}");
    let shown = played.ramhold(&["user", "describe", "app"]).ok().text();
    assert!(shown.starts_with("account 'app' (id 1), last changed in version 2\n"), "{shown}");
    assert!(shown.contains("  keys        app:* x (read)\n"), "{shown}");
    let json = played.ramhold(&["user", "list", "--json"]).ok().json();
    assert_eq!((&json[0]["account"], &json[0]["id"]), (&"default".into(), &0.into()));
    assert_eq!(json[1]["rules"], json!(["on", "nopass", "~app:*", "+@read", "-@dangerous", "%R~x", "-get"]));
    let json = played.ramhold(&["--json", "user", "set", "app", "off"]).ok().json();
    assert_eq!(json, json!({ "account": "app", "version": 3 }));
    let removed = played.ramhold(&["user", "remove", "app", "ap"]);
    assert_eq!(String::from_utf8_lossy(&removed.stdout), "account 'app' is removed\n");
    assert!(removed.failed(1).contains("there is no account 'ap'; did you mean 'app'?"));
    let missing = played.ramhold(&["user", "describe", "app"]).failed(1);
    assert!(missing.contains("there is no account 'app'; 'ramhold user list' shows all"), "{missing}");
    let kept = played.ramhold(&["user", "remove", "default"]).failed(3);
    assert!(kept.contains("'ramhold user set default off'"), "{kept}");
}

#[test]
fn what_cannot_be_done_says_why_and_names_the_way_out() {
    let played = Played::start(Mischief::default());
    for (arguments, code, why) in [
        (&["user", "set", "ann", "off"][..], 1, "there is no account 'ann'"),
        (&["user", "set", "ann"], 2, "there is nothing to change"),
        (&["user", "add", "a b", "nopass"], 2, "'a b' is no name of an account"),
        (&["user", "add", "ann", "nopass", "+gett"], 2, "did you mean 'get'?"),
        (&["user", "add", "ann", "nopass", "~*", "~a"], 2, "rule '~a': Adding a pattern"),
        (&["user", "add", "ann", "nopass", "--generate"], 2, "options stand before the rules"),
        (&["user", "add", "ann", ">canary"], 2, "--password-file FILE"),
        (&["user", "set", "ann", "<canary"], 2, "'!SHA256'"),
        (&["user", "add", "ann", "+get"], 2, "give --generate"),
        (&["user", "add", "ann", "--password-file", "/nowhere/x"], 2, "--password-file /nowhere/x: "),
        (&["user", "add", "ann", "--password-env", "RAMHOLD_NOT_SET"], 2, "there is no such variable"),
        (&["user", "add", "ann", "--password-file", "-"], 2, "the password of stdin is empty"),
    ] {
        let said = played.ramhold(arguments).failed(code);
        assert!(said.contains(why) && !said.contains("canary"), "{arguments:?}: {said}");
    }
    let two = played.ramhold(&["user", "add", "ann", "--generate", "--password-file", "f"]);
    assert_eq!(two.code, 2, "one source of the password is enough: {two:?}");
    let list = played.ramhold(&["user", "list", "--json"]).ok().json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "nothing was made");
    played.ramhold(&["user", "add", "ann", "nopass"]).ok();
    let hash = format!("!{}", "0123456789abcdef".repeat(4));
    let said = played.ramhold(&["user", "set", "ann", &hash]).failed(1);
    assert!(said.contains("account 'ann' has no such password; 'resetpass' removes all it has"), "{said}");
}

// The played cluster refuses a password with a line feed.
#[test]
fn passwords_come_from_files_variables_and_descriptors() {
    let (played, directory) = (Played::start(Mischief::default()), Directory::new());
    directory.write("password", b"canary\n");
    let file = directory.0.join("password").display().to_string();
    let made = played.ramhold(&["user", "add", "ann", "--password-file", &file, "~*"]).ok();
    assert!(made.text().contains("  logs in     with its password\n"), "{made:?}");
    played.ramhold_with(b"second\n", &["user", "set", "ann", "--password-file", "-"]).ok();
    let line = format!(
        "C=canary $R user set ann --password-env C && $R user set ann --password-fd 7 7<{file} && printf 'piped\\n' | $R \
         user set ann --password-fd 0"
    );
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", &line]).env("R", env!("CARGO_BIN_EXE_ramhold"));
    let ran = command.env("RAMHOLD_CLUSTER", played.address.to_string()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let json = played.ramhold(&["--json", "user", "describe", "ann"]).ok().json();
    assert_eq!((&json["passwords"], &json["rules"]), (&5.into(), &json!(["on", "~*"])));
    let closed = played.ramhold(&["user", "set", "ann", "--password-fd", "99"]).failed(2);
    assert!(closed.contains("--password-fd 99: ") && closed.contains("99<FILE"), "{closed}");
}

#[test]
fn a_generated_password_is_printed_once() {
    let played = Played::start(Mischief::default());
    let made = played.ramhold(&["user", "add", "ann", "--generate", "+get"]).ok().text();
    let password = made.lines().find_map(|line| line.strip_prefix("password, shown only now: "));
    let password = password.unwrap_or_else(|| panic!("{made}")).to_owned();
    assert_eq!(password.len(), 26);
    let json = played.ramhold(&["--json", "user", "set", "ann", "--generate", "resetpass"]).ok().json();
    assert!(json["password"].as_str().is_some_and(|other| other.len() == 26 && other != password), "{json}");
    let shown = played.ramhold(&["user", "describe", "ann"]).ok().text();
    assert!(!shown.contains(&password) && shown.contains("with one of 2 passwords"), "{shown}");
}

/// A program on a terminal of its own, which is typed to when it has asked.
struct Typed {
    script: Child,
    shown: String,
}

impl Typed {
    /// None where there is no `script` to make a terminal.
    fn start(played: &Played, line: &str) -> Option<Typed> {
        let script = Command::new("script").arg("--version").stdout(Stdio::null()).status();
        if !script.is_ok_and(|status| status.success()) {
            println!("skipped: there is no 'script', which makes a terminal");
            return None;
        }
        let mut script = Command::new("script");
        script.args(["-qec", line, "/dev/null"]).env("R", env!("CARGO_BIN_EXE_ramhold"));
        script.env("RAMHOLD_CLUSTER", played.address.to_string());
        let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
        Some(Typed { script, shown: String::new() })
    }

    /// Waits for these words, and types.
    fn answer(&mut self, question: &str, keys: &[u8]) {
        let shown = self.script.stdout.as_mut().expect("it is piped");
        let mut byte = [0];
        while !self.shown.ends_with(question) {
            assert_eq!(
                shown.read(&mut byte).expect("it can be read"),
                1,
                "'{question}' is not asked: {}",
                self.shown
            );
            self.shown.push(char::from(byte[0]));
        }
        self.script.stdin.as_mut().expect("it is piped").write_all(keys).expect("it reads");
    }

    /// Everything that the terminal has shown, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        self.script
            .stdout
            .as_mut()
            .expect("it is piped")
            .read_to_string(&mut self.shown)
            .expect("it is text");
        let code = self.script.wait().expect("it has ended").code();
        (std::mem::take(&mut self.shown), code)
    }
}

#[test]
fn a_password_is_asked_for_twice_and_not_shown() {
    let played = Played::start(Mischief::default());
    let Some(mut typed) = Typed::start(&played, "$R user add ann +get; stty -a") else { return };
    typed.answer("password of account 'ann': ", b"canary\r");
    typed.answer("the same again: ", b"canarx\x7fy\r");
    let (shown, code) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("account 'ann' is made") && shown.contains("with its password"), "{shown}");
    assert!(!shown.contains("canar"), "{shown}");
    assert!(shown.contains(" echo ") && shown.contains(" icanon"), "the terminal is as before: {shown}");
    let Some(mut typed) = Typed::start(&played, "$R user set ann --ask-password") else { return };
    typed.answer("password of account 'ann': ", b"canary\r");
    typed.answer("the same again: ", b"other\r");
    let (shown, code) = typed.end();
    assert!(code == Some(2) && shown.contains("the two passwords differ"), "{shown}");
    let Some(mut typed) = Typed::start(&played, "$R user set ann --ask-password; stty -a") else { return };
    typed.answer("password of account 'ann': ", b"can\x03");
    let (shown, _) = typed.end();
    assert!(shown.contains("it was interrupted") && shown.contains(" echo "), "{shown}");
    let json = played.ramhold(&["--json", "user", "describe", "ann"]).ok().json();
    assert_eq!(json["passwords"], 1);
}

/// A coordinator of its own, killed at the end of the test.
struct Coordinator {
    process: Child,
    address: String,
}

impl Coordinator {
    /// Returns when it listens.
    fn start(directory: &Directory) -> Coordinator {
        let address = nobody();
        let mut process = Command::new(env!("CARGO_BIN_EXE_ramhold"))
            .args(["coordinator", "--config", "none", "--bind", &address, "--dir", directory.text()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut told = lines.map_while(Result::ok).take_while(|line| !line.starts_with("  listens "));
        let before: Vec<String> = told.by_ref().collect();
        assert!(!before.is_empty(), "it ended before it listened");
        // The pipe stays open, so that the process can write to it.
        std::thread::spawn(move || told.for_each(drop));
        Coordinator { process, address }
    }

    fn ask(&self, arguments: &[&str]) -> crate::binary::Ran {
        ramhold_at(&self.address, b"", arguments)
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_real_coordinator_keeps_accounts_over_a_restart() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let shown = coordinator.ask(&["user", "describe", "default"]).ok().text();
    assert!(shown.starts_with("account 'default': nobody has changed it\n"), "{shown}");
    coordinator.ask(&["user", "add", "ann", "nopass", "~a*", "(+get", "~b)", "+@read", "-@dangerous"]).ok();
    coordinator.ask(&["user", "add", "bob", "resetpass"]).ok();
    coordinator.ask(&["user", "set", "default", "resetkeys", "%R~*"]).ok();
    coordinator.ask(&["user", "set", "ann", "resetkeys", "~c*"]).ok();
    let wrong = coordinator.ask(&["user", "set", "default", "%R~*", "~*", "~d"]).failed(2);
    assert!(wrong.contains("nothing is changed: rule '~d': Adding a pattern"), "{wrong}");
    coordinator.ask(&["user", "remove", "bob"]).ok();
    let before = coordinator.ask(&["--json", "user", "list"]).ok().json();
    assert_eq!(
        before[0]["rules"],
        json!(["on", "nopass", "~c*", "-@all", "+@read", "-@dangerous", "(~b -@all +get)"])
    );
    assert_eq!((&before[0]["id"], &before[0]["changed"]), (&1.into(), &4.into()));
    assert_eq!((&before[1]["account"], &before[1]["id"]), (&"default".into(), &3.into()));
    drop(coordinator);
    let coordinator = Coordinator::start(&directory);
    assert_eq!(coordinator.ask(&["--json", "user", "list"]).ok().json(), before);
    coordinator.ask(&["user", "add", "bob", "resetpass"]).ok();
    let json = coordinator.ask(&["--json", "user", "describe", "bob"]).ok().json();
    assert_eq!(json["id"], 6, "another account than the one of before");
}
