//! The metrics and the health of a brick.

use super::Role;
use super::parts::{write_backup, write_cleaning, write_memory, write_process, write_scrub};
use crate::page::Page;
use ramhold_node::BrickSeen;
use ramhold_wire::brick_status::{BrickLimit, BrickStatus, RebuildObstacle, SweepStatus};
use ramhold_wire::statistics::{Queue, Statistic};
use std::time::Duration;

impl Role for BrickSeen {
    const NAME: &'static str = "brick";

    fn trouble(&self) -> Option<(&str, &str)> {
        self.trouble.as_ref().map(|(word, reason)| (*word, reason.as_str()))
    }

    fn degraded(&self) -> Option<String> {
        let backup = self.status.backup.as_ref();
        if let Some(why) = backup.and_then(|backup| backup.failed.as_ref()) {
            return Some(format!("the device has failed: {why}"));
        }
        if let Some(full) = backup.and_then(|backup| backup.full.as_ref()) {
            return Some(format!("disk full: {full}"));
        }
        let brick = self.status.brick.as_ref();
        if let Some(limit) = brick.and_then(|brick| brick.full) {
            return Some(full_text(limit).to_owned());
        }
        let all = self.status.tablets;
        if let Some(waiting) = brick.map(|brick| brick.waits_for_room).filter(|waiting| *waiting > 0) {
            return Some(format!(
                "{waiting} of {all} tablets are not served: their stream has no room for its first head; remove objects, or start \
                 it again with more --disk or --memory"
            ));
        }
        let without_vote = brick.map_or(0, |brick| brick.without_vote);
        if let Some(stalled) = brick.and_then(|brick| brick.stalled.as_ref()) {
            let (why, way_out) = (stalled.why(), stalled.obstacle.way_out());
            return Some(format!(
                "{without_vote} of {all} tablets do not vote, and their rebuilding comes no further: {why}; {way_out}"
            ));
        }
        (without_vote > 0).then(|| format!("{without_vote} of {all} tablets do not vote yet"))
    }

    fn notes(&self) -> Vec<String> {
        let siblings = self.status.brick.iter().flat_map(|brick| &brick.siblings);
        let silent = siblings.filter(|sibling| sibling.is_silent);
        let word = |is_offline| if is_offline { "offline" } else { "silent" };
        silent
            .map(|sibling| {
                format!("{}: {} at {}", word(sibling.is_offline), sibling.brick, sibling.address.0)
            })
            .collect()
    }

    fn write(&self, page: &mut Page) {
        let status = &self.status;
        write_process(page, status.uptime_millis, self.cluster);
        page.gauge(
            "ramhold_brick_id",
            "The id of this brick in the cluster; 0: none yet.",
            status.server.raw(),
        );
        write_memory(page, status);
        if let Some(brick) = &status.brick {
            write_brick(page, brick);
        }
        if let Some(backup) = &status.backup {
            write_backup(page, backup, self.disk_free_bytes);
        }
        if let Some(cleaning) = &status.cleaning {
            write_cleaning(page, cleaning);
        }
        if let Some(scrub) = &status.scrub {
            write_scrub(page, scrub);
        }
    }
}

/// Tells which writes a limit refuses, and the way out.
fn full_text(limit: BrickLimit) -> &'static str {
    match limit {
        BrickLimit::Memory => {
            "log memory is full: puts are refused, reads and removals go on; remove objects, or give it more --memory"
        }
        BrickLimit::Frames => {
            "the device has no frames left: puts are refused, reads and removals go on; remove objects, or give it more \
             --disk"
        }
        BrickLimit::Index => {
            "the index is full: puts of new keys are refused, all else goes on; remove objects, or give it more --memory"
        }
    }
}

