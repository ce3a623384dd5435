//! `ramhold plan`: the properties of a cluster that the user describes: the safety of its data, the number of
//! its copies, the duration of a recovery.
//!
//! The command contacts no process: all results follow from the description and from formulas (`loss`,
//! `recovery`). Here a *server* is a machine, the unit that fails as a whole. Several server processes on one
//! machine count as its cores.

mod crossing;
mod description;
mod figures;
mod hardware;
mod loss;
mod network;
mod picture;
mod places;
mod ports;
mod quorum;
mod recovery;
mod report;

pub use description::Plan;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;

impl Plan {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let picture = self.picture().map_err(Failure::usage)?;
        if global.json {
            output::print_json(&report::json(&picture))
        } else {
            output::print(&report::text(&picture))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::description::Failing;
    use super::loss::Spread;
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
            (&["--servers", "9", "--object-bytes", "0"], "between 1 and 8MiB"),
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
            (&["--servers", "9", "--placement", "zone-local"], "give --zones"),
            (&["--servers", "9", "--zones", "10"], "2 to 9 zones"),
            (&["--servers", "9", "--zones", "1"], "1 is not in"),
            (&["--servers", "9", "--uplink", "10Gbit"], "--zones"),
            (&["--servers", "9", "--zones", "3", "--placement", "copyset"], "not in the model"),
            (&["--servers", "4", "--zones", "3", "--placement", "zone-local"], "another server in each zone"),
            (&["--servers", "9", "--profile", "2012"], "sosp11, tut15, 2026"),
            (&["--servers", "9", "--quorum", "8"], "8 is not in"),
            (
                &["--servers", "9", "--quorum", "3", "--write-quorum", "1"],
                "is more than the 3 bricks|need not meet",
            ),
            (&["--servers", "9", "--write-quorum", "2"], "--quorum"),
            (&["--servers", "9", "--data", "1GiB"], "--quorum"),
            (&["--servers", "9", "--quorum", "3", "--brick-away", "400d"], "shorter --brick-away|400d"),
            (&[], "--servers"),
            (&["--servers", "9", "--placement", "multiring"], "give --topology bcube:N,K"),
            (&["--servers", "9", "--placement", "rack-local"], "give --topology bcube:N,K"),
            (&["--topology", "bcube:1,1"], "2 to 256 digits"),
            (&["--topology", "bcube:x,1"], "is not 'flat', 'zones', 'bcube:N,K'"),
            (&["--topology", "flat"], "give --servers"),
            (&["--topology", "zones", "--servers", "9"], "give bcube:N,K or grid:R0,R1,..., or --zones"),
            (&["--topology", "bcube:4,1", "--zones", "2"], "cannot be used with"),
            (&["--topology", "bcube:4,1", "--servers", "15"], "16 places"),
            (&["--topology", "bcube:17,2"], "4913 places"),
            (&["--topology", "bcube:256,7"], "at most 4096"),
            (&["--topology", "bcube:4,1", "--placement", "zone-local"], "give --zones"),
            (&["--topology", "bcube:9,0", "--placement", "multiring"], "with two levels or more"),
            (&["--topology", "bcube:9,0", "--placement", "rack-local"], "one rack only"),
            (
                &["--topology", "bcube:2,1", "--placement", "multiring"],
                "give --replicas 1, a larger --topology",
            ),
            (
                &["--topology", "grid:3,2", "--placement", "multiring"],
                "give --replicas 2, a larger --topology",
            ),
            (
                &["--topology", "bcube:4,1", "--placement", "multiring", "--scatter-width", "4"],
                "--placement copyset",
            ),
        ] {
            let refused = refusal(arguments);
            let is_told = reason.split('|').any(|reason| refused.contains(reason));
            assert!(is_told, "{arguments:?}: {refused}");
        }
    }

    #[test]
    fn failing_servers_are_a_number_a_share_or_each_by_itself() {
        let failing = |more: &[&str]| plan(&[&["--servers", "1000"], more].concat()).failing(1000).unwrap();
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
            plan.spread(None).unwrap()
        };
        assert_eq!(["1", "4", "5", "64"].map(spread), [1, 1, 2, 16].map(|rings| Spread::Copysets { rings }));
    }

    /// The effect of the option on the numbers, end to end: a thousand servers, ten of which do not return.
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

    /// The price and the gain of zone-local, end to end: three zones of three servers.
    // H3
    #[test]
    fn zone_local_crosses_zones_less_and_recovers_on_fewer_servers() {
        let nine = |placement: &str| {
            plan(&["--servers", "9", "--zones", "3", "--placement", placement, "--uplink", "10Gbit"])
        };
        let (scatter, local) = (nine("scatter"), nine("zone-local"));
        let (scatter, local) = (scatter.picture().unwrap(), local.picture().unwrap());
        let fetched = |picture: &picture::Picture<'_>| picture.zones.as_ref().unwrap().fetched_bytes;
        assert!(fetched(&scatter) > 0.6 * 64.0 * (1u64 << 30) as f64);
        assert_eq!((fetched(&local), local.masters, scatter.masters), (0.0, 2, 8));
        assert!(local.recovery.replay > 3.9 * scatter.recovery.replay);
        // All new replicas of a zone's recovery leave it over one uplink.
        assert_eq!(local.recovery.bound, recovery::Bound::Uplink);
        assert!(local.recovery.total > 60.0);
        assert!(report::text(&local).contains("between zones"));
        assert_eq!(report::json(&local)["zones"]["written"], 2.0);
    }

    /// The paper's network and placement, end to end; the numbers are of the worked example.
    // H2, D4
    #[test]
    fn multiring_keeps_a_recovery_on_neighbours_and_has_few_sets() {
        let with = |placement| {
            plan(&[
                "--topology",
                "bcube:4,1",
                "--failures",
                "4",
                "--placement",
                placement,
                "--buffers",
                "1GiB",
            ])
        };
        let (scatter, rings) = (with("scatter"), with("multiring"));
        let (scatter, rings) = (scatter.picture().unwrap(), rings.picture().unwrap());
        assert_eq!((rings.masters, rings.backups), (6, 9));
        assert_eq!((scatter.masters, scatter.backups), (15, 15));
        assert!((rings.at_once - 76.0 / 1820.0).abs() < 1e-9, "{}", rings.at_once);
        assert!(scatter.at_once > 0.999);
        let json = report::json(&rings);
        assert_eq!(json["network"]["neighbourhoods"], 6);
        assert_eq!(json["data_loss"]["sets_with_master"], 76.0);
        assert_eq!(json["network"]["recovery_fetched"]["far_bytes"], 0.0);
        assert_eq!((&json["placement"], &json["servers"]), (&"multiring".into(), &16.into()));
        let scattered = report::json(&scatter);
        assert!(scattered["network"]["recovery_fetched"]["far_bytes"].as_f64().unwrap() > 20.0 * 1e9);
        assert!(scattered["network"].get("neighbourhoods").is_none());
        let text = report::text(&rings);
        for part in ["76 sets of 4", "6 + 9", "2 ports of 25.0 Gbit/s", "on level 1"] {
            assert!(text.contains(part), "no '{part}' in:\n{text}");
        }
    }

    /// With fewer buffers, or when asked to, a master employs fewer neighbourhoods, and the plan says why.
    // H2
    #[test]
    fn buffers_bound_the_neighbourhoods_of_a_plan() {
        let told = |placement, buffers| {
            let plan = plan(&["--topology", "bcube:4,1", "--placement", placement, "--buffers", buffers]);
            let picture = plan.picture().unwrap();
            let text = report::text(&picture).split_whitespace().collect::<Vec<_>>().join(" ");
            (picture.masters, text.contains("buffers or memory have room for 2"))
        };
        assert_eq!(told("multiring", "96MiB"), (2, true));
        assert_eq!(told("multiring", "1GiB"), (6, false));
        assert_eq!(told("multiring:4", "1GiB"), (4, false));
    }

    /// A link that is slow enough bounds the recovery, and says so.
    // H2
    #[test]
    fn the_fullest_port_bounds_a_recovery() {
        let slow = plan(&["--topology", "bcube:4,1", "--placement", "multiring", "--network", "1Gbit"]);
        let slow = slow.picture().unwrap();
        assert_eq!(slow.recovery.bound, recovery::Bound::Port);
        let seconds = slow.network.as_ref().unwrap().seconds;
        let around = slow.recovery.detection + slow.recovery.first_segment;
        assert!((slow.recovery.total - around - seconds).abs() < 1e-9);
        assert!(seconds > 60.0, "{seconds}: ten GiB in and live three times out, over ports of 125 MB/s");
    }

    /// A table of three bricks for each key beside three replicas, end to end: nine servers, and 100 GiB of data.
    // I1
    #[test]
    fn a_quorum_table_costs_memory_and_waits_for_nobody() {
        let nine = |more: &[&str]| plan(&[&["--servers", "9", "--quorum", "3"], more].concat());
        let described = nine(&["--data", "100GiB"]);
        let picture = described.picture().unwrap();
        let table = picture.quorum.as_ref().unwrap();
        // 300 GiB at 51.2 GiB for each brick.
        assert_eq!((table.bricks, table.tablets, table.write, table.read), (6, 2, 2, 2));
        assert_eq!(table.log_bytes, 6.0 * 64.0 * (1u64 << 30) as f64);
        // Two crashes of ten minutes: away for 3.8e-5 of the time, and two of three at once for 3 times its square.
        let away = 1200.0 / (365.25 * 86_400.0);
        assert!((table.away / away - 1.0).abs() < 1e-9);
        assert!((table.no_quorum / (3.0 * away * away) - 1.0).abs() < 1e-4, "{:e}", table.no_quorum);
        let recovered = 2.0 * picture.recovery.total / (365.25 * 86_400.0);
        assert!((table.no_owner / recovered - 1.0).abs() < 1e-9);
        assert!(table.no_owner > 100.0 * table.no_quorum);
        let text = report::text(&picture);
        for part in ["3 x DRAM", "3 x disk", "2 tablets for 100.0 GiB live", "nobody     waits for", "20 ms"]
        {
            assert!(text.contains(part), "no '{part}' in:\n{text}");
        }
        let own = text.lines().skip_while(|line| !line.contains("a quorum table beside"));
        assert_eq!(own.clone().count(), 20);
        assert_eq!(own.clone().find(|line| line.chars().count() > 80), None);
        let json = report::json(&picture);
        assert_eq!((&json["quorum"]["bricks"], &json["quorum"]["dram_factor"]), (&6.into(), &3.into()));

        // The data of the whole cluster, if none is given.
        let all = nine(&[]);
        assert_eq!(all.picture().unwrap().quorum.unwrap().bricks, 27);
        // A quorum of all bricks stops both with one: a get commits what it returns, and a put may ask for stamps first.
        for (option, which) in [("--write-quorum", "W"), ("--read-quorum", "R")] {
            let all_of_three = nine(&[option, "3"]);
            let picture = all_of_three.picture().unwrap();
            let table = picture.quorum.as_ref().unwrap();
            assert!((table.no_quorum / (3.0 * away) - 1.0).abs() < 1e-4, "{:e}", table.no_quorum);
            let text = report::text(&picture);
            let waits = format!("gets, puts of its keys wait until it is back: {which} = N");
            assert!(text.contains(&waits) && !text.contains("nobody     waits"), "{text}");
        }
        assert!(report::json(&plan(&["--servers", "9"]).picture().unwrap()).get("quorum").is_none());
    }

    /// Three hosts are enough for a quorum table; the ordinary one beside it has the replicas that three hosts can hold.
    // I1
    #[test]
    fn a_quorum_table_on_few_servers_is_planned_beside_fewer_replicas() {
        for (servers, replicas) in [("3", 2), ("2", 1), ("4", 3), ("9", 3)] {
            let plan = plan(&["--servers", servers, "--quorum", "3"]);
            let text = report::text(&plan.picture().unwrap());
            assert!(text.contains(&format!("beside R = {replicas}: N = 3")), "{text}");
        }
        assert!(refusal(&["--servers", "3", "--quorum", "3", "--replicas", "3"]).contains("need 4 servers"));
    }

    /// After a power cut a tablet is lost with all its bricks, and waits with fewer than a quorum of them.
    // I1
    #[test]
    fn losses_of_a_quorum_table_in_a_power_cut_are_those_of_its_groups() {
        let six = |failures: &str| {
            let plan = plan(&["--servers", "9", "--quorum", "3", "--data", "100GiB", "--failures", failures]);
            let table = plan.picture().unwrap().quorum.unwrap();
            (table.lost_after_power_cut, table.waits_after_power_cut)
        };
        assert_eq!(six("1"), (0.0, 0.0));
        let one = plan(&["--servers", "9", "--quorum", "3", "--data", "100GiB", "--failures", "1"]);
        let waits = one.picture().unwrap().quorum.unwrap().buffered_waits_after_power_cut;
        assert!((waits - 0.75).abs() < 1e-9, "one of two groups has it, taken for independent ones: {waits}");
        // Two of six are in one of two groups of three with 2 x 3 of 15 choices; taken for independent groups.
        let (lost, waits) = six("2");
        assert!(lost == 0.0 && (waits - (1.0 - 0.8f64.powi(2))).abs() < 1e-9, "{waits}");
        let (lost, _) = six("3");
        assert!((lost - (1.0 - 0.95f64.powi(2))).abs() < 1e-9, "{lost}");
        assert_eq!(six("6"), (1.0, 1.0));
    }

    #[test]
    fn every_description_has_a_text_and_a_json_without_holes() {
        for servers in ["2", "5", "100", "1000000"] {
            for placement in ["scatter", "copyset:3"] {
                for failing in ["--failures=1", "--failure-fraction=100%", "--failure-probability=0.5"] {
                    let arguments =
                        ["--servers", servers, "--replicas", "1", "--placement", placement, failing];
                    let plan = plan(&[&arguments[..], &["--quorum", "3"]].concat());
                    let picture = plan.picture().unwrap();
                    let (text, json) = (report::text(&picture), report::json(&picture).to_string());
                    let long = text.lines().find(|line| line.chars().count() > 80);
                    assert_eq!(long, None, "{arguments:?}");
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
