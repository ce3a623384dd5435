//! Tablets on their way between real bricks: called back, stalled, or given by a brick that is gone
//! (docs/protocols/quorum.md, rules 62, 78, 85).
//!
//! The coordinator hears the brick that takes the tablet, and the network carries nothing between it and the other bricks. So
//! it cannot be rebuilt, and the tablet stays on its way until the test says otherwise. Such a network needs root: without it
//! the tests are skipped.
//!
//! Not here: moves that go well (`scaling`). Catalogue: I6, I7.

use crate::bricks::{read, write_and_read};
use crate::network::test;
use crate::scaling::{id_of, report, tablets};
use ramhold_client::{BrickReport, Client, ObstacleKind, ServerId, TableId};
use ramhold_cluster_tests::{
    BRICK_MEMORY_MIN, Bricks, COORDINATOR, End, Failure, Network, between, wait_for,
};
use rustix::process::Signal;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

const COUNT: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);
const WITHIN: Duration = Duration::from_secs(60);
/// A move that has come no further for so long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(60);
const KEYS: u64 = 100;
/// The exit codes of orders.
const NOT_DONE: i32 = 1;
const REFUSED: i32 = 3;

fn key(number: u64) -> String {
    format!("key {}", number % KEYS)
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Four bricks, of which three have a table.
struct Stage {
    bricks: Bricks,
    client: Client,
    table: TableId,
    /// The bricks of the table, by number, and by id in order of ids.
    members: Vec<usize>,
    held: Vec<ServerId>,
    /// The brick that takes a tablet, and cannot.
    spare: usize,
    spare_id: ServerId,
    /// Puts so far.
    written: u64,
}

impl Stage {
    fn start() -> Result<Stage, Failure> {
        let bricks = Bricks::start_in(Network::create(COUNT + 1)?, COUNT, BRICK_MEMORY_MIN)?;
        let table = bricks.create_table("carts", 3)?;
        let mut client = bricks.cluster.client(PATIENCE)?;
        let places = bricks.places(&mut client, "carts")?;
        let is_member = |brick: &usize| places.iter().any(|it| it.address.0 == bricks.address(*brick));
        let (members, spares): (Vec<usize>, Vec<usize>) = (1..=COUNT).partition(is_member);
        let spare = spares[0];
        let held = places.iter().map(|place| place.brick).collect();
        let spare_id = id_of(&bricks, spare)?;
        let mut stage = Stage { bricks, client, table, members, held, spare, spare_id, written: 0 };
        (0..KEYS).try_for_each(|_| stage.write())?;
        let others = stage.members.iter().map(|brick| End::Member(*brick));
        stage.network()?.cut(&between(stage.spare, others))?;
        Ok(stage)
    }

    fn network(&self) -> Result<&Network, Failure> {
        self.bricks.cluster.network().ok_or_else(|| Failure("there is no network".into()))
    }

    /// The next put, which is read back.
    fn write(&mut self) -> Result<(), Failure> {
        let number = self.written;
        self.written += 1;
        write_and_read(&mut self.client, self.table, &key(number), &format!("value {number}"))
    }

    /// Every key has its last value.
    fn check_all(&mut self) -> Result<(), Failure> {
        for number in self.written - KEYS..self.written {
            let found = read(&mut self.client, self.table, &key(number))?;
            assert_eq!(found, Some(format!("value {number}")), "{}", key(number));
        }
        Ok(())
    }

    /// Begins a command.
    fn begin(&self, words: &[&str]) -> Running {
        let mut command = self.bricks.command(words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("the program can be started")))
    }

    /// Runs a command that succeeds.
    fn run(&self, words: &[&str]) -> String {
        let output = self.bricks.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        said(&output)
    }

    /// Waits until a tablet is on its way to the spare brick. Returns the brick that gives it.
    fn wait_moving(&mut self) -> Result<ServerId, Failure> {
        wait_for("a tablet on its way", WITHIN, || {
            let tablets = self.client.describe_table("carts")?.quorum.unwrap_or_default();
            let giving = tablets.iter().find_map(|it| it.giving).filter(|it| it.new == self.spare_id);
            Ok(giving.map(|it| it.old.brick).ok_or_else(|| format!("{tablets:?}")))
        })
    }

    /// Waits until the three bricks have all tablets again, with their votes, and nothing is ordered.
    fn wait_back(&mut self) -> Result<(), Failure> {
        wait_for("the tablet to go back", WITHIN, || {
            let (held, known) = (tablets(&mut self.client)?, self.client.cluster_status()?.bricks);
            let votes =
                |it: &BrickReport| it.scaling.is_none() && it.rebuilding == 0 && it.taken >= it.assigned;
            let is_back = held.iter().all(|bricks| *bricks == self.held) && known.iter().all(votes);
            Ok(if is_back { Ok(()) } else { Err(format!("{held:?}, {known:?}")) })
        })
    }
}

