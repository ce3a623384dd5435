//! Commands about the process and the cluster that are answered at once, whoever asks.

use super::asker::Asker;
use super::list::Clients;
use super::{acl, cluster, info, settings};
use crate::commands::describe;
use crate::fault::shown;
use crate::front::access::Access;
use crate::front::host::Host;
use crate::front::step::Step;
use crate::parse::integer;
use crate::{Fault, Front, Protocol, Reply, find};

/// Answers a command of the kind `FrontKind::Immediate`, or one that does nothing within `EXEC`.
pub fn answer(
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    access: &Access,
    asker: &Asker,
    front: Front,
    args: &[&[u8]],
    mut reply: Reply<'_>,
) {
    match front {
        Front::Ping if asker.is_subscribed && reply.protocol() == Protocol::Resp2 => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.get(1).copied().unwrap_or_default());
        }
        Front::Ping => match args {
            [_] => reply.simple("PONG"),
            [_, text] => reply.bulk(text),
            _ => reply.fault(&Fault::wrong_arity("ping")),
        },
        Front::AclCat
        | Front::AclDryRun
        | Front::AclFile
        | Front::AclGetUser
        | Front::AclList
        | Front::AclLog
        | Front::AclUsers
        | Front::AclWhoAmI => acl::answer(step, clients, asker, front, args, reply),
        Front::Echo => reply.bulk(args[1]),
        Front::Select => reply.ok(),
        Front::Unwatch | Front::ReadOnly | Front::ReadWrite => reply.ok(),
        Front::FunctionFlush => match args[2..] {
            [] => reply.ok(),
            [how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => reply.ok(),
            _ => reply.fault(&Fault::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        },
        Front::Time => {
            let millis = step.host.time(step.now);
            reply.array(2);
            reply.bulk_integer((millis / 1000) as i64);
            reply.bulk_integer((millis % 1000 * 1000) as i64);
        }
        Front::Wait => match (integer(args[1]), integer(args[2])) {
            (Some(_), Some(timeout)) if timeout < 0 => reply.fault(&Fault::fixed("ERR timeout is negative")),
            // Acknowledged writes are on all their backups already.
            (Some(_), Some(_)) => reply.integer(i64::from(copies(step))),
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
                    reply.integer(i64::from(copies(step)));
                }
            }
            _ => reply.fault(&Fault::NOT_AN_INTEGER),
        },
        Front::LastSave => reply.integer((step.host.time(step.now) / 1000) as i64),
        Front::Role => {
            reply.array(3);
            reply.bulk(b"master");
            reply.integer(0);
            reply.array(0);
        }
        Front::Info => info::info(step, clients, access, asker, args, reply),
        Front::ConfigGet | Front::ConfigSet | Front::ConfigResetStat => {
            settings::config(step, &mut clients.timings.config, front, args, reply);
        }
        Front::SlowlogGet | Front::SlowlogLen | Front::SlowlogReset => {
            clients.timings.slow.answer(front, args, reply);
        }
        Front::LatencyLatest | Front::LatencyHistory | Front::LatencyReset | Front::LatencyDoctor => {
            let threshold = clients.timings.config.latency_threshold;
            clients.timings.latency.answer(front, args, threshold, reply);
        }
        Front::ClusterKeySlot | Front::ClusterInfo | Front::ClusterMyId => {
            cluster::answer(front, args, reply, step.host);
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
        Front::Debug if !step.config.debug => {
            let text = "ERR DEBUG command not allowed: start the server with --resp-debug";
            reply.fault(&Fault::fixed(text));
        }
        Front::Debug => debug(args, reply),
        front => reply.fault(&Fault::said(format!("ERR not possible here ({front:?})"))),
    }
}

/// `DEBUG`: the subcommands that make sense here and do no harm.
fn debug(args: &[&[u8]], mut reply: Reply<'_>) {
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
fn copies(step: &Step<'_, impl Host>) -> u32 {
    let streams = step.host.status(step.now).streams;
    streams.iter().map(|stream| u32::from(stream.replicas)).max().unwrap_or(0)
}
