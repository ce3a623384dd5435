//! The front under accounts: logins, the right of each command, `ACL`, and changes while connections are open (J4, Z9).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod rig;

use ramhold_base::*;
use ramhold_resp::commands::ALL;
use rig::{A, B, Rig};
use std::time::Duration;

const C: ConnId = ConnId(3);

/// A rig with the account `ann`, whose password is `pw`, and with these rules.
fn with_ann(rules: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.set_account("ann", &[&["on", ">pw"], rules].concat());
    rig
}

fn login(rig: &mut Rig, conn: ConnId) {
    assert_eq!(rig.ask_slowly(conn, "auth ann pw"), "+OK\r\n");
}

const NO_COMMAND: &str = "has no permissions to run the";
const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";
const NO_CHANNEL: &str = "-NOPERM No permissions to access a channel\r\n";
const NO_DATABASE: &str = "-NOPERM No permissions to access a database\r\n";

#[test]
fn nobody_need_log_in_until_somebody_changes_accounts() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "acl whoami\nset a 1"), "$7\r\ndefault\r\n+OK\r\n");
    assert!(rig.ask(A, "auth anything").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(rig.ask(A, "auth default anything"), "+OK\r\n");
    assert_eq!(rig.ask(A, "acl users"), "*1\r\n$7\r\ndefault\r\n");
    assert!(rig.ask(A, "acl list").contains("user default on nopass"));
    assert!(rig.shelf.accounts.secrets.is_empty());
}

#[test]
fn a_password_is_compared_while_other_connections_go_on() {
    let mut rig = with_ann(&["+@all", "~*"]);
    assert_eq!(rig.ask(A, "auth ann pw\nacl whoami\nget a"), "", "what follows waits for the verdict");
    assert_eq!(rig.ask(B, "acl whoami"), "$7\r\ndefault\r\n");
    assert_eq!(rig.do_secrets(), 1);
    assert_eq!(rig.said(A), "+OK\r\n$3\r\nann\r\n$-1\r\n");
    assert!(rig.held.is_empty());
    // Who gives a wrong password stays what it was.
    assert!(rig.ask_slowly(A, "auth ann wrong").starts_with("-WRONGPASS"));
    assert_eq!(rig.ask(A, "acl whoami"), "$3\r\nann\r\n");
    assert!(rig.ask_slowly(A, "auth nobody pw").starts_with("-WRONGPASS"));
    assert_eq!(rig.ask(A, "reset\nacl whoami"), "+RESET\r\n$7\r\ndefault\r\n");
}

// Z9: a wrong name and an account that is off take as long as a wrong password, and are told alike.
#[test]
fn wrong_names_are_answered_like_wrong_passwords() {
    let mut rig = with_ann(&["+@all"]);
    rig.set_account("off", &[">pw", "+@all"]);
    for words in
        ["auth ann wrong", "auth nobody pw", "auth off pw", "hello 3 auth nobody pw", "auth \"\\xff\" pw"]
    {
        assert_eq!(rig.ask(A, words), "");
        assert_eq!(rig.shelf.accounts.secrets.len(), 1, "{words}");
        rig.do_secrets();
        assert_eq!(
            rig.said(A),
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            "{words}"
        );
    }
}

