//! The processor time that this machine's host took away during a measurement.

/// Processor time since the start of the machine, in ticks, over all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    steal: u64,
    total: u64,
}

impl Times {
    /// `None` where the kernel does not tell.
    pub fn now() -> Option<Times> {
        parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }
}

/// The first line: `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guests are within user.
fn parse(stat: &str) -> Option<Times> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Option<Vec<u64>> = line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
    let fields = fields?;
    Some(Times { steal: *fields.get(7)?, total: fields.iter().sum() })
}

/// Stolen time in percent of all.
pub fn steal_percent(before: Option<Times>, after: Option<Times>) -> Option<f64> {
    let (before, after) = (before?, after?);
    let total = after.total.checked_sub(before.total).filter(|total| *total > 0)?;
    Some(100.0 * after.steal.saturating_sub(before.steal) as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let before = parse("cpu  100 0 50 800 10 5 5 30 7 0\ncpu0 1 2\n");
        let after = parse("cpu  150 0 50 800 10 5 5 80 7 0\n");
        assert_eq!(before, Some(Times { steal: 30, total: 1000 }));
        assert_eq!(steal_percent(before, after), Some(50.0));
        assert_eq!(steal_percent(before, before), None);
        assert_eq!(parse("intr 5"), None);
        assert_eq!(parse("cpu  1 2 3"), None);
    }
}