/// A command that runs: it ends with the test.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until a command has ended.
fn end(mut running: Running) -> Result<Output, Failure> {
    wait_for("the end of a command", WITHIN, || {
        let ended = running.0.as_mut().map(Child::try_wait).transpose();
        let ended = ended.map_err(|error| Failure(error.to_string()))?.flatten();
        Ok(if ended.is_some() { Ok(()) } else { Err("it waits".into()) })
    })?;
    let child = running.0.take().expect("it was begun");
    child.wait_with_output().map_err(|error| Failure(error.to_string()))
}

// I7, J5: a move that hangs is told after a minute, with the command that ends it. The command that waits for the order says
// that it was not carried out. The table is used all the time, and the brick is added when the network is whole.
#[test]
fn a_move_that_stalls_is_told_and_called_back() {
    test(|| {
        let mut stage = Stage::start()?;
        let (began, spare) = (Instant::now(), stage.spare_id);
        let name = spare.to_string();
        let waiting = stage.begin(&["brick", "add", &name, "--wait"]);
        stage.wait_moving()?;
        wait_for("a move that is told as stalled", 2 * STALLED_AFTER, || {
            stage.write()?;
            let waits = report(&mut stage.client, spare)?.waits;
            let is_told = waits.is_some_and(|it| (it.kind, it.brick) == (ObstacleKind::Stalled, spare));
            Ok(if is_told { Ok(()) } else { Err(format!("{waits:?}")) })
        })?;
        assert!(began.elapsed() >= STALLED_AFTER, "{:?}", began.elapsed());
        let told = format!(
            "come no further for a minute; 'ramhold brick add {name} --cancel' calls the tablet back"
        );
        for command in ["status", "bricks"] {
            let text = said(&stage.bricks.run(&[command]));
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(&told), "{command}: {text}");
        }
        stage.wait_moving()?;

        let text = stage.run(&["brick", "add", &name, "--cancel"]);
        assert!(text.contains("1 tablet is on the way, and will go back"), "{text}");
        let ended = end(waiting)?;
        assert_eq!(ended.status.code(), Some(NOT_DONE), "{ended:?}");
        let told = format!("the order to add {name} was cancelled; 0 tablets have moved because of it");
        assert!(said(&ended).contains(&told) && !said(&ended).contains("has its share"), "{ended:?}");
        stage.wait_back()?;
        let again = stage.bricks.run(&["brick", "add", &name, "--cancel"]);
        assert_eq!(again.status.code(), Some(REFUSED), "{again:?}");
        stage.check_all()?;

        stage.network()?.heal()?;
        let ended = end(stage.begin(&["brick", "add", &name, "--wait"]))?;
        assert!(ended.status.success(), "{ended:?}");
        let told = format!("{name} has its share: 1 tablet has moved");
        assert!(said(&ended).contains(&told), "{ended:?}");
        stage.check_all()
    });
}

