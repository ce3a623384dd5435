//! `ramhold plan`: the properties of a cluster that the user describes: the safety of its data, the number of
//! its copies, the duration of a recovery.
//!
//! The command contacts no process: all results follow from the description and from formulas (`loss`,
//! `recovery`). Here a *server* is a machine, the unit that fails as a whole. Several server processes on one
//! machine count as its cores.

mod hardware;
mod loss;
mod recovery;
mod report;

use crate::cli::Global;
use crate::failure::Failure;
use crate::output;
use crate::placement::parse_placement;
use crate::size::{parse_bytes, parse_duration};
use clap::Args;
use hardware::{Hardware, Profile, parse_count, parse_rate, parse_share, plain};
use loss::{Layout, Spread, scatter_width_of_a_ring};
use ramhold_base::limits::{COPYSET_RINGS_MAX, REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX, SEGMENT_BYTES};
use ramhold_wire::ReplicaPlacement;
use recovery::{Recovery, Work, recovery, recreation};
use std::time::Duration;

/// More than any cluster has; bounds the sums.
const SERVER_COUNT_MAX: u64 = 1_000_000;
/// A recovery partition as the coordinator cuts it by default: smaller logs have fewer recovery masters.
const PARTITION_BYTES: f64 = 64.0 * 1024.0 * 1024.0;
const YEAR_SECONDS: f64 = 365.25 * 24.0 * 3600.0;
/// Where the sum for a year is not good any more: each server away for that share of the time.
const AWAY_MAX: f64 = 0.1;

const HELP: &str = "\
Data loss is told for three events: a power cut of the whole cluster (all DRAM
is gone) from which some servers do not return; the same servers dying at one
moment while all others keep their DRAM; and a year in which servers are lost
one by one, each whole again when its log is recovered and the replicas that it
held are made anew. Formulas: SOSP11 4.5, Copysets (ATC 2013). Failure domains
are single servers there; by racks it is safer.

A recovery takes as long as the slowest of disks, network and replay, after
detection and the first segment: what the hardware allows, not a promise.
Profiles, per server:
           network      disk read/write    replay by a core            detection
  sosp11   25 Gbit/s    213 / 197 MB/s     800 MB/s, 3.1 M records/s   150 ms
  tut15    24 Gbit/s    540 / 360 MB/s     500 MB/s, 3.1 M records/s   200 ms
  2026     25 Gbit/s    3 / 1.5 GB/s       2.5 GB/s, 6 M records/s     1300 ms
Replay of the profile 2026 is a goal until it is measured on such a machine:
measure yours and say --replay. Its detection is that of a host that falls
silent; a process that died is noticed in 100 ms (--detection 100ms).

Examples:
  ramhold plan --servers 1000
      three replicas, scattered; 1 % do not return
  ramhold plan --servers 1000 --placement copyset
  ramhold plan --servers 1000 --placement copyset --scatter-width 10 \\
      --failures 25
  ramhold plan --servers 100000 --replicas 2 --profile sosp11 --json
  ramhold plan --servers 12 --memory 256GiB --network 100Gbit --cores 16 \\
      --detection 100ms

Exit codes: 0 told, 2 a description that makes no sense.";