fn write_brick(page: &mut Page, brick: &BrickStatus) {
    page.gauge("ramhold_brick_life", "The number of the brick's starts.", brick.life);
    page.gauge(
        "ramhold_brick_tablets_without_vote",
        "Tablets that do not vote, or not for all keys: they are being rebuilt or loaded, or too few siblings have told their clocks.",
        u64::from(brick.without_vote),
    );
    page.gauge(
        "ramhold_brick_tablets_without_room",
        "Tablets of them that are not served, because there is no room for the first head of their stream.",
        u64::from(brick.waits_for_room),
    );
    page.by_label(
        (
            "ramhold_brick_full",
            "gauge",
            "1: puts are refused because of this limit: the log's memory, the device's frames, or the index's memory (then \
             only those of new keys).",
        ),
        "kind",
        BrickLimit::ALL.map(|limit| (limit.name(), u64::from(brick.full == Some(limit)))),
    );
    page.gauge(
        "ramhold_brick_rebuilt_permille",
        "The part of the tablet that is being rebuilt now which is rebuilt, of 1,000; 1,000 while none is.",
        u64::from(brick.rebuilding.map_or(1000, |rebuilding| rebuilding.permille)),
    );
    let stalled = |obstacle: RebuildObstacle| match &brick.stalled {
        Some(stalled) if stalled.obstacle == obstacle => Duration::from_millis(stalled.millis),
        _ => Duration::ZERO,
    };
    page.by_label(
        (
            "ramhold_brick_rebuild_stalled_seconds",
            "gauge",
            "For how long the rebuilding has come no further, once that is a minute, by what is in its way: the log's memory, the \
             device's frames, the index's memory, the device itself, a damaged entry, or siblings that tell no pages.",
        ),
        "obstacle",
        RebuildObstacle::ALL.map(|obstacle| (obstacle.name(), stalled(obstacle))),
    );
    page.gauge(
        "ramhold_brick_loaded_permille",
        "The part of the log that is loaded, of 1,000, while the brick answers only for keys that are; 1,000 when all is.",
        u64::from(brick.loaded_permille.unwrap_or(1000)),
    );
    let silent = brick.siblings.iter().filter(|sibling| sibling.is_silent).count() as u64;
    page.by_label(
        (
            "ramhold_brick_siblings",
            "gauge",
            "Bricks that share a tablet with this one, by whether their announcements come.",
        ),
        "state",
        [("heard", brick.siblings.len() as u64 - silent), ("silent", silent)],
    );
    page.gauge(
        "ramhold_brick_siblings_offline",
        "Silent ones of them that were restarted too often, so that their supervisors have given them up.",
        brick.siblings.iter().filter(|sibling| sibling.is_offline).count() as u64,
    );
    page.gauge(
        "ramhold_brick_reporting",
        "Bricks whose reports are known here, this one among them. Fewer than four are not compared.",
        u64::from(brick.reporting),
    );
    // Absent while this brick cannot be compared.
    let flags = brick.flagged.map(|flagged| {
        let is_flagged = move |statistic: Statistic| flagged.all().any(|it| it == statistic);
        Statistic::ALL.map(|statistic| (statistic.name(), u64::from(is_flagged(statistic))))
    });
    page.by_label(
        (
            "ramhold_brick_flagged",
            "gauge",
            "1: the statistic is unlike those of the other bricks. With --restart-threshold of them for two seconds the brick \
             is restarted. Absent while it is not compared: in its first minute, or with too few others.",
        ),
        "statistic",
        flags.into_iter().flatten(),
    );
    write_asks(page, brick);
    write_queues(page, brick);
    page.counter(
        "ramhold_brick_repairs_total",
        "Repairs of reads that stored something here, because this brick had missed it.",
        brick.repairs,
    );
    write_sweep(page, &brick.sweep);
    page.gauge(
        "ramhold_brick_graves",
        "Tombstones that go when nothing can bring an older value back.",
        brick.graves,
    );
    page.counter("ramhold_brick_graves_gone_total", "Tombstones that have gone.", brick.graves_gone);
    page.counter(
        "ramhold_brick_rebuild_read_bytes_total",
        "Bytes that were read from other bricks to rebuild tablets.",
        brick.rebuild_read,
    );
    page.counter(
        "ramhold_brick_rebuild_stored_bytes_total",
        "Bytes of the records that rebuilding has stored in the log.",
        brick.rebuild_stored,
    );
}

