//! `PUBSUB` tells the same at every server: a client does not choose where its connections go.

use ramhold_cluster_tests::{Cluster, Failure, Options};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(10);

struct Redis(TcpStream);

impl Redis {
    fn connect(cluster: &Cluster, member: usize) -> Redis {
        let stream = TcpStream::connect(cluster.address(member)).expect("the server listens");
        stream.set_read_timeout(Some(WITHIN)).expect("a timeout that is not zero");
        Redis(stream)
    }

    /// Sends a command, and reads exactly as many bytes as are expected.
    fn expect(&mut self, command: &str, reply: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).expect("the server reads");
        let mut bytes = vec![0; reply.len()];
        let read = self.0.read_exact(&mut bytes);
        assert!(read.is_ok(), "{command}: {read:?}, {}", String::from_utf8_lossy(&bytes));
        assert_eq!(String::from_utf8_lossy(&bytes), reply, "{command}");
    }
}

// J1
#[test]
fn every_server_tells_what_clients_of_all_servers_listen_to() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: 3, ..Options::default() })?;
    let mut clients: Vec<Redis> = (1..=3).map(|member| Redis::connect(&cluster, member)).collect();
    clients[0].expect("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    clients[0].expect("PSUBSCRIBE n*", "*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    clients[1].expect("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    clients[1].expect("PSUBSCRIBE n*", "*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    clients[1].expect("SSUBSCRIBE part", "*3\r\n$10\r\nssubscribe\r\n$4\r\npart\r\n:1\r\n");
    for member in 1..=3 {
        let mut asking = Redis::connect(&cluster, member);
        asking.expect("PUBSUB NUMPAT", ":1\r\n");
        asking.expect("PUBSUB CHANNELS", "*1\r\n$4\r\nnews\r\n");
        asking.expect("PUBSUB CHANNELS x*", "*0\r\n");
        asking.expect("PUBSUB NUMSUB none news", "*4\r\n$4\r\nnone\r\n:0\r\n$4\r\nnews\r\n:2\r\n");
        asking.expect("PUBSUB SHARDCHANNELS", "*1\r\n$4\r\npart\r\n");
        asking.expect("PUBSUB SHARDNUMSUB part", "*2\r\n$4\r\npart\r\n:1\r\n");
        // The replies come in the order of the pipeline, with those that need no other server.
        asking.expect("PUBSUB NUMPAT\r\nPING", ":1\r\n+PONG\r\n");
    }
    drop(clients.remove(1));
    clients[1].expect("PUBSUB NUMSUB none", "*2\r\n$4\r\nnone\r\n:0\r\n");
    ramhold_cluster_tests::wait_for("one listener fewer", WITHIN, || {
        clients[1].0.write_all(b"PUBSUB NUMSUB news\r\n").expect("the server reads");
        let mut bytes = [0; 18];
        clients[1].0.read_exact(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if text == "*2\r\n$4\r\nnews\r\n:1\r\n" { Ok(()) } else { Err(text) })
    })
}
