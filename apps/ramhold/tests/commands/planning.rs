//! `plan`: contacts no process, prints text and JSON, refuses impossible descriptions.

use crate::binary::{Ran, nobody, ramhold_at};

fn plan(arguments: &[&str]) -> Ran {
    ramhold_at(&nobody(), b"", &[&["plan"], arguments].concat())
}

// D4, O4
#[test]
fn a_plan_is_told_without_any_cluster() {
    let arguments = ["--servers", "1000", "--placement", "copyset", "--scatter-width", "8", "--json"];
    let told = plan(&arguments).ok().json();
    assert_eq!(told["placement"], "copyset:2", "{told}");
    assert_eq!(told["data_loss"]["scatter_width"], 8, "{told}");
    assert_eq!(told["copies"]["disk_bytes"], 3000 * (64u64 << 30), "{told}");
    let probability = told["data_loss"]["after_power_cut"].as_f64().unwrap();
    assert!((1e-3..2e-3).contains(&probability), "{told}");
    assert!(told["recovery_seconds"]["total"].as_f64().unwrap() > 1.3, "{told}");
    let text = plan(&["--servers", "1000", "--profile", "tut15"]).ok().text();
    for part in ["tut15: network 24.0 Gbit/s", "after a power cut 10 servers do not return", "bounded by"] {
        assert!(text.contains(part), "{text}");
    }
}

// H2, H3
#[test]
fn a_network_of_switches_is_planned_without_any_cluster() {
    let of = |placement| {
        let arguments = ["--topology", "bcube:4,1", "--failures", "4", "--placement", placement, "--json"];
        plan(&arguments).ok().json()
    };
    let (rings, scatter) = (of("multiring"), of("scatter"));
    assert_eq!((&rings["servers"], &rings["network"]["feeders"]), (&16.into(), &9.into()), "{rings}");
    assert_eq!(rings["network"]["recovery_fetched"]["far_bytes"], 0.0, "{rings}");
    assert!(scatter["network"]["recovery_fetched"]["far_bytes"].as_f64().unwrap() > 1e9, "{scatter}");
    let lost = |told: &serde_json::Value| told["data_loss"]["at_once"].as_f64().unwrap();
    assert!(lost(&rings) < 0.05 && lost(&scatter) > 0.9, "{rings}{scatter}");
    let refused = plan(&["--topology", "bcube:4,0", "--placement", "multiring"]).failed(2);
    assert!(refused.contains("two levels or more"), "{refused}");
}

#[test]
fn a_description_that_makes_no_sense_is_wrong_usage() {
    let refused = plan(&["--servers", "3"]).failed(2);
    assert!(refused.contains("3 replicas need 4 servers"), "{refused}");
    let refused = plan(&["--servers", "9", "--failures", "10"]).failed(2);
    assert!(refused.contains("there are 9 servers"), "{refused}");
}