#[test]
fn hello_logs_in_names_the_client_and_chooses_the_protocol() {
    let mut rig = with_ann(&["+@all"]);
    rig.set_account("default", &["off"]);
    assert!(rig.ask(A, "hello 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(rig.ask_slowly(A, "hello 3 auth ann wrong setname y").starts_with("-WRONGPASS"));
    assert!(rig.ask_slowly(A, "hello 3 auth ann pw setname x").starts_with("%7\r\n"));
    let said = rig.ask(A, "client info");
    assert!(said.contains("user=ann") && said.contains("name=x") && said.contains("resp=3"), "{said}");
    assert!(rig.ask(A, "hello 2").starts_with("*14\r\n"));
}

// Z9: an address that was wrong too often has to wait, but a password that was right before is let in.
#[test]
fn guessing_is_slow_and_who_knows_the_password_is_let_in() {
    let mut rig = with_ann(&["+@all"]);
    login(&mut rig, A);
    let address = "10.0.0.9:5000".parse().unwrap();
    let meet = |rig: &mut Rig, conn| {
        rig.resp.on_met(rig.now, conn, Some((address, address)), &rig.shelf);
    };
    meet(&mut rig, B);
    for guess in 0..20 {
        assert!(rig.ask_slowly(B, &format!("auth ann {guess}")).starts_with("-WRONGPASS invalid"));
    }
    let too_often = "-TRYAGAIN the password was not checked: too many wrong ones came from this address";
    assert!(rig.ask_slowly(B, "auth ann 20").starts_with(too_often));
    meet(&mut rig, C);
    assert!(rig.ask_slowly(C, "auth ann other").starts_with(too_often));
    login(&mut rig, C);
    login(&mut rig, ConnId(4));
    assert!(
        rig.ask(A, "acl log").contains("$5\r\ncount\r\n:22\r\n"),
        "attempts that were not compared are noted, too"
    );
    rig.pass(Duration::from_secs(3));
    assert!(rig.ask_slowly(B, "auth ann 21").starts_with("-WRONGPASS invalid"));
    assert!(rig.ask_slowly(B, "auth ann 22").starts_with(too_often));
}

// A pool of connections comes back after a restart: all know the password, and it is compared once.
#[test]
fn many_connections_of_one_client_log_in_together() {
    let mut rig = with_ann(&["+@all"]);
    for number in 0..400 {
        assert_eq!(rig.ask(ConnId(100 + number), "auth ann pw\nacl whoami"), "");
    }
    assert_eq!(rig.do_secrets(), 1);
    for number in 0..400 {
        assert_eq!(rig.said(ConnId(100 + number)), "+OK\r\n$3\r\nann\r\n");
    }
}

// Z9: comparisons under way are bounded, and who is refused for that is not told that the password is wrong.
#[test]
fn logins_under_way_are_bounded() {
    let mut rig = with_ann(&["+@all"]);
    let mut busy = 0;
    for number in 0..400 {
        let said = rig.ask(ConnId(100 + number), &format!("auth ann {number}"));
        busy += usize::from(said.starts_with("-TRYAGAIN the password was not checked"));
    }
    assert_eq!((busy, rig.shelf.accounts.secrets.len()), (400 - 36, 36));
    rig.do_secrets();
    let wrong = (0..400).filter(|number| rig.said(ConnId(100 + number)).starts_with("-WRONGPASS")).count();
    assert_eq!(wrong, 16, "of one address");
    login(&mut rig, A);
}

// A request behind a login in the same bytes is read by the rules that count after it.
#[test]
fn a_large_request_may_follow_a_login_at_once() {
    let mut rig = with_ann(&["+@all", "~*"]);
    rig.set_account("default", &["off"]);
    let value = "x".repeat(5000);
    let lines = format!("auth ann pw\nmset {{a}}1 1 {{a}}2 2 {{a}}3 3 {{a}}4 4 {{a}}5 5\nset b {value}");
    assert_eq!(rig.ask_slowly(A, &lines), "+OK\r\n+OK\r\n+OK\r\n");
    assert!(rig.closed.is_empty());
    assert!(rig.ask_slowly(B, &format!("auth ann wrong\nset b {value}")).contains("-ERR Protocol error"));
}

// A login that waits behind others is not taken for silence.
#[test]
fn who_waits_for_a_verdict_is_not_shut_out() {
    let mut rig = with_ann(&["+@all"]);
    rig.set_account("default", &["off"]);
    assert_eq!(rig.ask(A, "auth ann pw"), "");
    rig.ask(B, "ping");
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.closed, [B]);
    rig.do_secrets();
    assert_eq!(rig.said(A), "+OK\r\n");
}

/// Every command with as many arguments as it takes at least.
fn lines() -> Vec<(String, &'static ramhold_resp::Command)> {
    let mut lines = Vec::new();
    for row in ALL {
        let subcommands = match row.run {
            ramhold_resp::Run::Container(rows) => rows,
            _ => std::slice::from_ref(row),
        };
        for sub in subcommands {
            let is_sub = !std::ptr::eq(sub, row);
            let mut line = if is_sub { format!("{} {}", row.name, sub.name) } else { row.name.to_owned() };
            while line.split(' ').count() < sub.arity.unsigned_abs() as usize {
                line += " 1";
            }
            lines.push((line, sub));
        }
    }
    lines
}

// J4: the gate of a command cannot be forgotten. Each is refused to who may run none, and to who may run all others.
#[test]
fn each_command_is_refused_to_whom_it_is_not_allowed() {
    let mut open = Vec::new();
    for (line, row) in lines() {
        let name = line.split(' ').take(if ALL.iter().any(|one| std::ptr::eq(one, row)) { 1 } else { 2 });
        let name = name.collect::<Vec<_>>().join("|");
        for rules in [&["~*", "&*"][..], &["~*", "&*", "+@all", &format!("-{name}")]] {
            let mut rig = with_ann(rules);
            login(&mut rig, A);
            let said = rig.ask(A, &line);
            if !said.contains(&format!("User ann {NO_COMMAND} '{name}' command")) {
                open.push(name.clone());
            }
            assert!(rig.shelf.asked.is_empty(), "{line}");
        }
    }
    open.dedup();
    assert_eq!(open, ["auth", "hello", "quit", "reset"]);
}

// J4: no command with keys reaches a key that is not allowed, wherever it stands among the keys.
#[test]
fn each_key_of_each_command_is_looked_at() {
    let mut count = 0;
    for (line, row) in lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let keys = row.keys.of(&bytes).count();
        for denied in 0..keys {
            let mut at = 0;
            let args: Vec<String> = words
                .iter()
                .enumerate()
                .map(|(place, word)| {
                    let is_key =
                        row.keys.of(&bytes).any(|key| std::ptr::eq(key.as_ptr(), bytes[place].as_ptr()));
                    at += usize::from(is_key);
                    match is_key {
                        true if at == denied + 1 => "{t}no".into(),
                        true => "{t}yes".into(),
                        false => (*word).to_owned(),
                    }
                })
                .collect();
            let mut rig = with_ann(&["~{t}yes", "+@all"]);
            login(&mut rig, A);
            assert_eq!(rig.ask(A, &args.join(" ")), NO_KEY, "{args:?}");
            assert!(rig.shelf.asked.is_empty(), "{args:?}");
            count += 1;
        }
    }
    assert!(count > 50, "{count} keys");
}

