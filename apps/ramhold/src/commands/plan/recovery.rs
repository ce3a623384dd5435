//! The duration of the recovery of one server, and its bottleneck.
//!
//! All other servers take part: backups read the dead log from their disks and send it; recovery masters take
//! it in, replay it, and send the live part to R backups again. All of this overlaps. So the duration is that
//! of the slowest of disks, network and processors, after the death is detected and the first segment is
//! read.
//!
//! Not here: the cluster's other work at that time; the coordinator's work per server (SOSP11 4.3: 10 ms with
//! 60 masters); the unevenness of shares. So the result is the time that the hardware allows, not a promise.
//! Sources: SOSP11 3 and 4; TUT15 "Scale and Recovery". Catalogue: F1.

use super::hardware::Hardware;
use ramhold_base::limits::SEGMENT_BYTES;

/// The data to be recovered, and the servers that recover it.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Bytes of the dead log.
    pub log_bytes: f64,
    /// The share of it that is live: only that is written anew.
    pub live: f64,
    pub object_bytes: f64,
    pub replicas: f64,
    /// Servers that replay a part each, servers that have primaries, and servers that take new replicas.
    pub masters: f64,
    pub backups: f64,
    pub takers: f64,
}

/// Seconds, each as if nothing else had to be done.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    pub detection: f64,
    /// Until the first segment is there to be replayed.
    pub first_segment: f64,
    /// From the disks.
    pub read: f64,
    /// To disks, of what the buffers do not hold until it is over.
    pub flush: f64,
    /// To the recovery masters.
    pub transfer: f64,
    /// From them to R backups.
    pub replicate: f64,
    pub replay: f64,
    /// Both directions of the network, the fuller one.
    pub network: f64,
    pub total: f64,
    pub bound: Bound,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    Detection,
    Disks,
    Network,
    /// Between zones.
    Uplink,
    /// One port of one server, in a network of switches.
    Port,
    Replay,
}

impl Bound {
    pub fn name(self) -> &'static str {
        match self {
            Bound::Detection => "detection",
            Bound::Disks => "disks",
            Bound::Network => "network",
            Bound::Uplink => "uplinks",
            Bound::Port => "the fullest port",
            Bound::Replay => "replay",
        }
    }
}

impl Recovery {
    /// The same where bytes are for so long on what is told: the fullest uplink of a zone, or the fullest port.
    pub fn over(self, link: Bound, seconds: f64) -> Recovery {
        let besides = self.total - self.detection - self.first_segment;
        if seconds <= besides {
            return self;
        }
        let total = self.detection + self.first_segment + seconds;
        let bound = if self.detection > seconds + self.first_segment { Bound::Detection } else { link };
        Recovery { total, bound, ..self }
    }
}

pub fn recovery(work: &Work, hardware: &Hardware) -> Recovery {
    let (of_master, of_backup) = (work.log_bytes / work.masters, work.log_bytes / work.backups);
    let anew = work.live * work.replicas;
    let anew_of_taker = anew * work.log_bytes / work.takers;
    let read = of_backup / hardware.disk_read;
    let too_much = hardware.buffers.map_or(0.0, |buffers| (anew_of_taker - buffers as f64).max(0.0));
    let flush = too_much / hardware.disk_write;
    let transfer = of_master / hardware.network;
    let replicate = anew * of_master / hardware.network;
    let sent = of_backup + anew * of_master;
    let received = of_master + anew_of_taker;
    let network = sent.max(received) / hardware.network;
    let of_core = of_master / f64::from(hardware.cores);
    let replay = (of_core / hardware.replay).max(of_core / work.object_bytes / hardware.replay_records);
    let detection = hardware.detection.as_secs_f64();
    let first_segment = work.log_bytes.min(f64::from(SEGMENT_BYTES)) / hardware.disk_read;
    let slowest =
        [(Bound::Disks, read + flush), (Bound::Network, network), (Bound::Replay, replay)].into_iter();
    let (bound, work_time) = slowest.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are three");
    let bound = if detection > work_time + first_segment { Bound::Detection } else { bound };
    let total = detection + first_segment + work_time;
    Recovery { detection, first_segment, read, flush, transfer, replicate, replay, network, total, bound }
}

/// How long it takes until the replicas of others that a dead server held are made anew, from their masters' DRAM, on so
/// many other servers. It held as much as every other: R logs.
pub fn recreation(work: &Work, servers: f64, hardware: &Hardware) -> f64 {
    let bytes = work.replicas * work.log_bytes;
    hardware.detection.as_secs_f64() + bytes / servers / hardware.network.min(hardware.disk_write)
}

#[cfg(test)]
mod tests {
    use super::super::hardware::Profile;
    use super::*;

    fn assert_near(found: f64, told: f64, tolerance: f64) {
        assert!((found / told - 1.0).abs() <= tolerance, "{found} is not {told} +- {tolerance}");
    }

    /// Full of live objects of 1 KB, three replicas, as the papers' measurements are; masters and backups.
    fn work(gigabytes: f64, masters: f64, backups: f64) -> Work {
        let log_bytes = gigabytes * 1e9;
        Work { log_bytes, live: 1.0, object_bytes: 1024.0, replicas: 3.0, masters, backups, takers: backups }
    }

