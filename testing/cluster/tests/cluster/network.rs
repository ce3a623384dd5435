//! The network that is cut apart in runs of histories: a cut loses exactly the traffic that it is meant to
//! lose.

use ramhold_cluster_tests::{
    COORDINATOR, Cluster, Cut, End, Failure, Network, Options, is_network_possible, wait_for,
};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(20);

struct Two {
    network: Network,
    sockets: [UdpSocket; 2],
}

impl Two {
    fn new() -> Result<Two, Failure> {
        let network = Network::create(2)?;
        let bound = |member| -> Result<UdpSocket, Failure> {
            let bind = || UdpSocket::bind(Network::address(member));
            let socket = network.within(member, bind)?.map_err(|error| Failure(error.to_string()))?;
            socket.set_read_timeout(Some(WITHIN)).expect("a time that is not zero");
            Ok(socket)
        };
        Ok(Two { sockets: [bound(0)?, bound(1)?], network })
    }

    fn send(&self, from: usize, what: &str) {
        let to: SocketAddr = Network::address(1 - from);
        // The receiving side must notice when nothing arrives.
        let _ = self.sockets[from].send_to(what.as_bytes(), to);
    }

    /// The next datagram.
    fn receive(&self, at: usize) -> String {
        let mut bytes = [0; 100];
        let (count, _) = self.sockets[at].recv_from(&mut bytes).expect("a datagram comes");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }
}

/// In a thread of its own, which stays in the clients' namespace and ends there.
pub fn test(what: fn() -> Result<(), Failure>) {
    let _machine = crate::machine();
    if let Err(failure) = is_network_possible() {
        println!("skipped: {failure}");
        return;
    }
    let ended = std::thread::spawn(what).join().expect("no panic");
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn what_is_cut_one_way_is_lost_and_the_other_way_passes() {
    test(|| {
        let two = Two::new()?;
        two.send(0, "before");
        assert_eq!(two.receive(1), "before");
        two.network.cut(&[Cut { from: End::Member(0), to: End::Member(1) }])?;
        two.send(0, "cut");
        two.send(1, "other way");
        assert_eq!(two.receive(0), "other way");
        two.network.heal()?;
        // Datagrams do not overtake each other on a cable, so a datagram that got through the cut would be
        // here first.
        two.send(0, "after");
        assert_eq!(two.receive(1), "after");
        Ok(())
    });
}

#[test]
fn without_a_cable_nothing_passes() {
    test(|| {
        let two = Two::new()?;
        two.send(0, "before");
        assert_eq!(two.receive(1), "before");
        two.network.plug(1, false)?;
        two.send(0, "unplugged");
        two.network.heal()?;
        two.send(0, "after");
        assert_eq!(two.receive(1), "after");
        Ok(())
    });
}

/// The exit code of a server that has been declared dead.
const EXIT_DECLARED_DEAD: i32 = 3;
/// Long enough that the kernel would next look for a network some two seconds after its return.
const CUT: Duration = Duration::from_millis(4500);
/// A wrong verdict on the next life would come within this time after its start.
const VERDICT_WITHIN: Duration = Duration::from_secs(5);

/// Messages that were under way to the old life when the network was cut are no reason to declare the new
/// life silent.
// F1
#[test]
fn the_next_life_of_a_server_that_was_cut_off_is_not_declared_dead() {
    test(|| {
        let mut cluster = Cluster::start_in(Network::create(6)?, Options::default())?;
        let network = cluster.network().expect("it was started in one");
        network.cut(&[Cut { from: End::Member(2), to: End::Member(COORDINATOR) }])?;
        std::thread::sleep(CUT);
        network.heal()?;
        let status = cluster.wait_ended(2, WITHIN)?;
        assert_eq!(status.code(), Some(EXIT_DECLARED_DEAD));
        cluster.start_member(2);
        cluster.wait_up(5)?;
        let begun = Instant::now();
        wait_for("no verdict", WITHIN, || {
            assert_eq!(cluster.status()?.servers.len(), 5);
            let left = VERDICT_WITHIN.saturating_sub(begun.elapsed());
            Ok(if left.is_zero() { Ok(()) } else { Err(format!("{left:?} left")) })
        })?;
        let recoveries = cluster.client(WITHIN)?.recoveries()?;
        assert_eq!(recoveries.len(), 1, "{recoveries:#?}");
        assert_eq!(cluster.take_ended(), []);
        Ok(())
    });
}
