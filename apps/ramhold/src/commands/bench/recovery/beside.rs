//! Ramhold's recovery compared with Redis, as a table.

use super::asking::Read;
use super::redis::Measured;
use crate::output::Columns;
use serde_json::{Value, json};

/// All of one run, with the same objects, asked for in the same way.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    pub ramhold: Measured,
    pub restart: Measured,
    pub failover: Measured,
}

impl Beside {
    /// Ramhold's last key is wanted not later than that of a redis-server that starts again.
    fn verdict(&self) -> &'static str {
        if self.ramhold.read.last <= self.restart.read.last { "reached" } else { "falls short" }
    }

    fn ratio(&self, of: fn(&Read) -> std::time::Duration, other: &Measured) -> f64 {
        of(&self.ramhold.read).as_secs_f64() / of(&other.read).as_secs_f64()
    }

    pub fn text(&self, servers: u16, replicas: u8) -> String {
        let mut columns = Columns::new([
            "kill -9",
            "keys held",
            "half read after",
            "last read after",
            "Ramhold / it: half",
            "last",
        ]);
        let rows = [
            (format!("ramhold, one of {servers} servers, {replicas} replicas"), &self.ramhold),
            ("redis-server, started again from its append-only file".to_owned(), &self.restart),
            ("a master of a Redis cluster of 3 + 3, failover at defaults".to_owned(), &self.failover),
        ];
        for (name, measured) in rows {
            columns.row([
                name,
                measured.objects.to_string(),
                format!("{:.2} s", measured.read.half.as_secs_f64()),
                format!("{:.2} s", measured.read.last.as_secs_f64()),
                format!("{:.2} x", self.ratio(|read| read.half, measured)),
                format!("{:.2} x", self.ratio(|read| read.last, measured)),
            ]);
        }
        format!("{}wanted: the last key not later than redis-server's: {}\n", columns.text(), self.verdict())
    }

    pub fn json(&self) -> Value {
        let measured = |measured: &Measured| {
            json!({
                "objects": measured.objects,
                "half_seconds": measured.read.half.as_secs_f64(),
                "last_seconds": measured.read.last.as_secs_f64(),
                "of_half": self.ratio(|read| read.half, measured),
                "of_last": self.ratio(|read| read.last, measured),
            })
        };
        json!({
            "ramhold": measured(&self.ramhold),
            "redis_restart": measured(&self.restart),
            "redis_failover": measured(&self.failover),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn measured(objects: u64, half: u64, last: u64) -> Measured {
        let millis = Duration::from_millis;
        Measured { objects, read: Read { half: millis(half), last: millis(last) } }
    }

    // F11
    #[test]
    fn the_ratio_is_ramholds_time_by_the_others() {
        let mut beside = Beside {
            ramhold: measured(9, 2000, 2500),
            restart: measured(9, 4000, 5000),
            failover: measured(3, 20_000, 25_000),
        };
        let text = beside.text(6, 3);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("ramhold, one of 6 servers, 3 replicas"), "{text}");
        assert!(lines[2].ends_with("4.00 s           5.00 s           0.50 x              0.50 x"), "{text}");
        assert!(lines[3].contains("0.10 x"), "{text}");
        assert!(text.ends_with("reached\n"), "{text}");
        assert_eq!(beside.json()["redis_restart"]["of_last"], 0.5);
        beside.restart = measured(9, 1000, 1250);
        assert!(beside.text(6, 3).ends_with("falls short\n"));
    }
}