// I7: a brick that was to be removed keeps its tablet, and its vote counts. While the tablet is on its way the brick holds
// nothing, and must not be stopped.
#[test]
fn a_removal_is_called_back() {
    test(|| {
        let mut stage = Stage::start()?;
        let [giver, stopped, _] = stage.members[..] else { return Err(Failure("three have it".into())) };
        let (giver_id, name) = (id_of(&stage.bricks, giver)?, id_of(&stage.bricks, giver)?.to_string());
        let waiting = stage.begin(&["brick", "remove", &name, "--wait"]);
        assert_eq!(stage.wait_moving()?, giver_id);
        assert_eq!(report(&mut stage.client, giver_id)?.tablets, 0);
        stage.write()?;
        let text = stage.run(&["brick", "remove", &name, "--cancel"]);
        assert!(text.contains("1 tablet is on the way, and will go back"), "{text}");
        let ended = end(waiting)?;
        assert_eq!(ended.status.code(), Some(NOT_DONE), "{ended:?}");
        let told = format!("the order to remove {name} was cancelled");
        assert!(said(&ended).contains(&told) && !said(&ended).contains("may be stopped"), "{ended:?}");
        stage.wait_back()?;
        // It is the second of three here.
        stage.bricks.signal(&[stopped], Signal::STOP);
        stage.write()?;
        stage.check_all()?;
        stage.bricks.signal(&[stopped], Signal::CONT);
        Ok(())
    });
}

// I6, I7, G1: a brick whose machine is gone is kept while it gives a tablet, as it may have what is needed. It is forgotten
// when the tablet has arrived, and no coordinator knows it from then on.
#[test]
fn a_giving_brick_is_forgotten_when_its_tablet_has_arrived() {
    test(|| {
        let mut stage = Stage::start()?;
        let [giver, stopped, _] = stage.members[..] else { return Err(Failure("three have it".into())) };
        let (giver_id, name) = (id_of(&stage.bricks, giver)?, id_of(&stage.bricks, giver)?.to_string());
        stage.run(&["brick", "remove", &name]);
        assert_eq!(stage.wait_moving()?, giver_id);
        stage.bricks.kill(giver);
        // It counts as heard for three seconds.
        let forget = |stage: &Stage| stage.bricks.run(&["brick", "forget", &name]);
        wait_for("a brick that is not heard", WITHIN, || {
            let refused = forget(&stage);
            assert_eq!(refused.status.code(), Some(REFUSED), "{refused:?}");
            let text = said(&refused);
            let told = format!("nothing is changed: {name} gives a tablet of {}", stage.table);
            Ok(if text.contains(&told) && text.contains("accept-loss") { Ok(()) } else { Err(text) })
        })?;
        assert_eq!(stage.wait_moving()?, giver_id, "nothing is changed");
        stage.write()?;

        stage.network()?.heal()?;
        wait_for("the brick to be forgotten", WITHIN, || {
            let forgotten = forget(&stage);
            Ok(if forgotten.status.success() { Ok(()) } else { Err(said(&forgotten)) })
        })?;
        let mut others: Vec<ServerId> = stage.held.iter().copied().filter(|it| *it != giver_id).collect();
        others.push(stage.spare_id);
        others.sort_unstable();
        assert_eq!(tablets(&mut stage.client)?, [others.clone()]);
        let again = forget(&stage);
        assert_eq!(again.status.code(), Some(NOT_DONE), "{again:?}");

        // Later coordinators go on without it, also when the brick comes back.
        for comes_back in [false, true] {
            stage.bricks.cluster.kill(COORDINATOR);
            stage.bricks.cluster.start_member(COORDINATOR);
            stage.bricks.cluster.wait_up(0)?;
            stage.bricks.wait_known(COUNT - 1)?;
            if comes_back {
                stage.bricks.start_brick(giver);
                wait_for("the brick is refused", WITHIN, || {
                    let printed = stage.bricks.printed(giver);
                    let is_refused = printed.contains("has refused this brick");
                    Ok(if is_refused { Ok(()) } else { Err(printed) })
                })?;
            }
            let mut listed: Vec<ServerId> =
                stage.bricks.cluster.status()?.bricks.iter().map(|it| it.brick).collect();
            listed.sort_unstable();
            assert_eq!(listed, others);
            assert_eq!(tablets(&mut stage.client)?, [others.clone()]);
            stage.write()?;
        }
        stage.bricks.create_table("more", 3)?;
        // The vote of the brick that took the tablet is needed.
        stage.bricks.signal(&[stopped], Signal::STOP);
        stage.write()?;
        stage.check_all()?;
        stage.bricks.signal(&[stopped], Signal::CONT);
        Ok(())
    });
}
