//! The front over a host that answers when the test says so: order, limits, transactions (J1, Z1, Z6, Z9).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod rig;

use ramhold_base::*;
use rig::{A, B, Rig};
use std::time::Duration;

#[test]
fn replies_come_in_the_order_of_requests() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "set a 1"), "+OK\r\n");
    rig.shelf.delays = true;
    // The first waits for replication; what is there at once waits behind it.
    assert_eq!(rig.ask(A, "get a\nping\nget b\nincr n"), "");
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n+PONG\r\n$-1\r\n:1\r\n");
}

// J1: a later request for the same key sees what the earlier one did, whatever steps that takes.
#[test]
fn requests_for_a_key_have_their_effects_in_order() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "append a 2\nget b\nget a\nappend a 3\nget a"), "");
    assert_eq!(rig.shelf.asked, ["read a", "read b"], "what concerns a waits; what does not has begun");
    let mut steps = 0;
    while rig.shelf.waiting.iter().len() > 0 {
        rig.release();
        steps += 1;
    }
    assert!(steps >= 5, "{steps}");
    assert_eq!(rig.said(A), ":2\r\n$-1\r\n$2\r\n12\r\n:3\r\n$3\r\n123\r\n");
}

#[test]
fn what_was_changed_meanwhile_is_read_again() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "append a 2"), "");
    // Between its read and its write another client writes.
    rig.shelf.write(b"a", b"x");
    rig.release();
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), ":2\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"x2");
}

#[test]
fn transactions_run_together_or_not_at_all() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "multi\nset a 1\nincr a\nget a\nexec"),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n"
    );
    assert_eq!(rig.shelf.objects[&b"a"[..]], (Version(1), b"2".to_vec()), "one write");
    // A watched key that somebody else has changed.
    assert_eq!(rig.ask(A, "watch a"), "+OK\r\n");
    rig.shelf.write(b"a", b"7");
    assert_eq!(rig.ask(A, "multi\nset a 9\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"7");
    // And one that nobody has.
    assert_eq!(
        rig.ask(A, "watch a\nmulti\nincr a\nexec\nget a"),
        "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:8\r\n$1\r\n8\r\n"
    );
    // What could not be queued makes all of it void.
    let aborted = rig.ask(A, "multi\nset a 1\nnosuch\nexec\nget a");
    assert!(aborted.contains("-EXECABORT") && aborted.ends_with("$1\r\n8\r\n"), "{aborted}");
    // An error of one leaves the others.
    assert_eq!(
        rig.ask(A, "set s x\nmulti\nincr s\nset s y\nexec").matches("-ERR value is not an integer").count(),
        1
    );
    assert_eq!(rig.shelf.objects[&b"s"[..]].1, b"y");
}

// J1: what several keys are read for or changed in has effect at one moment.
#[test]
fn several_keys_are_committed_as_one() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1\nset b 2");
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "rename a c\nmultinone\nmsetnx c 1 d 2\nmsetnx d 1 e 2").matches("+OK").count(), 1);
    assert_eq!(rig.ask(A, "mget a b c d e"), "*5\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert!(rig.shelf.asked.contains(&"commit a c".to_owned()), "{:?}", rig.shelf.asked);
    // One of two watched keys is changed between the reading and the commit: nothing is done.
    rig.ask(A, "watch b c");
    rig.shelf.delays = true;
    rig.ask(A, "multi\nset b x\nset c y\nexec");
    rig.shelf.write(b"c", b"z");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    assert!(rig.said(A).ends_with("*-1\r\n"));
    assert_eq!(rig.shelf.objects[&b"b"[..]].1, b"2");
}

// J1: what comes behind a transaction in a pipeline comes after it.
#[test]
fn what_runs_alone_is_over_before_the_next_begins() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "watch a\nmulti\ndiscard\nset a 2\nmulti\nget a\nselect 3\nexec\nselect 0\nget a");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    let said = rig.said(A);
    assert!(said.ends_with("*2\r\n$1\r\n2\r\n+OK\r\n+OK\r\n$1\r\n2\r\n"), "{said}");
    rig.shelf.delays = false;
    assert!(rig.ask(A, "client info").contains(" db=0 "));
}

#[test]
fn many_keys_of_one_command_go_together() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "mset a 1 b 2 a 3\nmget a b c\ndel a b c a\nexists a"),
        "+OK\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$-1\r\n:2\r\n:0\r\n"
    );
}

