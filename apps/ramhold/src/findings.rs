//! Findings: what an operator should know of the cluster, how grave it is, and what to do about it.
//!
//! Not here: which findings there are (`commands::status`, `commands::bricks`).

/// How grave it is, rising.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// Good to know; nothing is wrong.
    Note,
    /// The cluster mends it by itself.
    Recovering,
    /// Everything is served, but the next failure may be worse.
    Degraded,
    /// Something is lost, or not served, or refused until somebody acts.
    Critical,
}

impl Grade {
    /// The word of a finding.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Note => "note",
            Grade::Recovering => "recovering",
            Grade::Degraded => "degraded",
            Grade::Critical => "critical",
        }
    }

    /// The word for everything, if this is the gravest finding.
    pub fn verdict(self) -> &'static str {
        match self {
            Grade::Note => "healthy",
            Grade::Recovering | Grade::Degraded | Grade::Critical => self.name(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finding {
    pub grade: Grade,
    pub what: String,
    /// The way out. Empty: nothing.
    pub action: String,
}

pub fn finding(grade: Grade, what: impl Into<String>, action: impl Into<String>) -> Finding {
    Finding { grade, what: what.into(), action: action.into() }
}

/// The gravest grade of all.
pub fn gravest(findings: &[Finding]) -> Grade {
    findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Note)
}

/// Names with commas, and `and` before the last one.
pub fn listed(names: impl IntoIterator<Item = impl ToString>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}