/// Work out data loss, copies and recovery time of a cluster.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Plan {
    /// How many servers (machines).
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..=SERVER_COUNT_MAX))]
    servers: u64,
    /// Log in the DRAM of each server.
    #[arg(long, value_name = "SIZE", default_value = "64GiB", value_parser = parse_bytes)]
    memory: u64,
    /// The share of the log that is live data.
    #[arg(long, value_name = "SHARE", default_value = "80%", value_parser = parse_share)]
    utilisation: f64,
    /// Replicas of a segment on backups.
    #[arg(long, value_name = "COUNT", default_value_t = REPLICA_COUNT_DEFAULT,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: u8,
    /// 'scatter', 'copyset' or 'copyset:RINGS', as for 'ramhold coordinator'.
    #[arg(long, value_name = "HOW", default_value = "scatter", value_parser = parse_placement)]
    placement: ReplicaPlacement,
    /// As many rings of copysets as it takes for at least so many servers to share copysets with each: they are where a
    /// dead server's replicas are made anew.
    #[arg(long, value_name = "SERVERS")]
    scatter_width: Option<u64>,
    /// How many servers fail together.
    #[arg(long, value_name = "COUNT", group = "failing")]
    failures: Option<u64>,
    /// The share of servers that fail together, rounded up. [default: 1%]
    #[arg(long, value_name = "SHARE", group = "failing", value_parser = parse_share)]
    failure_fraction: Option<f64>,
    /// How likely each server fails, by itself, in the power cut or at the same moment.
    #[arg(long, value_name = "SHARE", group = "failing", value_parser = parse_share)]
    failure_probability: Option<f64>,
    /// How often a year a server is lost with its disks.
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = parse_crashes)]
    crashes_per_year: f64,
    /// The machines; each of the next options replaces one of its figures.
    #[arg(long, value_enum, default_value_t = Profile::Now)]
    profile: Profile,
    /// Of a server, in each direction: 25Gbit, 3GB.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    network: Option<f64>,
    /// Of all disks of a server: 500MB, 3GB.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    disk_read: Option<f64>,
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help = "Of all disks of a server, sustained")]
    disk_write: Option<f64>,
    /// Buffers of a server: what a recovery writes beyond them waits for the disks. [default: of 2026 256 MiB, else any]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    buffers: Option<u64>,
    /// What one core replays, in bytes. [default: of 2026 2.5GB]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    replay: Option<f64>,
    /// And in records per second: 800k, 6M. [default: of 2026 6M]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    replay_records: Option<f64>,
    /// Cores of a server that replay: as many as server processes run there.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// An object with its key, as it is in the log.
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = parse_bytes)]
    object_bytes: u64,
    /// From a server's death until it is declared dead.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    detection: Option<Duration>,
}

/// Servers that fail together.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Failing {
    Count(u64),
    Each(f64),
}

/// All that is told.
struct Picture<'a> {
    plan: &'a Plan,
    hardware: Hardware,
    layout: Layout,
    failing: Failing,
    after_power_cut: f64,
    /// When something is lost then, expected.
    bytes_lost_then: f64,
    at_once: f64,
    /// None: servers are away for too much of the time.
    in_a_year: Option<f64>,
    recovery: Recovery,
    masters: u64,
    /// Seconds until the replicas that a dead server held are made anew, and on how many servers.
    recreation: f64,
    recreation_servers: u64,
}

impl Picture<'_> {
    /// Seconds until a server that is lost is missed by nothing any more.
    fn whole_again(&self) -> f64 {
        self.recovery.total.max(self.recreation)
    }
}

