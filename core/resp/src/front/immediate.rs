//! Commands about the connection and the process, which are answered at once, and commands that begin other
//! work.

use super::clients::{check_name, is_of_client};
use super::connection::{Connection, Multi, Queued};
use super::flow::Taking;
use super::keyspace::{Walk, part_of};
use super::muted::choose;
use super::running::{Running, Work};
use super::tickets::Part;
use super::transact::{After, Purpose};
use super::{Host, Resp, about, cluster};
use crate::commands::describe;
use crate::fault::shown;
use crate::parse::integer;
use crate::{Command, Fault, Flags, Front, Protocol, Reply, find};
use ramhold_base::{ConnId, Effect, Effects, Instant};

/// Keys that one connection may watch.
const WATCHED_COUNT_MAX: usize = 1024;

impl Resp {
    pub(super) fn front_request(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        (row, front): (&'static Command, Front),
        args: &[&[u8]],
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taking {
        let waits = matches!(front, Front::Exec | Front::Watch | Front::Hello | Front::Reset)
            || is_over_keys(front)
            || is_pubsub(front)
            || cluster::needs_table(front);
        if waits && !connection.running.is_empty() {
            return Taking::Later;
        }
        self.count(connection, row, now);
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, connection.protocol);
        match front {
            Front::Multi if connection.multi.is_some() => {
                reply.fault(&Fault::fixed("ERR MULTI calls can not be nested"));
            }
            Front::Multi => {
                connection.multi = Some(Multi::default());
                reply.ok();
            }
            Front::Discard => match connection.multi.take() {
                None => reply.fault(&Fault::fixed("ERR DISCARD without MULTI")),
                Some(_) => {
                    connection.watched.clear();
                    reply.ok();
                }
            },
            Front::Exec => match connection.multi.take() {
                None => reply.fault(&Fault::fixed("ERR EXEC without MULTI")),
                Some(multi) => {
                    let watched = std::mem::take(&mut connection.watched);
                    if multi.is_broken {
                        let text = "EXECABORT Transaction discarded because of previous errors.";
                        reply.fault(&Fault::fixed(text));
                    } else if let Err(fault) = self.config.cross_slot.check_all(&multi.queued, &watched) {
                        reply.fault(&fault);
                    } else {
                        let purpose = Purpose::Exec { queued: multi.queued, watched };
                        self.begin_transact(now, conn, connection, row, args, purpose, out, host, effects);
                        return Taking::Done;
                    }
                }
            },
            Front::Watch if connection.multi.is_some() => {
                reply.fault(&Fault::fixed("ERR WATCH inside MULTI is not allowed"));
            }
            Front::Watch if connection.watched.len() + args.len() - 1 > WATCHED_COUNT_MAX => {
                reply.fault(&Fault::fixed("ERR a connection watches at most 1024 keys"));
            }
            Front::Watch if let Err(fault) = self.config.cross_slot.check(row, args) => reply.fault(&fault),
            Front::Watch => {
                self.begin_transact(now, conn, connection, row, args, Purpose::Watch, out, host, effects);
                return Taking::Done;
            }
            Front::Unwatch => {
                connection.watched.clear();
                reply.ok();
            }
            Front::Select => match self.database_of(args[1]) {
                Ok(db) => {
                    connection.db = db;
                    reply.ok();
                }
                Err(fault) => reply.fault(&fault),
            },
            Front::Quit => {
                reply.ok();
                connection.closes = true;
            }
            Front::Reset => {
                self.subscribers.leave_all(conn, &mut connection.subscriptions);
                connection.reset(self.config.password.is_none());
                bytes.clear();
                Reply::new(&mut bytes, Protocol::Resp2).simple("RESET");
            }
            front if is_over_keys(front) => {
                let seq = self.next_seq();
                let part = Part::Command { conn, seq, index: 0, attempt: 0 };
                let table = self.databases.table(connection.db);
                let served = part_of(connection, table, host);
                match Walk::new(front, args, table.unwrap_or_default(), served) {
                    Err(fault) => reply.fault(&fault),
                    Ok(mut walk) if table.is_some() || front == Front::FlushAll => {
                        if !self.begin_walk(&mut walk, part, &mut reply) {
                            self.run_front(connection, (row, seq), args, Work::Walk(Box::new(walk)));
                            return Taking::Done;
                        }
                    }
                    Ok(_) => {
                        self.wait_for_table(connection.db, conn, seq);
                        self.run_front(connection, (row, seq), args, Work::Waiting);
                        return Taking::Done;
                    }
                }
            }
            front if cluster::needs_table(front) => {
                let seq = self.next_seq();
                match self.databases.table(connection.db) {
                    Some(_) => self.ask_table(conn, seq, connection.db),
                    None => self.wait_for_table(connection.db, conn, seq),
                }
                let known = self.databases.table(connection.db).is_some();
                let work = if known { Work::Cluster(front) } else { Work::Waiting };
                self.run_front(connection, (row, seq), args, work);
                return Taking::Done;
            }
            Front::ClientReply => choose(connection, args[2], &mut reply),
            front if is_pubsub(front) => {
                return self.pubsub(now, conn, connection, (row, front), args, out, host, effects);
            }
            Front::Auth => match self.authenticate(connection, &args[1..]) {
                Ok(()) => reply.ok(),
                Err(fault) => reply.fault(&fault),
            },
            Front::Hello => {
                bytes.clear();
                self.hello(connection, args, &mut bytes);
            }
            Front::ClientKill => {
                for conn in self.kill(connection, &args[2..], &mut reply) {
                    effects.push(Effect::Close { conn });
                }
            }
            front if is_of_client(front) => self.client(connection, front, args, &mut reply),
            front if Resp::answers_within(front) => self.answer(connection, front, args, reply, host),
            front => reply.fault(&Fault::said(format!("ERR '{}' is not built yet ({front:?})", row.name))),
        }
        self.put_reply(connection, out, bytes);
        Taking::Done
    }

    /// Whether `EXEC` can carry out the command among others: the command is answered at once, and changes
    /// nothing but its own connection.
    pub(super) fn answers_within(front: Front) -> bool {
        !matches!(
            front,
            Front::Auth
                | Front::Hello
                | Front::Quit
                | Front::Reset
                | Front::Watch
                | Front::Exec
                | Front::Multi
                | Front::Discard
                | Front::ClientKill
                | Front::ClientReply
        ) && !is_over_keys(front)
            && !cluster::needs_table(front)
            && (!is_pubsub(front) || is_publication(front))
    }

    /// Answers a command within `EXEC`. A stand-in takes the place of its connection, which is taken out
    /// meanwhile.
    pub(super) fn answer_within(
        &mut self,
        _conn: ConnId,
        front: Front,
        args: &[&[u8]],
        reply: Reply<'_>,
        host: &mut impl Host,
    ) {
        let mut stand_in = Connection::new(0, self.now, true);
        stand_in.protocol = reply.protocol();
        self.answer(&mut stand_in, front, args, reply, host);
    }

    fn answer(
        &mut self,
        connection: &mut Connection,
        front: Front,
        args: &[&[u8]],
        mut reply: Reply<'_>,
        host: &mut impl Host,
    ) {
        match front {
            Front::Ping if connection.is_subscribed() && reply.protocol() == Protocol::Resp2 => {
                reply.array(2);
                reply.bulk(b"pong");
                reply.bulk(args.get(1).copied().unwrap_or_default());
            }
            Front::Ping => match args {
                [_] => reply.simple("PONG"),
                [_, text] => reply.bulk(text),
                _ => reply.fault(&Fault::wrong_arity("ping")),
            },
            Front::Echo => reply.bulk(args[1]),
            Front::Select => reply.ok(),
            Front::Unwatch | Front::ReadOnly | Front::ReadWrite => reply.ok(),
            Front::FunctionFlush => match args[2..] {
                [] => reply.ok(),
                [how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => {
                    reply.ok()
                }
                _ => reply.fault(&Fault::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
            },
            Front::Time => {
                let millis = host.time(self.now);
                reply.array(2);
                reply.bulk_integer((millis / 1000) as i64);
                reply.bulk_integer((millis % 1000 * 1000) as i64);
            }
            Front::Wait => match (integer(args[1]), integer(args[2])) {
                (Some(_), Some(timeout)) if timeout < 0 => {
                    reply.fault(&Fault::fixed("ERR timeout is negative"))
                }
                // Acknowledged writes are on all their backups already.
                (Some(_), Some(_)) => reply.integer(i64::from(self.copies(host))),
                _ => reply.fault(&Fault::NOT_AN_INTEGER),
            },
            Front::WaitAof => match (integer(args[1]), integer(args[2]), integer(args[3])) {
                (Some(local), Some(_), Some(timeout)) => {
                    if !(0..=1).contains(&local) {
                        reply.fault(&Fault::fixed("ERR value is out of range, must be between 0 and 1"));
                    } else if timeout < 0 {
                        reply.fault(&Fault::fixed("ERR timeout is negative"));
                    } else {
                        reply.array(2);
                        reply.integer(local);
                        reply.integer(i64::from(self.copies(host)));
                    }
                }
                _ => reply.fault(&Fault::NOT_AN_INTEGER),
            },
            Front::LastSave => reply.integer((host.time(self.now) / 1000) as i64),
            Front::Role => {
                reply.array(3);
                reply.bulk(b"master");
                reply.integer(0);
                reply.array(0);
            }
            Front::Info => about::info(self, connection, args, reply, host),
            Front::ConfigGet | Front::ConfigSet | Front::ConfigResetStat => {
                about::config(self, front, args, reply);
            }
            Front::SlowlogGet | Front::SlowlogLen | Front::SlowlogReset => {
                self.slow.answer(front, args, reply);
            }
            Front::LatencyLatest | Front::LatencyHistory | Front::LatencyReset | Front::LatencyDoctor => {
                self.latency.answer(front, args, self.config.latency_threshold, reply);
            }
            Front::ClusterKeySlot | Front::ClusterInfo | Front::ClusterMyId => {
                cluster::answer(front, args, reply, host);
            }
            Front::Help => {
                if let Some(container) = find(args[0]) {
                    describe::help(&mut reply, container);
                }
            }
            Front::Command => describe::info(&mut reply, &[]),
            Front::CommandCount => describe::count(&mut reply),
            Front::CommandInfo => describe::info(&mut reply, &args[2..]),
            Front::CommandDocs => describe::docs(&mut reply, &args[2..]),
            Front::CommandList => {
                if let Err(fault) = describe::list(&mut reply, &args[2..]) {
                    reply.fault(&fault);
                }
            }
            Front::CommandGetKeys => {
                if let Err(fault) = describe::keys_of(&mut reply, &args[2..]) {
                    reply.fault(&fault);
                }
            }
            Front::Debug if !self.config.debug => {
                let text = "ERR DEBUG command not allowed: start the server with --resp-debug";
                reply.fault(&Fault::fixed(text));
            }
            Front::Debug => self.debug(args, reply),
            front => reply.fault(&Fault::said(format!("ERR not possible here ({front:?})"))),
        }
    }

    /// `DEBUG`: the subcommands that make sense here and do no harm.
    fn debug(&mut self, args: &[&[u8]], mut reply: Reply<'_>) {
        match args[1].to_ascii_lowercase().as_slice() {
            b"sleep" => reply.fault(&Fault::fixed("ERR a server does not sleep: stop it with SIGSTOP")),
            // Tests of clients ask for this to see how the client takes an error.
            b"error" if args.len() == 3 => reply.fault(&Fault::said(shown(args[2]))),
            b"jmap" | b"quicklist-packed-threshold" | b"set-active-expire" => reply.ok(),
            other => {
                let shown = shown(other);
                reply.fault(&Fault::said(format!("ERR unknown subcommand '{shown}'. Try DEBUG HELP.")));
            }
        }
    }

    /// Number of backups that have the acknowledged writes.
    fn copies(&self, host: &mut impl Host) -> u32 {
        let streams = host.status(self.now).streams;
        streams.iter().map(|stream| u32::from(stream.replicas)).max().unwrap_or(0)
    }

    pub(super) fn database_of(&self, text: &[u8]) -> Result<u16, Fault> {
        let db = integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
        let db = i32::try_from(db).map_err(|_| Fault::NOT_A_SMALL_INTEGER)?;
        let known = u16::try_from(db).ok().filter(|db| *db < self.config.databases);
        known.ok_or(Fault::NO_SUCH_DATABASE)
    }

    fn authenticate(&mut self, connection: &mut Connection, given: &[&[u8]]) -> Result<(), Fault> {
        let (user, password) = match given {
            [password] => (&b"default"[..], *password),
            [user, password] => (*user, *password),
            _ => return Err(Fault::SYNTAX),
        };
        let Some(wanted) = &self.config.password else {
            let text = "ERR AUTH <password> called without any password configured for the default user. Are you \
                        sure your configuration is correct?";
            // If a name is given, Redis looks the user up, and its default user has no password.
            return if given.len() == 1 {
                Err(Fault::fixed(text))
            } else if user == b"default" {
                Ok(())
            } else {
                Err(Fault::fixed(WRONG_PASSWORD))
            };
        };
        if user == b"default" && is_same(wanted.as_bytes(), password) {
            connection.is_known = true;
            Ok(())
        } else {
            Err(Fault::fixed(WRONG_PASSWORD))
        }
    }

    fn hello(&mut self, connection: &mut Connection, args: &[&[u8]], out: &mut Vec<u8>) {
        let mut protocol = connection.protocol;
        let mut rest = &args[1..];
        if let Some((version, more)) = rest.split_first() {
            rest = more;
            protocol = match integer(version) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => {
                    return Reply::new(out, protocol)
                        .fault(&Fault::fixed("NOPROTO unsupported protocol version"));
                }
                None => {
                    let text = "ERR Protocol version is not an integer or out of range";
                    return Reply::new(out, protocol).fault(&Fault::fixed(text));
                }
            };
        }
        let mut fault = None;
        while let Some((option, more)) = rest.split_first()
            && fault.is_none()
        {
            match (option.to_ascii_lowercase().as_slice(), more) {
                (b"auth", [user, password, more @ ..]) => {
                    rest = more;
                    fault = self.authenticate(connection, &[user, password]).err();
                }
                (b"setname", [given, more @ ..]) => {
                    rest = more;
                    fault = check_name(given).err();
                    // The name counts, whatever becomes of the options behind it.
                    if fault.is_none() {
                        connection.name = given.to_vec();
                    }
                }
                _ => {
                    let shown = shown(option.split(|byte| *byte == 0).next().unwrap_or(option));
                    fault = Some(Fault::said(format!("ERR Syntax error in HELLO option '{shown}'")));
                }
            }
        }
        if fault.is_none() && !connection.is_known {
            let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                        AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                        version at the same time";
            fault = Some(Fault::fixed(text));
        }
        if let Some(fault) = fault {
            return Reply::new(out, connection.protocol).fault(&fault);
        }
        connection.protocol = protocol;
        let mut reply = Reply::new(out, protocol);
        reply.map(7);
        reply.bulk(b"server");
        reply.bulk(b"redis");
        reply.bulk(b"version");
        reply.bulk(about::REDIS_VERSION.as_bytes());
        reply.bulk(b"proto");
        reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
        reply.bulk(b"id");
        reply.integer(connection.id as i64);
        reply.bulk(b"mode");
        reply.bulk(about::mode(connection).as_bytes());
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"modules");
        reply.array(0);
    }

    /// Applies to the connection what follows from a transaction that is over.
    pub(super) fn after_transact(&mut self, connection: &mut Connection, running: &mut Running) {
        let Some(work) = running.finished.take() else { return };
        match (&work.purpose, &work.after) {
            (Purpose::Watch, _) => connection.watched.extend(work.seen()),
            (Purpose::Exec { queued, .. }, Some(After { db, aside })) => {
                connection.db = *db;
                for Queued { row, args } in
                    queued.iter().filter(|queued| queued.row.flags.has(Flags::READONLY))
                {
                    self.count_lookups(work.lookups(row, &args.list()));
                }
                self.answer_aside(connection, queued, aside, &mut running.reply);
            }
            (Purpose::Command, _) if running.row.flags.has(Flags::READONLY) => {
                self.count_lookups(work.lookups(running.row, &running.args.list()));
            }
            (Purpose::Command | Purpose::Exec { .. }, _) => {}
        }
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

fn is_over_keys(front: Front) -> bool {
    matches!(
        front,
        Front::Keys | Front::Scan | Front::RandomKey | Front::DbSize | Front::FlushDb | Front::FlushAll
    )
}

fn is_pubsub(front: Front) -> bool {
    matches!(
        front,
        Front::Subscribe
            | Front::Unsubscribe
            | Front::PSubscribe
            | Front::PUnsubscribe
            | Front::SSubscribe
            | Front::SUnsubscribe
            | Front::Publish
            | Front::SPublish
            | Front::PubSubChannels
            | Front::PubSubNumSub
            | Front::PubSubNumPat
            | Front::PubSubShardChannels
            | Front::PubSubShardNumSub
    )
}

/// Whether the command sends a message. In a transaction the message goes out when the transaction has taken
/// effect.
pub(super) fn is_publication(front: Front) -> bool {
    matches!(front, Front::Publish | Front::SPublish)
}

/// Compares in the same time, wherever the first difference is.
fn is_same(wanted: &[u8], given: &[u8]) -> bool {
    let differs = |at: usize| wanted[at] ^ given.get(at).copied().unwrap_or(!wanted[at]);
    (0..wanted.len()).fold(u8::from(wanted.len() != given.len()), |sum, at| sum | differs(at)) == 0
}
