//! `bench log` on small logs: memory under a workload, and a sweep with three backups.

use crate::binary::{Directory, nobody, ramhold_at};

fn bench_log(arguments: &[&str]) -> crate::binary::Ran {
    ramhold_at(&nobody(), b"", &[&["--json", "bench", "log"], arguments].concat())
}

// C7
#[test]
fn a_workload_at_seven_tenths_is_never_refused_and_wastes_little_memory() {
    let told = bench_log(&["--workload", "W2", "--log", "16MiB", "--live", "9MiB"]).ok().json();
    assert_eq!(told["workload"], "W2");
    assert_eq!((&told["refused"], &told["refused_removes"]), (&0.into(), &0.into()), "{told}");
    assert_eq!(told["log_bytes"], 16 << 20, "{told}");
    let (live, resident) =
        (told["live_bytes"].as_f64().unwrap(), told["resident_bytes_worst"].as_f64().unwrap());
    let (worst, end) = (
        told["live_over_resident_worst"].as_f64().unwrap(),
        told["live_over_resident_end"].as_f64().unwrap(),
    );
    assert!((worst - live / resident).abs() < 1e-6, "{told}");
    // The resident bytes include the program itself, which takes a few megabytes.
    assert!(worst > 0.3, "{told}");
    assert!(worst <= end, "{told}");
    assert!(told["entries_moved"].as_u64().unwrap() > 0, "nothing was cleaned: {told}");
}

// C6, D1
#[test]
fn a_sweep_between_backups_sends_every_byte_three_times_and_leaves_no_files() {
    let directory = Directory::new();
    let arguments = [
        "--log",
        "8MiB",
        "--utilisation",
        "60",
        "--replicas",
        "3",
        "--levels",
        "both",
        "--write",
        "1",
        "--dir",
        directory.text(),
    ];
    let told = bench_log(&arguments).ok().json();
    assert_eq!(told.as_array().unwrap().len(), 2, "one and two levels: {told}");
    for run in told.as_array().unwrap() {
        assert_eq!((&run["refused"], &run["is_cut"]), (&0.into(), &false.into()), "{run}");
        assert!(run["entries_moved"].as_u64().unwrap() > 0, "nothing was cleaned: {run}");
        assert!(run["append_bytes_per_new_byte"].as_f64().unwrap() > 3.0, "{run}");
    }
    let count = |run: usize, what: &str| told[run][what].as_u64().unwrap();
    assert!(count(0, "combined_passes") > count(0, "compactions"), "one level: {told}");
    assert!(count(1, "compactions") > count(1, "combined_passes"), "two levels: {told}");
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn a_sweep_tells_what_the_model_predicts_for_uniform_keys() {
    let told =
        bench_log(&["--log", "16MiB", "--utilisation", "50", "--keys", "uniform,zipf", "--write", "1"]);
    let told = told.ok().json();
    let predicted = |run: usize| &told[run]["predicted_bytes_per_new_byte"];
    assert!(predicted(0).as_f64().unwrap() > 0.1, "{told}");
    assert!(predicted(1).is_null(), "{told}");
    let used = told[0]["utilisation_of_used"].as_f64().unwrap();
    assert!((0.45..0.8).contains(&used), "{told}");
}

#[test]
fn what_cannot_be_run_is_refused_in_one_line() {
    let failed = |arguments: &[&str]| bench_log(arguments).failed(2);
    assert!(failed(&["--workload", "W1", "--log", "16MiB", "--live", "17MiB"]).contains("do not fit"));
    assert!(failed(&["--workload", "W1", "--live", "100"]).contains("at least"));
    assert!(failed(&["--log", "1MiB"]).contains("--log must be between"));
    assert!(failed(&["--log", "2TiB", "--value-bytes", "10000"]).contains("available"));
    assert!(failed(&["--log", "8MiB", "--segment", "8MiB"]).contains("eight"));
    assert!(failed(&["--log", "8MiB", "--value-bytes", "1000000"]).contains("--value-bytes"));
    for arguments in [["--workload", "W9"], ["--replicas", "2"], ["--write", "0"], ["--segment", "3MiB"]] {
        assert_eq!(bench_log(&arguments).code, 2, "{arguments:?}");
    }
}