// Z1: any split of the same bytes gives the same replies.
#[test]
fn cuts_change_no_reply() {
    let requests = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nwx\r\nget k\r\n*2\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n\
        *3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\n!\r\nMULTI\r\nget k\r\nincr n\r\nEXEC\r\nhello 3\r\nget none\r\n*1\r\n:5\r\n";
    let mut whole = Rig::new();
    whole.feed(A, requests);
    let want = whole.said(A);
    assert!(want.contains("Protocol error") && want.contains("_\r\n") && whole.closed == [A], "{want}");
    for cut in 1..requests.len() {
        let mut rig = Rig::new();
        rig.feed(A, &requests[..cut]);
        rig.feed(A, &requests[cut..]);
        assert_eq!(rig.said(A), want, "cut at {cut}");
    }
    let mut rig = Rig::new();
    requests.iter().for_each(|byte| rig.feed(A, &[*byte]));
    assert_eq!(rig.said(A), want);
}

// Z6: what a connection may have under way is bounded; the rest is not taken, and comes later.
#[test]
fn a_connection_is_held_when_too_much_is_under_way() {
    let mut rig = Rig::with(|config| config.running_count_max = 10);
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    rig.feed(A, "get a\r\n".repeat(25).as_bytes());
    assert_eq!(rig.shelf.asked.len(), 10);
    assert_eq!(rig.held, [A]);
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n".repeat(25));
    assert!(rig.held.is_empty());
}

// Z9: a stranger may say little, and gets little.
#[test]
fn who_has_not_given_the_password_may_say_little() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    for line in ["get a", "set a 1", "config get *", "client list", "subscribe x", "multi", "info", "command"]
    {
        assert!(rig.ask(A, line).starts_with("-NOAUTH"), "{line}");
    }
    assert!(rig.ask(A, "auth wrong").starts_with("-WRONGPASS"));
    assert!(rig.ask(A, "hello 3").starts_with("-NOAUTH"));
    assert_eq!(rig.ask(A, "auth secret\nset a 1"), "+OK\r\n+OK\r\n");
    rig.feed(B, b"*11\r\n");
    assert!(rig.said(B).contains("invalid multibulk length") && rig.closed == [B]);
    let c = ConnId(3);
    rig.feed(c, b"*2\r\n$4\r\nECHO\r\n$5000\r\n");
    assert!(rig.said(c).contains("invalid bulk length"));
}

// Z9: every command there is, told to a stranger.
#[test]
fn a_stranger_is_refused_every_command_but_those_to_become_known() {
    let mut allowed = Vec::new();
    for row in ramhold_resp::commands::ALL {
        let mut rig = Rig::with(|config| config.password = Some("secret".into()));
        // As many arguments as it takes at least; a subcommand's name has both words.
        let mut line = row.name.replace('|', " ");
        while line.split(' ').count() < row.arity.unsigned_abs() as usize {
            line += " x";
        }
        let said = rig.ask(A, &line);
        // As to Redis, what is no command is that to a stranger, too.
        let is_refused =
            said.contains("NOAUTH Authentication required.") || said.contains("unknown subcommand");
        if !(said.starts_with('-') && is_refused) {
            allowed.push(row.name);
        }
        assert!(rig.shelf.asked.is_empty(), "{line}");
    }
    assert_eq!(allowed, ["auth", "hello", "quit", "reset"]);
}

// Z9: who is told much without fetching it, and never says the password, is not told more.
#[test]
fn a_stranger_is_not_told_much() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    for _ in 0..10_000 {
        rig.feed(A, &b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(20));
        if rig.closed == [A] {
            break;
        }
    }
    assert_eq!(rig.closed, [A]);
    let told = rig.said(A).len();
    assert!((64 * 1024..80 * 1024).contains(&told), "{told} bytes");
    let many = "auth secret\n".to_owned() + &"get a\n".repeat(20_000);
    assert!(rig.ask(B, &many).ends_with("$-1\r\n$-1\r\n") && rig.closed == [A], "who is known is told all");
}

// Z7, Z9: a stranger has ten seconds, however busy; who was known and is a stranger again has them anew.
#[test]
fn who_does_not_give_the_password_is_shut_out() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    let c = ConnId(3);
    rig.ask(A, "get a");
    rig.ask(B, "auth secret");
    rig.ask(c, "auth secret");
    for second in 0..30 {
        rig.pass(Duration::from_secs(1));
        match second {
            0..8 => assert!(rig.ask(A, "hello 2 auth x y").starts_with("-WRONGPASS")),
            10 => drop(rig.ask(c, "reset")),
            12..19 => assert_eq!(rig.closed, [A]),
            _ => {}
        }
    }
    assert_eq!(rig.closed, [A, c]);
    assert_eq!(rig.resp.stats().idled, 2);
}

