//! A table of another durability at a brick that has hardly any frame for the stream that comes with it
//! (docs/protocols/quorum.md, rules 80 and 95).

use crate::full::{PUTS_MAX, VALUE, ask_at, die, frames_left, put_at, write_until_taken};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, seeds};
use crate::seen::kinds;
use ramhold_base::{Status, TableId};
use ramhold_log::PASS_FRAMES;
use ramhold_wire::ask::AskWhat;
use ramhold_wire::membership::Durability;

const BESIDE: (TableId, Durability) = (TableId(8), Durability::Buffered);
const SYNCED: (TableId, Durability) = (TableId(9), Durability::Synced);
const LATER: (TableId, Durability) = (TableId(10), Durability::Buffered);

/// The first brick has far fewer frames than memory. All of them hold values that are alive, and its next life has the frames
/// that each start may take, less one for its head.
fn with_few_frames(seed: u64) -> (Rig, u64) {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, Setting { log_bytes: 1 << 20, ..BUFFERED });
    rig.hosts[0].frames_max = Some(24);
    die(&mut rig);
    let mut number = 0;
    // Puts leave eight frames. Until the heads of before are gone, there are sometimes more.
    while number == 0 || frames_left(&rig) > PASS_FRAMES + 2 {
        loop {
            number += 1;
            assert!(number < PUTS_MAX, "it is never full");
            if !put_at(&mut rig, &[0, 1, 2], number, (TABLE, &format!("fill{number}")), &VALUE) {
                break;
            }
            if number.is_multiple_of(20) {
                rig.run_for(200 * MILLI);
            }
        }
        rig.run_for(2000 * MILLI);
    }
    die(&mut rig);
    rig.run_for(2000 * MILLI);
    assert_eq!(frames_left(&rig), PASS_FRAMES + 1, "nothing can be cleaned");
    (rig, number)
}

fn served(rig: &mut Rig, host: usize, number: &mut u64, (table, _): (TableId, Durability)) -> bool {
    *number += 1;
    match ask_at(rig, host, *number, (table, "key"), AskWhat::Stamp) {
        Status::Ok => true,
        Status::UnknownTable => false,
        other => panic!("{table}: {other:?}"),
    }
}

fn taken(rig: &Rig, host: usize) -> u64 {
    rig.hosts[host].node.as_ref().unwrap().brick.taken()
}

// I1, C6: a removal may take this frame, and a start would take it in any case.
#[test]
fn the_stream_of_a_new_table_is_opened_with_a_frame_that_puts_and_repairs_leave() {
    for seed in seeds().take(4) {
        let (mut rig, mut number) = with_few_frames(seed);
        rig.add_tables(&[SYNCED]);
        assert!((0..3).all(|host| served(&mut rig, host, &mut number, SYNCED)));
        assert!(frames_left(&rig) >= PASS_FRAMES, "a cleaning pass may need them");
        rig.check();
    }
}

// I1, C6: what has no room waits, says so, and comes by itself; nothing else waits for it.
#[test]
fn tablets_without_room_for_their_stream_hold_up_no_others_and_are_served_when_there_is_some() {
    for seed in seeds().take(4) {
        let (mut rig, stored) = with_few_frames(seed);
        let mut number = stored + 1;
        // A rebuilding goes further down.
        rig.cut_power(0);
        for missed in 0..70 {
            number += 1;
            assert!(put_at(&mut rig, &[1, 2], number, (TABLE, &format!("missed{missed}")), &VALUE));
        }
        rig.start(0);
        rig.run_until(|rig| rig.votes(0));
        rig.run_for(2000 * MILLI);
        assert!(frames_left(&rig) <= PASS_FRAMES, "{} frames are left", frames_left(&rig));

        rig.assignment = Some(rig.assignment_with(2, &[BESIDE, SYNCED]));
        rig.run_until(|rig| taken(rig, 1) == 2 && taken(rig, 2) == 2);
        rig.run_for(3000 * MILLI);
        assert!(served(&mut rig, 0, &mut number, BESIDE) && !served(&mut rig, 0, &mut number, SYNCED));
        assert!(taken(&rig, 0) < 2 && !rig.votes(0));
        rig.assignment = Some(rig.assignment_with(3, &[BESIDE, SYNCED, LATER]));
        rig.run_for(3000 * MILLI);
        assert!(served(&mut rig, 0, &mut number, LATER) && !served(&mut rig, 0, &mut number, SYNCED));

        // The other bricks hear it, and it says what is the matter.
        let seen = rig.hosts[0].node.as_ref().unwrap().seen(rig.instant());
        let status = seen.status.brick.unwrap();
        assert_eq!((status.waits_for_room, status.without_vote), (1, 1));
        assert!(status.tablets.iter().all(|tablet| tablet.votes == (tablet.table != SYNCED.0)));
        let said = |rig: &Rig, what: &str| rig.hosts[0].reports.iter().filter(|it| it.contains(what)).count();
        assert_eq!(
            said(&rig, "1 tablet is not served yet: no frame of the device is left"),
            1,
            "once a minute"
        );
        let me = rig.hosts[0].id;
        assert_eq!(kinds(&rig, 0, me).iter().filter(|kind| *kind == "room-awaited").count(), 1);

        for removed in 1..=stored / 2 {
            write_until_taken(&mut rig, &mut number, &format!("fill{removed}"), None);
        }
        rig.run_until(|rig| taken(rig, 0) == 3 && rig.votes(0));
        assert!(served(&mut rig, 0, &mut number, SYNCED));
        let seen = rig.hosts[0].node.as_ref().unwrap().seen(rig.instant());
        assert_eq!(seen.status.brick.unwrap().waits_for_room, 0);
        assert_eq!(said(&rig, "no tablet waits for room any more"), 1);
        rig.check();
    }
}
