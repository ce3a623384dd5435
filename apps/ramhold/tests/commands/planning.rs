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

#[test]
fn a_description_that_makes_no_sense_is_wrong_usage() {
    let refused = plan(&["--servers", "3"]).failed(2);
    assert!(refused.contains("3 replicas need 4 servers"), "{refused}");
    let refused = plan(&["--servers", "9", "--failures", "10"]).failed(2);
    assert!(refused.contains("there are 9 servers"), "{refused}");
}