#[test]
fn reads_and_writes_of_a_key_are_told_apart() {
    let mut rig = with_ann(&["%R~r*", "%W~w*", "~b*", "+@all"]);
    login(&mut rig, A);
    for (line, is_allowed) in [
        ("get r", true),
        ("get w", false),
        ("get b", true),
        ("set w 1", true),
        ("set r 1", false),
        ("set w 1 get", false),
        ("set b 1 get", true),
        ("set w 1 ifeq x", false),
        ("set w 1 nx", true),
        ("set w get", true),
        ("exists w", true),
        ("exists r", true),
        ("exists x", false),
        ("getex r", false),
        ("getdel b", true),
        ("bitfield r get u8 0", true),
        ("bitfield r set u8 0 1", false),
        ("bitfield w set u8 0 1", false),
        ("bitfield b incrby u8 0 1", true),
        ("append w x", true),
        ("append r x", false),
        ("copy w r", false),
        ("del w", true),
        ("del r", false),
        ("ttl r", true),
        ("incr w", false),
        ("incr b", true),
    ] {
        let said = rig.ask(A, line);
        assert_eq!(said != NO_KEY, is_allowed, "{line}: {said}");
    }
}

#[test]
fn databases_are_tables() {
    let mut rig = with_ann(&["table=db0", "table=db7", "~*", "+@all"]);
    login(&mut rig, A);
    assert_eq!(
        rig.ask(A, "set a 1\nselect 1\nselect 7\nselect 0"),
        format!("+OK\r\n{NO_DATABASE}+OK\r\n+OK\r\n")
    );
    assert_eq!(rig.ask(A, "move a 3\ncopy a b db 3\ncopy a b db 7 db 3"), NO_DATABASE.repeat(3));
    assert_eq!(rig.ask(A, "flushall"), NO_DATABASE);
    // A transaction goes through databases as its commands are queued.
    let said = rig.ask(A, "multi\nset a 2\nselect 3\nset a 3\nexec");
    assert!(
        said.starts_with(&format!("+OK\r\n+QUEUED\r\n{NO_DATABASE}")) && said.contains("-EXECABORT"),
        "{said}"
    );
    rig.set_account("ann", &["resettables", "table=db0", "resetkeys", "~a*"]);
    assert_eq!(rig.ask(A, "flushdb"), NO_KEY, "emptying a table needs all its keys");
    assert_eq!(rig.ask(A, "keys *\ndbsize").matches("NOPERM").count(), 0, "names need the command alone");
}