// Z7: if that is wanted, who asks for nothing is ended, but not who waits for what was promised.
#[test]
fn who_asks_for_nothing_is_shut_out_when_that_is_wanted() {
    let mut rig = Rig::with(|config| config.idle = Some(Duration::from_secs(60)));
    let (c, d) = (ConnId(3), ConnId(4));
    rig.ask(A, "set a 1");
    rig.ask(B, "subscribe news");
    rig.ask(c, "get a");
    rig.shelf.delays = true;
    rig.ask(d, "get a");
    rig.pass(Duration::from_secs(40));
    rig.ask(c, "ping");
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.closed, [A]);
    rig.pass(Duration::from_secs(40));
    assert_eq!(rig.closed, [A, c]);
    rig.release();
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.said(d), "$1\r\n1\r\n");
    let mut unasked = Rig::new();
    unasked.ask(A, "set a 1");
    unasked.pass(Duration::from_secs(1_000_000));
    assert!(unasked.closed.is_empty());
    assert_eq!(unasked.resp.deadline(), Rig::new().resp.deadline(), "nothing is waited for");
}

// Z6: commands between MULTI and EXEC count with what each takes beside its arguments.
#[test]
fn what_is_queued_is_bounded_however_small_its_commands() {
    let mut rig = Rig::new();
    rig.ask(A, "multi");
    let mut queued = 0;
    let refused = loop {
        let said = rig.ask(A, &["get a"; 5_000].join("\n"));
        let taken = said.matches("+QUEUED").count();
        queued += taken;
        if taken < 5_000 {
            break said;
        }
        assert!(queued < 1_000_000, "{queued} are queued");
    };
    assert!(refused.contains("-ERR the commands of a transaction have at most 16777216 bytes"));
    assert!(queued < 200_000, "{queued} were queued");
    assert!(rig.ask(A, "exec").starts_with("-EXECABORT"));
    assert_eq!(rig.ask(A, "get a"), "$-1\r\n");
}

// Z7: replies that are there at once are not piled up for one who may not fetch them.
#[test]
fn a_step_gives_few_large_replies() {
    let mut rig = Rig::new();
    let value = vec![b'v'; 1_000_000];
    rig.feed(A, &[&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"[..], &value, b"\r\n"].concat());
    assert_eq!(rig.said(A), "+OK\r\n");
    let requests = b"get k\r\n".repeat(100);
    let mut effects = Effects::new();
    rig.resp.on_bytes(rig.now, A, &requests, &mut rig.shelf, &mut effects);
    assert_eq!((effects.taken.bytes, effects.taken.rest), (2 * b"get k\r\n".len(), Rest::More));
    rig.execute(effects);
    assert_eq!(rig.said(A).len(), 2 * "$1000000\r\n\r\n".len() + 2_000_000);
}

// Z6: names of channels are held for as long as a connection listens.
#[test]
fn what_a_connection_listens_to_is_bounded() {
    let mut rig = Rig::new();
    let name = |number: usize| number.to_string().repeat(1_000_000);
    for number in 0..4 {
        assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(number)])).contains("subscribe"));
        assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(number)])).contains("subscribe"), "no second time");
    }
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(5)])).contains("at most 4194304 bytes"));
    assert!(rig.ask(A, &request(&["UNSUBSCRIBE", &name(1), &name(7)])).contains("unsubscribe"));
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(5)])).ends_with(":4\r\n"));
    assert!(rig.ask(A, "reset").ends_with("+RESET\r\n"));
    assert!(rig.ask(A, &request(&["SUBSCRIBE", &name(6)])).ends_with(":1\r\n"));
}

/// A request as an array; `ask` ends it.
fn request(args: &[&str]) -> String {
    let args: Vec<String> = args.iter().map(|arg| format!("${}\n{arg}", arg.len())).collect();
    format!("*{}\n{}", args.len(), args.join("\n"))
}

#[test]
fn messages_reach_who_listens() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "subscribe news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(rig.ask(A, "psubscribe n*"), "*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    assert!(rig.ask(A, "get a").contains("only (P|S)SUBSCRIBE"));
    assert_eq!(rig.ask(B, "publish news hi"), ":2\r\n");
    assert_eq!(
        rig.said(A),
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert_eq!(rig.ask(B, "pubsub channels\npubsub numpat"), "*1\r\n$4\r\nnews\r\n:1\r\n");
    rig.resp.on_closed(A);
    assert_eq!(rig.ask(B, "publish news hi\npubsub numpat"), ":0\r\n:0\r\n");
}

#[test]
fn a_connection_that_ends_leaves_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "get a\nappend a 2");
    rig.resp.on_closed(A);
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "");
    assert_eq!(rig.resp.connection_count(), 0);
}
