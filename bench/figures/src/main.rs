mod charge;
mod costs;
mod loader;
mod profile;
mod scale;
mod stage;

use stage::{Choice, FINE, Plan};

fn main() {
    let plan = Plan {
        profile: profile::SOSP11_DISK,
        scale: FINE,
        masters: 20,
        backups: 120,
        together: false,
        data: 11.7e9,
        value_bytes: 1024,
        replicas: 3,
        partition_max: None,
        choice: Choice::ReadTime,
        slowest: 1.0,
        seed: 1,
    };
    let measured = plan.measure();
    println!("{:?} {:?} {:?} {} {:?}", measured.detection, measured.recovery, measured.wall, measured.events, measured.steps);
    println!("{} {} complete {}", measured.bytes, measured.partitions, measured.complete_millis);
    for part in &measured.parts { println!("{part:?}"); }
}