#[test]
fn channels_are_allowed_by_their_patterns() {
    let mut rig = with_ann(&["&news.*", "+@all"]);
    login(&mut rig, A);
    assert_eq!(rig.ask(A, "publish other x\nspublish other x\nsubscribe news.1 other"), NO_CHANNEL.repeat(3));
    assert_eq!(rig.ask(A, "psubscribe news.1*\npsubscribe *"), NO_CHANNEL.repeat(2));
    assert!(rig.ask(A, "psubscribe news.*").starts_with("*3\r\n$10\r\npsubscribe"));
    // Who may no longer hear what it listens to is shut out.
    rig.set_account("ann", &["resetchannels", "&news.1"]);
    assert_eq!(rig.closed, [A]);
}

#[test]
fn a_change_counts_for_open_connections_at_once() {
    let mut rig = with_ann(&["+get", "~*"]);
    login(&mut rig, A);
    assert!(rig.ask(A, "set a 1").contains(NO_COMMAND));
    rig.set_account("ann", &["+set"]);
    assert_eq!(rig.ask(A, "set a 1"), "+OK\r\n");
    // Queued commands are looked at again.
    assert_eq!(rig.ask(A, "reset"), "+RESET\r\n");
    rig.set_account("ann", &["+@all"]);
    login(&mut rig, A);
    rig.ask(A, "multi\nset a 2");
    rig.set_account("ann", &["-set"]);
    assert!(rig.ask(A, "exec").starts_with("-EXECABORT Transaction discarded because of: NOPERM"));
    assert_eq!(rig.ask(A, "get a"), "$1\r\n1\r\n");
    rig.set_account("ann", &["off"]);
    assert!(rig.ask(A, "get a").contains(NO_COMMAND));
    assert!(rig.ask(A, "acl whoami").contains(NO_COMMAND));
    assert!(rig.closed.is_empty());
}

#[test]
fn the_connections_of_a_removed_account_end_and_pass_to_nobody_of_its_name() {
    let mut rig = with_ann(&["+@all", "~*"]);
    login(&mut rig, A);
    assert_eq!(rig.ask(B, "acl deluser ann nobody"), ":1\r\n");
    assert_eq!(rig.closed, [A]);
    // A server that hears only the last of two changes.
    rig.set_account("ann", &["on", ">pw", "+@all", "~*"]);
    login(&mut rig, C);
    rig.shelf.accounts.is_told_late = true;
    assert_eq!(rig.ask(B, "acl deluser ann"), "");
    rig.shelf.accounts.set("ann", &["on", ">pw", "+@all", "~*"]);
    rig.tell_accounts();
    assert_eq!(rig.said(B), ":1\r\n");
    assert_eq!(rig.closed, [A, C]);
}

// A login that was being compared while the account changed.
#[test]
fn a_verdict_counts_only_for_the_account_as_it_is() {
    let mut rig = with_ann(&["+@all"]);
    for rules in [&["off"][..], &["on", "resetpass", ">new"]] {
        assert_eq!(rig.ask(A, "auth ann pw"), "");
        rig.set_account("ann", rules);
        rig.do_secrets();
        assert!(rig.said(A).starts_with("-WRONGPASS"), "{rules:?}");
        rig.set_account("ann", &["on", "resetpass", ">pw"]);
    }
    // A further password, or none at all, takes nothing from the old one.
    for rules in [&[">new"][..], &["nopass"]] {
        assert_eq!(rig.ask(A, "auth ann pw"), "");
        rig.set_account("ann", rules);
        rig.do_secrets();
        assert_eq!(rig.said(A), "+OK\r\n", "{rules:?}");
    }
}

// A command that waited for its table is looked at again when it begins.
#[test]
fn a_command_that_waits_begins_with_the_rights_of_then() {
    let mut rig = with_ann(&["+@all", "~*"]);
    login(&mut rig, A);
    rig.is_coordinator_silent = true;
    assert_eq!(rig.ask(A, "set a 1\nget a"), "");
    rig.set_account("ann", &["-set"]);
    rig.is_coordinator_silent = false;
    rig.pass(Duration::from_secs(5));
    assert!(
        rig.said(A).starts_with("-NOPERM User ann has no permissions to run the 'set' command\r\n$-1\r\n")
    );
}

