//! `CLUSTER …`: the slots of a database's table, for clients that send each command to the server of its key.
//!
//! A server also answers commands for keys of other servers, so the slots told here may be out of date.
//!
//! Servers that have a port for clients of Redis Cluster name that port here. A client that comes to such a
//! port has asked for slots. Such a client walks over all keys by asking every server, and must meet each key
//! once. See docs/protocols/resp.md.

use crate::front::access::answer::Answer;
use crate::front::host::Host;
use crate::{Fault, Front, Reply};
use ramhold_base::ServerId;
use ramhold_base::hash::{SLOT_COUNT, slot_of, slot_of_hash};
use ramhold_wire::table::{TableDescription, TabletState};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The name of a node, as in Redis: forty hexadecimal digits.
pub fn node_id(cluster: u64, server: ServerId) -> String {
    format!("{cluster:024x}{:016x}", server.0)
}

/// Answers the commands that need no table.
pub fn answer(front: Front, args: &[&[u8]], mut reply: Reply<'_>, host: &mut impl Host) {
    match front {
        Front::ClusterKeySlot => reply.integer(i64::from(slot_of(args[2]))),
        Front::ClusterMyId => reply.bulk(node_id(host.cluster(), host.me()).as_bytes()),
        _ => {
            let servers = host.servers().len();
            reply.verbatim(&format!(
                "cluster_state:ok\r\ncluster_slots_assigned:{SLOT_COUNT}\r\ncluster_slots_ok:{SLOT_COUNT}\r\n\
                 cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{servers}\r\n\
                 cluster_size:{servers}\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
            ));
        }
    }
}

/// Slots in a row of one server, from `first` to `last`.
struct Stretch {
    first: u16,
    last: u16,
    server: ServerId,
    address: SocketAddr,
}

fn stretches(table: &TableDescription, host: &impl Host) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for tablet in &table.tablets {
        // The owner of such a tablet is being recovered: clients ask again, or ask any server.
        let (TabletState::Serving, Some(own)) = (tablet.state, tablet.address) else { continue };
        let address = host.cluster_address(tablet.owner).unwrap_or(own.0);
        let (first, last) = (slot_of_hash(tablet.first), slot_of_hash(tablet.last));
        match found.last_mut() {
            Some(before) if before.server == tablet.owner && before.last + 1 == first => before.last = last,
            _ => found.push(Stretch { first, last, server: tablet.owner, address }),
        }
    }
    found
}

/// All slots at this server. No server has the keys of a quorum table, so any server answers as well as another, and a
/// server that names the database's table differently must not be asked.
fn all_here(host: &impl Host) -> Option<Stretch> {
    let server = host.me();
    let own = host.servers().into_iter().find(|(other, _)| *other == server).map(|(_, own)| own);
    let address = host.cluster_address(server).or(own)?;
    Some(Stretch { first: 0, last: SLOT_COUNT - 1, server, address })
}

/// Answers from the table of the connection's database, or says why there is none.
pub fn answer_with(front: Front, answer: Answer<'_>, mut reply: Reply<'_>, host: &mut impl Host) {
    let table = match answer {
        Answer::Described(table) if table.options.slots || table.options.quorum.is_some() => table,
        Answer::Described(table) => {
            let text = format!("ERR the keys of table '{}' are not placed by slots", table.name);
            return reply.fault(&Fault::said(text));
        }
        Answer::Fault(fault) => return reply.fault(&fault),
        other => return reply.fault(&Fault::said(format!("ERR unexpected answer: {other:?}"))),
    };
    let stretches = match table.options.quorum {
        Some(_) => all_here(host).into_iter().collect(),
        None => stretches(&table, host),
    };
    match front {
        Front::ClusterSlots => {
            reply.array(stretches.len());
            for stretch in &stretches {
                reply.array(3);
                reply.integer(i64::from(stretch.first));
                reply.integer(i64::from(stretch.last));
                reply.array(4);
                reply.bulk(stretch.address.ip().to_string().as_bytes());
                reply.integer(i64::from(stretch.address.port()));
                reply.bulk(node_id(host.cluster(), stretch.server).as_bytes());
                reply.array(0);
            }
        }
        Front::ClusterShards => {
            let mut servers: BTreeMap<ServerId, Vec<&Stretch>> = BTreeMap::new();
            for stretch in &stretches {
                servers.entry(stretch.server).or_default().push(stretch);
            }
            reply.array(servers.len());
            for (server, stretches) in servers {
                let address = stretches[0].address;
                reply.map(2);
                reply.bulk(b"slots");
                reply.array(2 * stretches.len());
                for stretch in &stretches {
                    reply.integer(i64::from(stretch.first));
                    reply.integer(i64::from(stretch.last));
                }
                reply.bulk(b"nodes");
                reply.array(1);
                reply.map(7);
                reply.bulk(b"id");
                reply.bulk(node_id(host.cluster(), server).as_bytes());
                reply.bulk(b"port");
                reply.integer(i64::from(address.port()));
                for name in ["ip", "endpoint"] {
                    reply.bulk(name.as_bytes());
                    reply.bulk(address.ip().to_string().as_bytes());
                }
                reply.bulk(b"role");
                reply.bulk(b"master");
                reply.bulk(b"replication-offset");
                reply.integer(0);
                reply.bulk(b"health");
                reply.bulk(b"online");
            }
        }
        _ => {
            let mut text = String::new();
            for (server, own) in host.servers() {
                let address = host.cluster_address(server).unwrap_or(own);
                let own = if server == host.me() { "myself,master" } else { "master" };
                let slots: Vec<String> = stretches
                    .iter()
                    .filter(|stretch| stretch.server == server)
                    .map(|stretch| match stretch {
                        Stretch { first, last, .. } if first == last => format!(" {first}"),
                        Stretch { first, last, .. } => format!(" {first}-{last}"),
                    })
                    .collect();
                text.push_str(&format!(
                    "{} {}:{}@{} {own} - 0 0 1 connected{}\n",
                    node_id(host.cluster(), server),
                    address.ip(),
                    address.port(),
                    address.port(),
                    slots.concat()
                ));
            }
            reply.verbatim(&text);
        }
    }
}
