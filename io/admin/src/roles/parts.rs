//! The metrics that processes of several kinds have in common: of their memory, their device and their log.

use crate::page::Page;
use ramhold_base::ClusterId;
use ramhold_wire::status::{BackupStatus, CleaningStatus, ProcessStatus, ScrubStatus};
use std::time::Duration;

pub(super) fn write_process(page: &mut Page, uptime_millis: u64, cluster: ClusterId) {
    page.gauge("ramhold_uptime_seconds", "Since the process began.", Duration::from_millis(uptime_millis));
    page.info(
        "ramhold_cluster_info",
        "Always 1; which cluster the process belongs to.",
        &[("cluster", &cluster.to_string())],
    );
}

pub(super) fn write_memory(page: &mut Page, status: &ProcessStatus) {
    page.gauge("ramhold_memory_bytes", "Memory that the process was given: --memory.", status.memory_bytes);
    page.by_label(
        (
            "ramhold_memory_part_bytes",
            "gauge",
            "Its parts: the log, the index at most, and buffers with all else.",
        ),
        "part",
        [("log", status.log_bytes), ("index", status.index_bytes_max), ("buffers", status.buffer_bytes)],
    );
    page.gauge("ramhold_log_used_bytes", "Memory of the log that segments take.", status.log_used_bytes);
    page.gauge(
        "ramhold_log_live_bytes",
        "The part of it that is live: objects and what guards them.",
        status.log_live_bytes,
    );
    page.gauge(
        "ramhold_log_free_bytes",
        "Memory of the log that no segment takes.",
        status.log_bytes.saturating_sub(status.log_used_bytes),
    );
    page.gauge("ramhold_index_used_bytes", "Memory that the index takes now.", status.index_bytes);
    page.gauge("ramhold_objects", "Records in the log that are live, of all tables.", status.objects);
    page.gauge("ramhold_tablets", "Tablets that this process holds.", status.tablets);
}

pub(super) fn write_backup(page: &mut Page, backup: &BackupStatus, disk_free_bytes: Option<u64>) {
    page.by_label(
        ("ramhold_backup_frames", "gauge", "Frames on the device for replicas: made, in use, and at most."),
        "of",
        [("made", backup.frames), ("used", backup.frames_used), ("max", backup.frames_max)],
    );
    page.by_label(
        ("ramhold_backup_buffers", "gauge", "Buffers in memory for open replicas: all, and in use."),
        "of",
        [("all", backup.buffers), ("used", backup.buffers_used)],
    );
    page.gauge(
        "ramhold_backup_unflushed_bytes",
        "Bytes of replicas that are in buffers and not on the device yet.",
        backup.unflushed_bytes,
    );
    page.gauge("ramhold_backup_disk_bytes", "Bytes that the frames take on the device.", backup.disk_bytes);
    if let Some(free) = disk_free_bytes {
        page.gauge(
            "ramhold_backup_disk_free_bytes",
            "Bytes that this process may still write to the file system of the frames.",
            free,
        );
    }
    let full = backup.full.as_ref();
    page.gauge(
        "ramhold_backup_disk_full",
        "1 while the device has no room for another frame. It is tried again every second.",
        full.is_some(),
    );
    page.gauge(
        "ramhold_backup_disk_full_seconds",
        "For how long that has been so; 0: it is not.",
        Duration::from_millis(full.map_or(0, |full| full.since_millis)),
    );
    page.gauge(
        "ramhold_backup_disk_wanted_bytes",
        "Bytes of frames that are wanted and not to be had; 0: none.",
        full.map_or(0, |full| full.wanted_bytes),
    );
    page.gauge(
        "ramhold_backup_cut_replicas",
        "Replicas that are cut: a part of what they should hold, after a crash.",
        backup.cut_replicas,
    );
    page.gauge(
        "ramhold_backup_failed",
        "1 when the device has failed and nothing is taken any more.",
        backup.failed.is_some(),
    );
}

pub(super) fn write_cleaning(page: &mut Page, cleaning: &CleaningStatus) {
    page.gauge(
        "ramhold_cleaning_needed",
        "1 while free memory is low and every write pays for cleaning.",
        cleaning.is_needed,
    );
    page.gauge(
        "ramhold_memory_full",
        "1 while writes find no memory; removes and reads go on.",
        cleaning.is_full,
    );
    page.by_label(
        (
            "ramhold_cleaning_passes_total",
            "counter",
            "Passes of the cleaner: in memory alone, or with the replicas.",
        ),
        "kind",
        [("compaction", cleaning.compactions), ("combined", cleaning.combined_passes)],
    );
    page.counter(
        "ramhold_cleaning_moved_bytes_total",
        "Live bytes that cleaning moved.",
        cleaning.bytes_moved,
    );
    page.counter(
        "ramhold_cleaning_replicated_bytes_total",
        "The part of them that went to the backups too.",
        cleaning.bytes_combined,
    );
    page.counter(
        "ramhold_cleaning_moved_entries_total",
        "Entries that cleaning moved.",
        cleaning.entries_moved,
    );
    page.counter(
        "ramhold_cleaning_segments_retired_total",
        "Segments freed by cleaning.",
        cleaning.segments_retired,
    );
    page.counter(
        "ramhold_expired_objects_total",
        "Objects taken out because their time was over.",
        cleaning.expired,
    );
}

pub(super) fn write_scrub(page: &mut Page, scrub: &ScrubStatus) {
    page.counter("ramhold_scrub_bytes_total", "Bytes of the log verified in the background.", scrub.bytes);
    page.counter("ramhold_scrub_rounds_total", "Walks over the whole log.", scrub.rounds);
    page.counter("ramhold_scrub_damaged_segments_total", "Segments found damaged in memory.", scrub.damaged);
    page.counter("ramhold_scrub_repaired_segments_total", "Those that are whole again.", scrub.repaired);
    page.counter(
        "ramhold_scrub_lost_objects_total",
        "Objects without replicas that were given up.",
        scrub.lost,
    );
    page.gauge("ramhold_scrub_waiting_segments", "Segments that are damaged now.", scrub.waiting);
}