fn write_asks(page: &mut Page, brick: &BrickStatus) {
    let classes = [("get", brick.gets), ("put", brick.puts), ("stamp", brick.stamps)];
    page.by_label(
        (
            "ramhold_brick_asks_total",
            "counter",
            "Questions of sessions about keys, by what was wanted: a value, a write, a stamp.",
        ),
        "class",
        classes.map(|(class, asks)| (class, asks.asked)),
    );
    let answers = classes.into_iter().flat_map(|(class, asks)| {
        let of_writes = [("rejected", asks.rejected), ("unknown", asks.unknown)];
        let of_writes = of_writes.into_iter().filter(move |_| class == "put");
        let outcomes = [("answered", asks.answered), ("refused", asks.refused)].into_iter().chain(of_writes);
        outcomes.map(move |(outcome, count)| {
            ([("class", class.to_owned()), ("outcome", outcome.to_owned())], count)
        })
    });
    page.by_labels(
        (
            "ramhold_brick_answers_total",
            "counter",
            "Their answers, by outcome: answered (a write: applied), rejected or unknown (a write that is not the newest), \
             refused (no vote, or no room). The other questions wait, or met silence.",
        ),
        answers,
    );
}

fn write_queues(page: &mut Page, brick: &BrickStatus) {
    let queues = || Queue::ALL.into_iter().zip(&brick.queues).map(|(queue, it)| (queue.name(), it));
    page.by_label(
        (
            "ramhold_brick_queue_length",
            "gauge",
            "Questions that wait, for their turn or until something is durable, by class.",
        ),
        "class",
        queues().map(|(class, queue)| (class, queue.length)),
    );
    page.by_label(
        (
            "ramhold_brick_dropped_total",
            "counter",
            "Questions that were refused because too much waited, or for want of memory.",
        ),
        "class",
        queues().map(|(class, queue)| (class, queue.dropped)),
    );
    page.by_label(
        (
            "ramhold_brick_queue_delay_seconds",
            "gauge",
            "Time from the arrival of a question until its turn: an average that follows a change by 63 % in 5,000 questions.",
        ),
        "class",
        queues().map(|(class, queue)| (class, Duration::from_nanos(queue.delay_nanos))),
    );
    page.by_label(
        (
            "ramhold_brick_latency_seconds",
            "gauge",
            "Time from the arrival of a question until its answer, averaged in the same way.",
        ),
        "class",
        queues().map(|(class, queue)| (class, Duration::from_nanos(queue.latency_nanos))),
    );
}

fn write_sweep(page: &mut Page, sweep: &SweepStatus) {
    page.counter(
        "ramhold_brick_sweep_stored_total",
        "Values and tombstones that the background sweep fetched from siblings.",
        sweep.stored,
    );
    page.counter(
        "ramhold_brick_sweep_ended_total",
        "Values that had ended, and that the background sweep overwrote with their tombstones.",
        sweep.ended,
    );
    page.counter(
        "ramhold_brick_sweeps_total",
        "Sweeps that compared all tablets with all their siblings.",
        sweep.whole,
    );
    if let Some(millis) = sweep.whole_millis {
        page.gauge(
            "ramhold_brick_sweep_age_seconds",
            "Since the last of them ended; absent before the first.",
            Duration::from_millis(millis),
        );
    }
    page.gauge(
        "ramhold_brick_keys_behind",
        "Keys of which siblings are known to have something newer; at most 10,000 are counted.",
        sweep.behind,
    );
    page.gauge(
        "ramhold_brick_keys_behind_seconds",
        "For how long the first of them has been known to be so; 0: there is none.",
        Duration::from_millis(sweep.behind_millis.unwrap_or_default()),
    );
}
