//! Data directories that were copied, or restored from a copy (docs/protocols/quorum.md, rules 18, 19).

use crate::host::Host;
use crate::network::address;
use crate::rig::{MILLI, Rig};
use crate::runs::{BUFFERED, SYNCED, seeds};
use crate::seen::kinds;
use ramhold_base::TableId;

/// The host that a copy of host 0's directory is brought to.
const COPY: usize = 3;

/// A rig with some data, and a copy of host 0's directory on a host of its own, which does not run.
fn with_copy(seed: u64) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, SYNCED);
    rig.add_clients(3, 150);
    rig.finish();
    let original = &rig.hosts[0];
    let mut copy = Host::new(original.id, address(COPY), original.log_bytes, original.clock_off);
    (copy.disks, copy.place) = (original.disks.clone(), 77);
    rig.hosts.push(copy);
    // The original goes on: the copy lacks what is written from here on.
    rig.left = 150;
    (0..3).for_each(|client| rig.go_on(client));
    rig.finish();
    rig
}

fn votes(rig: &Rig, host: usize) -> bool {
    rig.hosts[host].node.as_ref().is_some_and(|node| node.brick.votes())
}

// I6: a copy lacks what was acknowledged since it was made, even in a synced table.
#[test]
fn a_directory_that_was_restored_from_a_copy_is_rebuilt_before_it_votes() {
    for seed in seeds() {
        let mut rig = with_copy(seed);
        rig.kill(0);
        let copy = rig.hosts.pop().unwrap();
        (rig.hosts[0].disks, rig.hosts[0].place) = (copy.disks, copy.place);
        // Two bricks that never had the same values since are enough for a quorum.
        rig.kill(1);
        rig.start(0);
        rig.run_for(1000 * MILLI);
        assert!(!votes(&rig, 0), "one sibling alone has told");
        rig.start(1);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        // The directory is where it was at the last start.
        let pages = rig.pages;
        rig.kill(0);
        rig.start(0);
        rig.run_until(Rig::all_vote);
        assert_eq!(rig.pages, pages);
        rig.read_all();
        rig.check();
    }
}

// I6
#[test]
fn a_copy_does_not_end_the_brick_that_runs_on_the_original() {
    for seed in seeds() {
        let mut rig = with_copy(seed);
        rig.start(COPY);
        rig.run_for(2000 * MILLI);
        assert!(rig.hosts[COPY].exit.is_none(), "it may have moved there");
        rig.run_for(4000 * MILLI);
        assert!(rig.hosts[0].exit.is_none() && votes(&rig, 0));
        let why = rig.hosts[COPY].exit.take().expect("the original runs on, so the copy ends");
        assert!(why.contains("its directory was copied") && !votes(&rig, COPY), "{why}");
        assert!((1..3).any(|host| kinds(&rig, host, rig.hosts[0].id).iter().any(|it| it == "outlived")));
        // The original is gone for good: the copy takes its place when it is started again.
        rig.kill(0);
        rig.run_for(3000 * MILLI);
        rig.start(COPY);
        rig.run_until(|rig| votes(rig, COPY));
        rig.hosts.swap(0, COPY);
        rig.check();
    }
}

// I6: whoever is heard second has lost, and never votes.
#[test]
fn of_two_processes_with_one_life_the_second_ends() {
    for seed in seeds() {
        let mut rig = with_copy(seed);
        rig.kill(0);
        rig.run_for(3000 * MILLI);
        rig.start(COPY);
        rig.run_until(|rig| votes(rig, COPY));
        rig.kill(COPY);
        rig.run_for(3000 * MILLI);
        // Its life has the number of the copy's.
        rig.start(0);
        rig.run_for(1500 * MILLI);
        let why = rig.hosts[0].exit.take().expect("it has ended");
        assert!(why.contains("later life of this brick") && why.contains("copied"), "{why}");
        // Its own events are gone with it. Each of the siblings that it asked has noted it once.
        let noted: Vec<usize> = (1..3)
            .map(|host| kinds(&rig, host, rig.hosts[0].id).iter().filter(|it| *it == "outlived").count())
            .collect();
        assert!(noted.contains(&1) && noted.iter().all(|count| *count <= 1), "{noted:?}");
        assert!(!votes(&rig, 0));
        // Its next life is a later one than the copy's. It lacks what the copy has acknowledged.
        rig.run_for(3000 * MILLI);
        rig.kill(1);
        rig.start(0);
        rig.run_for(1500 * MILLI);
        assert!(!votes(&rig, 0), "one sibling alone has told");
        rig.start(1);
        rig.run_until(|rig| votes(rig, 0) && votes(rig, 1));
        rig.hosts.pop();
        rig.read_all();
        rig.check();
    }
}

// I6: nobody knows what the original has acknowledged in a table that its copy lacks.
#[test]
fn a_table_that_a_copy_lacks_is_rebuilt_there() {
    for seed in seeds() {
        let mut rig = with_copy(seed);
        let next = TableId(8);
        rig.assignment = Some(rig.assignment(2, next, Vec::new()));
        let copy = rig.hosts.pop().unwrap();
        rig.run_until(|rig| rig.hosts.iter().all(|host| host.node.as_ref().unwrap().brick.taken() == 2));
        rig.kill(0);
        (rig.hosts[0].disks, rig.hosts[0].place) = (copy.disks, copy.place);
        rig.kill(1);
        rig.start(0);
        rig.run_until(|rig| rig.hosts[0].node.as_ref().unwrap().brick.taken() == 2);
        rig.run_for(1500 * MILLI);
        assert_eq!(rig.hosts[0].node.as_ref().unwrap().brick.rebuilding_count(), 2);
        rig.start(1);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
}

// I6: whoever starts on the original again, in time, is the brick.
#[test]
fn a_restart_at_the_same_address_is_heard_at_once() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.kill(0);
        rig.start(0);
        rig.run_for(300 * MILLI);
        assert!(votes(&rig, 0));
    }
}