impl Plan {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let picture = self.picture().map_err(Failure::usage)?;
        if global.json {
            output::print_json(&report::json(&picture))
        } else {
            output::print(&report::text(&picture))
        }
    }

    fn picture(&self) -> Result<Picture<'_>, String> {
        let replicas = u64::from(self.replicas);
        if self.servers <= replicas {
            return Err(format!(
                "{replicas} replicas need {} servers, since each is on another server than the data",
                replicas + 1
            ));
        }
        if self.memory < u64::from(SEGMENT_BYTES) {
            return Err(format!("--memory {} holds no segment of 8 MiB", self.memory));
        }
        if self.utilisation <= 0.0 {
            return Err("--utilisation 0: a cluster without data loses none".to_owned());
        }
        if self.object_bytes == 0 || self.object_bytes > u64::from(SEGMENT_BYTES) {
            return Err("--object-bytes: between 1 and 8 MiB, a segment".to_owned());
        }
        let hardware = self.hardware();
        let layout = Layout {
            servers: self.servers,
            replicas,
            segments: (self.memory as f64 / f64::from(SEGMENT_BYTES)).ceil(),
            spread: self.spread()?,
        };
        let failing = self.failing()?;
        let over = |loss: fn(&Layout, u64) -> f64| match failing {
            Failing::Count(failed) => loss(&layout, failed),
            Failing::Each(probability) => layout.expected(probability, loss),
        };
        let after_power_cut = over(Layout::after_power_cut);
        let bytes_lost = over(Layout::segments_lost) * f64::from(SEGMENT_BYTES) * self.utilisation;
        let log_bytes = self.memory as f64;
        let others = self.servers - 1;
        let masters = others.min((log_bytes / PARTITION_BYTES).ceil() as u64);
        let work = Work {
            log_bytes,
            live: self.utilisation,
            object_bytes: self.object_bytes as f64,
            replicas: f64::from(self.replicas),
            masters: masters as f64,
            backups: others as f64,
        };
        // A single replica has no other replicas whose copyset it must stay in.
        let recreation_servers = if replicas == 1 { others } else { layout.scatter_width() };
        let mut picture = Picture {
            plan: self,
            hardware,
            layout,
            failing,
            after_power_cut,
            bytes_lost_then: if after_power_cut > 0.0 { bytes_lost / after_power_cut } else { 0.0 },
            at_once: over(Layout::at_once),
            in_a_year: None,
            recovery: recovery(&work, &hardware),
            masters,
            recreation: recreation(&work, recreation_servers as f64, &hardware),
            recreation_servers,
        };
        let away_years = picture.whole_again() / YEAR_SECONDS;
        if self.crashes_per_year * away_years <= AWAY_MAX {
            picture.in_a_year = Some(layout.in_a_year(self.crashes_per_year, away_years));
        }
        Ok(picture)
    }

    fn hardware(&self) -> Hardware {
        let profile = self.profile.hardware();
        Hardware {
            network: self.network.unwrap_or(profile.network),
            disk_read: self.disk_read.unwrap_or(profile.disk_read),
            disk_write: self.disk_write.unwrap_or(profile.disk_write),
            replay: self.replay.unwrap_or(profile.replay),
            replay_records: self.replay_records.unwrap_or(profile.replay_records),
            cores: self.cores.unwrap_or(profile.cores),
            buffers: self.buffers.or(profile.buffers),
            detection: self.detection.unwrap_or(profile.detection),
        }
    }

    fn spread(&self) -> Result<Spread, String> {
        match (self.placement, self.scatter_width) {
            (ReplicaPlacement::Scatter, None) => Ok(Spread::Scatter),
            (ReplicaPlacement::Scatter, Some(_)) => {
                Err("--scatter-width is of copysets: give --placement copyset".to_owned())
            }
            (ReplicaPlacement::Copysets { rings }, None) => Ok(Spread::Copysets { rings }),
            (ReplicaPlacement::Copysets { rings: 1 }, Some(width)) => {
                let of_a_ring = scatter_width_of_a_ring(u64::from(self.replicas));
                let rings = width.checked_div(of_a_ring).map(|_| width.div_ceil(of_a_ring));
                let rings = rings.and_then(|rings| u8::try_from(rings).ok());
                let rings = rings.filter(|rings| (1..=COPYSET_RINGS_MAX).contains(rings));
                rings.map(|rings| Spread::Copysets { rings }).ok_or_else(|| {
                    format!(
                        "--scatter-width {width}: with {} replicas it is 1 to {}, {of_a_ring} for each ring",
                        self.replicas,
                        of_a_ring * u64::from(COPYSET_RINGS_MAX)
                    )
                })
            }
            (ReplicaPlacement::Copysets { .. }, Some(_)) => {
                Err("--scatter-width and 'copyset:RINGS' say the same: give one of them".to_owned())
            }
        }
    }

    fn failing(&self) -> Result<Failing, String> {
        if let Some(probability) = self.failure_probability {
            return Ok(Failing::Each(probability));
        }
        let failed = self.failures.unwrap_or_else(|| {
            let share = self.failure_fraction.unwrap_or(0.01);
            // The product is made slightly smaller, so that rounding up does not make 1 % of 1,000 into 11.
            (share * self.servers as f64 - 1e-6).ceil().max(0.0) as u64
        });
        if failed > self.servers {
            return Err(format!("--failures {failed}: there are {} servers", self.servers));
        }
        Ok(Failing::Count(failed))
    }
}