// A client that removes its own account hears that it is done.
#[test]
fn who_removes_its_own_account_gets_the_reply() {
    let mut rig = with_ann(&["+@all"]);
    login(&mut rig, A);
    rig.shelf.accounts.is_told_late = true;
    assert_eq!(rig.ask(A, "acl deluser ann"), "");
    rig.tell_accounts();
    assert_eq!((rig.said(A).as_str(), &rig.closed[..]), (":1\r\n", &[A][..]));
}

#[test]
fn who_has_to_log_in_may_say_little_and_is_shut_out() {
    let mut rig = Rig::new();
    rig.ask(B, "ping");
    rig.set_account("default", &["resetpass", ">secret"]);
    assert!(rig.closed.is_empty());
    assert_eq!(rig.ask(B, "set a 1"), "+OK\r\n", "as in Redis, who was let in stays");
    assert!(rig.ask(A, "get a").starts_with("-NOAUTH"));
    assert_eq!(rig.ask_slowly(C, "auth secret\nget a"), "+OK\r\n$1\r\n1\r\n");
    rig.pass(Duration::from_secs(11));
    assert_eq!(rig.closed, [A]);
    assert_eq!(rig.ask(C, "reset"), "+RESET\r\n");
    rig.pass(Duration::from_secs(12));
    assert_eq!(rig.closed, [A, C], "who has logged out is a stranger again");
    // A client that waits is let in when nobody need log in any more.
    rig.ask(ConnId(4), "ping");
    rig.set_account("default", &["nopass"]);
    assert_eq!(rig.ask(ConnId(4), "get a"), "$1\r\n1\r\n");
}

#[test]
fn accounts_are_changed_by_redis_commands() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "acl setuser bob on >pw +get ~cache:* (%R~x +strlen)"), "+OK\r\n");
    let said = rig.ask(A, "acl getuser bob");
    for text in ["%R~x", "~cache:*", "+strlen", "stored-pw", "passwords", "channels", "selectors", "tables"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert_eq!(rig.ask(A, "acl getuser nobody"), "$-1\r\n");
    let said = rig.ask(A, "acl list");
    assert!(said.contains("user bob on ~cache:* -@all +get (%R~x -@all +strlen) secret=stored-pw"), "{said}");
    assert_eq!(
        rig.ask_slowly(B, "auth bob pw\nget cache:1\nget other\nstrlen x"),
        format!("+OK\r\n$-1\r\n{NO_KEY}:0\r\n")
    );
    for (line, error) in [
        (
            "acl setuser bob +nothing",
            "-ERR Error in ACL SETUSER modifier '+nothing': Unknown command 'nothing'",
        ),
        ("acl setuser bob what", "-ERR Error in ACL SETUSER modifier 'what': Syntax error"),
        ("acl setuser bob <unknown", "-ERR the account has no such password"),
        ("acl setuser \"a b\" on", "-ERR a name of an account"),
        ("acl setuser bob (+get", "-ERR Unmatched parenthesis"),
        ("acl deluser default", "-ERR The 'default' user cannot be removed"),
        ("acl deluser", "-ERR wrong number of arguments for 'acl|deluser'"),
        ("acl genpass 0", "-ERR ACL GENPASS argument"),
        ("acl genpass 4097", "-ERR ACL GENPASS argument"),
        ("acl cat nothing", "-ERR Unknown category 'nothing'"),
        ("acl dryrun nobody get a", "-ERR User 'nobody' not found"),
        ("acl dryrun bob nothing", "-ERR Command 'nothing' not found"),
        ("acl log x", "-ERR value is not an integer"),
    ] {
        let said = rig.ask(A, line);
        assert!(said.starts_with(error), "{line}: {said}");
    }
    assert_eq!(
        rig.ask(A, "acl setuser bob >new <new"),
        "-ERR the account has no such password\r\n",
        "not before the change"
    );
    assert_eq!(rig.ask(A, "acl dryrun bob get cache:1"), "+OK\r\n");
    assert!(rig.ask(A, "acl dryrun bob get x").contains("User bob has no permissions to access the 'x' key"));
    assert!(rig.ask(A, "acl dryrun bob set x 1").contains(NO_COMMAND));
    rig.set_account("bob", &["off"]);
    assert_eq!(rig.ask(A, "acl dryrun bob get cache:1"), "+OK\r\n", "as in Redis");
    assert_eq!(
        rig.ask_slowly(A, "acl genpass\nacl genpass 5"),
        format!("$64\r\n{}\r\n$2\r\na5\r\n", "a5".repeat(32))
    );
    assert!(
        rig.ask(A, "acl cat").contains("keyspace") && rig.ask(A, "acl cat pubsub").contains("psubscribe")
    );
    assert_eq!(rig.ask(A, "acl save\nacl load"), "+OK\r\n+OK\r\n");
}

