//! The roles in a Redis cluster, from the answer to `CLUSTER NODES`.

/// A master with its slots, and the port of its replica.
#[derive(Debug, PartialEq, Eq)]
pub struct Master {
    pub port: u16,
    pub replica: u16,
    /// Both ends are within.
    slots: Vec<(u16, u16)>,
}

impl Master {
    pub fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// One line per node: `id ip:port@bus flags master pings pongs epoch link slot slot-slot ...`. None: not such lines, or a
/// master without a replica.
pub fn masters(nodes: &str) -> Option<Vec<Master>> {
    let rows: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
    let port = |row: &[&str]| row.get(1)?.split(['@', ',']).next()?.rsplit(':').next()?.parse::<u16>().ok();
    let is_master =
        |row: &&Vec<&str>| row.get(2).is_some_and(|flags| flags.split(',').any(|f| f == "master"));
    let master = |row: &Vec<&str>| {
        let replica = rows.iter().find(|other| other.get(3) == row.first())?;
        let slots: Option<_> = row.iter().skip(8).map(|text| range(text)).collect();
        Some(Master { port: port(row)?, replica: port(replica)?, slots: slots? })
    };
    rows.iter().filter(is_master).map(master).collect()
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
07c3 127.0.0.1:30004@40004,, slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@40002,, master - 0 1426238316232 2 connected 5461-10922 16000
2923 127.0.0.1:30003@40003 slave 67ed 0 1426238318243 3 connected
e7d1 127.0.0.1:30001@40001 myself,master - 0 0 1 connected 0-5460
";

    #[test]
    fn masters_have_slots_and_a_replica() {
        let masters = masters(NODES).unwrap();
        assert_eq!(masters[0].port, 30002);
        assert_eq!(masters[0].replica, 30003);
        assert_eq!((masters[1].port, masters[1].replica), (30001, 30004));
        assert!(masters[0].has(5461) && masters[0].has(10922) && masters[0].has(16000));
        assert!(!masters[0].has(10923) && !masters[0].has(0));
        assert!(masters[1].has(0));
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        assert_eq!(masters("a 127.0.0.1:1@2 master - 0 0 1 connected 0-5"), None);
        assert_eq!(masters("a 127.0.0.1:x@2 master - 0 0 1 connected\nb 127.0.0.1:1@2 slave a"), None);
        assert_eq!(range("5-"), None);
    }

    #[test]
    fn what_has_not_heard_of_every_replica_is_refused() {
        let early =
            NODES.replace("2923 127.0.0.1:30003@40003 slave 67ed", "2923 127.0.0.1:30003@40003 master -");
        assert_eq!(masters(&early), None);
    }
}