fn parse_crashes(text: &str) -> Result<f64, String> {
    let crashes = plain(text).filter(|crashes| *crashes <= 10_000.0);
    crashes.ok_or_else(|| format!("'{text}' is not a number of crashes a year like 2 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn plan(arguments: &[&str]) -> Plan {
        let cli = Cli::try_parse_from(["ramhold", "plan"].iter().chain(arguments)).unwrap();
        let Command::Plan(plan) = cli.command else { panic!("it is a plan") };
        *plan
    }

    fn refusal(arguments: &[&str]) -> String {
        match Cli::try_parse_from(["ramhold", "plan"].iter().chain(arguments)) {
            Err(error) => error.to_string(),
            Ok(_) => plan(arguments).picture().map(|_| ()).unwrap_err(),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (arguments, reason) in [
            (&["--servers", "3"][..], "3 replicas need 4 servers"),
            (&["--servers", "0"], "0 is not in"),
            (&["--servers", "1000001"], "1000001 is not in"),
            (&["--servers", "9", "--replicas", "0"], "0 is not in"),
            (&["--servers", "9", "--replicas", "8"], "8 is not in"),
            (&["--servers", "9", "--memory", "1MiB"], "holds no segment"),
            (&["--servers", "9", "--utilisation", "0"], "without data"),
            (&["--servers", "9", "--utilisation", "120%"], "not a share"),
            (&["--servers", "9", "--object-bytes", "0"], "between 1 and 8 MiB"),
            (&["--servers", "9", "--failures", "10"], "there are 9 servers"),
            (&["--servers", "9", "--failures", "1", "--failure-fraction", "1%"], "cannot be used with"),
            (&["--servers", "9", "--scatter-width", "4"], "--placement copyset"),
            (&["--servers", "9", "--placement", "copyset:2", "--scatter-width", "4"], "one of them"),
            (&["--servers", "9", "--placement", "copyset", "--scatter-width", "65"], "1 to 64, 4 for each"),
            (&["--servers", "9", "--placement", "copyset", "--scatter-width", "0"], "1 to 64"),
            (
                &["--servers", "9", "--replicas", "1", "--placement", "copyset", "--scatter-width", "3"],
                "1 to 0",
            ),
            (&["--servers", "9", "--crashes-per-year", "few"], "crashes"),
            (&["--servers", "9", "--network", "25"], "not a rate"),
            (&["--servers", "9", "--profile", "2012"], "sosp11, tut15, 2026"),
            (&[], "--servers"),
        ] {
            let refused = refusal(arguments);
            assert!(refused.contains(reason), "{arguments:?}: {refused}");
        }
    }

    #[test]
    fn failing_servers_are_a_number_a_share_or_each_by_itself() {
        let failing = |more: &[&str]| plan(&[&["--servers", "1000"], more].concat()).failing().unwrap();
        assert_eq!(failing(&[]), Failing::Count(10));
        assert_eq!(failing(&["--failure-fraction", "1%"]), Failing::Count(10));
        assert_eq!(failing(&["--failure-fraction", "0.11%"]), Failing::Count(2));
        assert_eq!(failing(&["--failure-fraction", "0"]), Failing::Count(0));
        assert_eq!(failing(&["--failures", "1000"]), Failing::Count(1000));
        assert_eq!(failing(&["--failure-probability", "0.01"]), Failing::Each(0.01));
    }

    #[test]
    fn a_scatter_width_makes_as_many_rings_as_it_takes() {
        let spread = |width: &str| {
            let plan = plan(&["--servers", "99", "--placement", "copyset", "--scatter-width", width]);
            plan.spread().unwrap()
        };
        assert_eq!(["1", "4", "5", "64"].map(spread), [1, 1, 2, 16].map(|rings| Spread::Copysets { rings }));
    }

    /// What the option does to the numbers, end to end: a thousand servers, ten of which do not return.
    // D4, O4
    #[test]
    fn copysets_are_safer_in_a_power_cut_and_lose_more_then() {
        let (scatter, copysets) =
            (plan(&["--servers", "1000"]), plan(&["--servers", "1000", "--placement", "copyset"]));
        let (scatter, copysets) = (scatter.picture().unwrap(), copysets.picture().unwrap());
        assert!(scatter.after_power_cut > 0.99);
        assert!(copysets.after_power_cut < 1e-3);
        assert!(copysets.bytes_lost_then > 100.0 * scatter.bytes_lost_then);
        assert_eq!(scatter.recovery.total, copysets.recovery.total);
        // The price of copysets: only few servers take over the replicas of a dead backup.
        assert_eq!((scatter.recreation_servers, copysets.recreation_servers), (999, 4));
        assert!(copysets.whole_again() > 10.0 * scatter.whole_again());
    }

    #[test]
    fn every_description_has_a_text_and_a_json_without_holes() {
        for servers in ["2", "5", "100", "1000000"] {
            for placement in ["scatter", "copyset:3"] {
                for failing in ["--failures=1", "--failure-fraction=100%", "--failure-probability=0.5"] {
                    let arguments =
                        ["--servers", servers, "--replicas", "1", "--placement", placement, failing];
                    let plan = plan(&arguments);
                    let picture = plan.picture().unwrap();
                    let (text, json) = (report::text(&picture), report::json(&picture).to_string());
                    for hole in ["NaN", "inf", "null"] {
                        assert!(
                            !text.contains(hole) && !json.contains(hole),
                            "{arguments:?}:\n{text}\n{json}"
                        );
                    }
                }
            }
        }
        // Each server is lost every hour and is away for a quarter of an hour. The plan gives no figure for a
        // year of that.
        let often = plan(&["--servers", "4", "--crashes-per-year", "8766", "--network", "100MB"]);
        let picture = often.picture().unwrap();
        assert!(picture.in_a_year.is_none());
        assert!(report::text(&picture).contains("too often"));
    }
}