// The reply comes when this server knows, and says so if it does not hear of the change.
#[test]
fn a_change_is_answered_when_this_server_knows() {
    let mut rig = Rig::new();
    rig.shelf.accounts.is_told_late = true;
    assert_eq!(rig.ask(A, "acl setuser bob on nopass +@all\nacl users"), "");
    rig.tell_accounts();
    assert_eq!(rig.said(A), "+OK\r\n*2\r\n$3\r\nbob\r\n$7\r\ndefault\r\n");
    assert_eq!(rig.ask(A, "acl setuser bob off"), "");
    rig.pass(Duration::from_secs(6));
    assert!(
        rig.said(A).starts_with("-UNKNOWN - the accounts are changed, but this server has not been told")
    );
    rig.is_coordinator_silent = true;
    assert_eq!(rig.ask(A, "acl setuser bob on"), "");
    rig.pass(Duration::from_secs(20));
    assert!(rig.said(A).starts_with("-UNKNOWN - it may have been done, or not"));
}

#[test]
fn refusals_and_failed_logins_are_kept_in_a_log() {
    let mut rig = with_ann(&["+get", "~a*", "+multi"]);
    login(&mut rig, A);
    rig.ask(A, "get b\nget b\nset a 1\nmulti\nget c");
    rig.ask_slowly(B, "auth ann \"wrong\\x1b[2J\"");
    let said = rig.ask(C, "acl log");
    assert!(said.starts_with("*4\r\n"), "{said}");
    for text in ["key", "command", "auth", "toplevel", "multi", "ann", "$1\r\nb\r\n", "$3\r\nset\r\n"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(!said.contains("wrong") && !said.contains("pw"), "no password is shown: {said}");
    assert_eq!(rig.ask(C, "acl log reset\nacl log"), "+OK\r\n*0\r\n");
}

// No log has a password, though its command takes long.
#[test]
fn the_slow_log_has_no_password() {
    let mut rig = with_ann(&["+@all", "~*"]);
    rig.shelf.accounts.is_told_late = true;
    rig.ask(A, "auth ann pw");
    rig.ask(B, "acl setuser bob on >pw");
    rig.ask(C, "hello 3 auth ann pw");
    rig.pass(Duration::from_secs(1));
    rig.do_secrets();
    rig.tell_accounts();
    let said = rig.ask(A, "slowlog get");
    assert!(said.contains("(redacted)") && said.contains("setuser") && !said.contains("pw"), "{said}");
}

#[test]
fn clients_are_listed_and_ended_by_their_account() {
    let mut rig = with_ann(&["+@all"]);
    login(&mut rig, A);
    let said = rig.ask(B, "client list");
    assert!(said.contains("user=ann") && said.contains("user=default"), "{said}");
    assert_eq!(rig.ask(B, "client kill user ann"), ":1\r\n");
    assert_eq!(rig.closed, [A]);
    assert_eq!(rig.ask(B, "client kill user nobody"), "-ERR No such user 'nobody'\r\n");
}

// The server's own password takes the place of those of the default account, and of no other.
#[test]
fn the_password_of_a_server_is_beside_the_accounts() {
    let mut rig = Rig::with(|config| config.password = Some("own".into()));
    rig.set_account("ann", &["on", ">pw", "+@all"]);
    assert!(rig.ask(A, "ping").starts_with("-NOAUTH"));
    assert_eq!(rig.ask(A, "auth own\nacl whoami"), "+OK\r\n$7\r\ndefault\r\n");
    assert_eq!(rig.ask_slowly(B, "auth ann pw\nacl whoami"), "+OK\r\n$3\r\nann\r\n");
    assert!(rig.ask_slowly(C, "auth ann own").starts_with("-WRONGPASS"));
    rig.set_account("default", &["off"]);
    assert!(rig.ask(C, "auth own").starts_with("-WRONGPASS"));
    rig.set_account("default", &["on"]);
    for _ in 0..100 {
        rig.ask(C, "auth guess");
    }
    assert!(rig.ask(C, "auth own").starts_with("-TRYAGAIN"), "guesses of this one are bounded, too");
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.ask(C, "auth own"), "+OK\r\n");
}
