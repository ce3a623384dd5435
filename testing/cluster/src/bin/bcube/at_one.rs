//! A table's keys at one server, so that it alone is written to. Its tablets are in a stream for each neighbourhood, so
//! their replicas are on all servers of its rings.

use ramhold_base::ServerId;
use ramhold_base::hash::PlacementHasher;
use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Network, Options};
use std::collections::BTreeSet;

pub const KEY_BYTES: usize = 30;
/// Six neighbourhoods of three replicas each, and heads of other classes.
pub const OPTIONS: Options = Options {
    servers: crate::SERVERS,
    shards: 1,
    memory_bytes: 768 << 20,
    disk_bytes: 2 << 30,
    flush_interval: "100ms",
    coordinator_options: &["--topology", crate::TOPOLOGY, "--placement", "multiring"],
    server_options: &["--buffers", "208MiB"],
    zones: 0,
    has_links: false,
};

/// Makes a table with `replicas` copies, and as many tablets as the cluster chooses if `tablets` is 0.
pub fn table(client: &mut Client, name: &str, options: (Durability, u8, u32)) -> Result<TableId, Failure> {
    let (durability, replicas, tablets) = options;
    let options = TableOptions { durability, replicas, tablets, slots: false, zone: None, quorum: None };
    Ok(client.create_table(name, options)?)
}

/// Keys of `KEY_BYTES` that a server owns.
pub fn keys(client: &mut Client, table: &str, server: usize, count: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let description = client.describe_table(table)?;
    let hasher = PlacementHasher::new(description.placement());
    let address = Network::address(server);
    let is_its = |key: &Vec<u8>| {
        let hash = hasher.hash(key);
        let tablet = description.tablets.iter().find(|tablet| tablet.first <= hash && hash <= tablet.last);
        tablet.is_some_and(|tablet| tablet.address.is_some_and(|owner| owner.0 == address))
    };
    let owned = description.tablets.iter().any(|tablet| tablet.address.is_some_and(|own| own.0 == address));
    if !owned {
        return Err(Failure(format!("{address} has no tablet of {table}")));
    }
    Ok((0u64..)
        .map(|number| format!("{number:0KEY_BYTES$}").into_bytes())
        .filter(is_its)
        .take(count)
        .collect())
}

/// The servers that share a switch with the primary.
pub fn near(cluster: &Cluster) -> Result<BTreeSet<ServerId>, Failure> {
    let near = cluster.network().and_then(Network::cube).map_or_else(Vec::new, |cube| cube.near(crate::P));
    let ids = near.into_iter().map(|server| Ok(cluster.entry(server)?.map(|entry| entry.id)));
    Ok(ids.collect::<Result<Vec<_>, Failure>>()?.into_iter().flatten().collect())
}