    /// TUT15 "Scale and Recovery". Tolerance: 30 %, as its seconds are whole and leave detection out; without detection
    /// and the first segment 1 %.
    #[test]
    fn clusters_scale_as_the_table_of_tut15_says() {
        let hardware = Profile::Tut15.hardware();
        let table = [(101, 50.0, 1.0), (201, 100.0, 1.0), (6, 100.0, 40.0), (6, 2.5, 1.0), (11, 5.0, 1.0)];
        for (servers, gigabytes, seconds) in table {
            let others = f64::from(servers - 1);
            let found = recovery(&work(gigabytes, others, others), &hardware);
            assert_near(found.total, seconds, 0.3);
            assert_near(found.replay, seconds, 0.01);
            assert_eq!(found.bound, Bound::Replay, "500 MB/s per server");
        }
    }

    /// TUT15 "Master Crash Recovery": 256 GB from one flash drive 1,000 s, over one 10 Gbit connection 250 s, through one
    /// CPU 500 s. Tolerance: 20 %, of round numbers.
    #[test]
    fn one_server_alone_takes_as_long_as_tut15_says() {
        let hardware = Hardware { network: 10e9 / 8.0, ..Profile::Tut15.hardware() };
        let found = recovery(&work(256.0, 1.0, 2.0), &hardware);
        // The time found is that of two drives on each of two servers.
        assert_near(found.read * 4.0, 1000.0, 0.2);
        assert_near(found.transfer, 250.0, 0.2);
        assert_near(found.replay, 500.0, 0.05);
    }

    /// SOSP11 4.3: 11.7 GB by 20 masters from 120 disks, "under 1.1 seconds", bounded by the disks; the measured recoveries
    /// were begun by hand. Tolerance: 15 %.
    #[test]
    fn twenty_masters_and_a_hundred_and_twenty_disks_take_as_long_as_in_sosp11() {
        let found = recovery(&work(11.7, 20.0, 60.0), &Profile::Sosp11.hardware());
        assert_near(found.total - found.detection, 1.1, 0.15);
        assert_eq!(found.bound, Bound::Disks);
    }

    /// SOSP11 4.3: 35 GB by 60 masters from 120 flash drives in about 1.6 s. Tolerance: 35 %; the paper names contention of
    /// master and backup on a node, and a saturated network, which are not in the sum.
    #[test]
    fn sixty_masters_with_flash_take_a_third_longer_than_their_hardware() {
        let flash = Hardware { disk_read: 2.0 * 269e6, network: 22e9 / 8.0, ..Profile::Sosp11.hardware() };
        let found = recovery(&work(35.0, 60.0, 60.0), &flash);
        assert_near(found.total - found.detection, 1.6, 0.35);
        assert_eq!(found.bound, Bound::Disks);
    }

    /// SOSP11 4.1: what one master can recover in one second, with backups in plenty: 800 MB, or 3 million records, 400 MB
    /// of 128 bytes each; with 10 Gbit Ethernet 300 MB. Tolerance: none, these are upper limits; 10 % more take longer.
    #[test]
    fn partitions_of_one_second_are_as_large_as_sosp11_says() {
        let sosp11 = Profile::Sosp11.hardware();
        let slow_network = Hardware { network: 10e9 / 8.0, ..sosp11 };
        let time = |megabytes: f64, object_bytes: f64, hardware: &Hardware| {
            let found = recovery(&Work { object_bytes, ..work(megabytes / 1000.0, 1.0, 60.0) }, hardware);
            (found.total - found.detection - found.first_segment, found.bound)
        };
        for (megabytes, object_bytes, hardware, bound) in [
            (800.0, 1024.0, sosp11, Bound::Replay),
            (396.0, 128.0, sosp11, Bound::Replay),
            (400.0, 1024.0, slow_network, Bound::Network),
        ] {
            let (within, by) = time(megabytes, object_bytes, &hardware);
            assert!(within <= 1.0, "{megabytes} MB in {within} s");
            assert_eq!(by, bound);
            assert!(time(megabytes * 1.1, object_bytes, &hardware).0 > 1.0);
        }
        // The paper's 300 MB leave some room for costs that it does not mention. 417 MB would fill the wire.
        let (three_hundred, by) = time(300.0, 1024.0, &slow_network);
        assert!((0.6..=1.0).contains(&three_hundred), "{three_hundred}");
        assert_eq!(by, Bound::Network);
    }

    #[test]
    fn what_the_buffers_do_not_hold_goes_to_the_disks_meanwhile() {
        let hardware = Profile::Now.hardware();
        let found = recovery(&work(64.0, 4.0, 4.0), &hardware);
        let all = Hardware { buffers: None, ..hardware };
        assert_near(found.flush, (48e9 - 32.0 * f64::from(SEGMENT_BYTES)) / 1.5e9, 1e-9);
        assert_eq!(recovery(&work(64.0, 4.0, 4.0), &all).flush, 0.0);
        assert_eq!(found.bound, Bound::Disks);
    }

    #[test]
    fn the_replicas_of_a_dead_backup_are_made_anew_where_its_copysets_are() {
        let hardware = Profile::Now.hardware();
        let on = |servers| recreation(&work(64.0, 999.0, 999.0), servers, &hardware) - 1.3;
        // 192 GB at 1.5 GB/s.
        assert_near(on(999.0), 128.0 / 999.0, 1e-9);
        assert_near(on(4.0), 32.0, 1e-9);
    }

    #[test]
    fn a_large_cluster_is_bounded_by_detection() {
        let found = recovery(&work(64.0, 999.0, 999.0), &Profile::Now.hardware());
        assert_eq!(found.bound, Bound::Detection);
        assert!(found.total < 1.5, "{found:?}");
    }
}
