//! Figures as people read them, and the lines of a plan.

use crate::screen::{WIDTH, wrap};

/// A label or a figure in front, then what it is.
#[derive(Default)]
pub struct Lines {
    pub text: String,
}

impl Lines {
    pub fn head(&mut self, title: &str) {
        self.text.push_str(&format!("\n{title}\n"));
    }

    pub fn add(&mut self, front: &str, rest: String) {
        let front = format!("  {front:<10} ");
        let is_long = front.chars().count() + rest.chars().count() > WIDTH;
        self.text.push_str(&if is_long { wrap(&front, &rest) } else { format!("{front}{rest}\n") });
    }
}

/// One with six zeros behind the point says less than an exponent.
pub fn probability_text(probability: f64) -> String {
    match probability {
        0.0 => "0".to_owned(),
        p if p < 0.001 => format!("{p:.1e}"),
        p if p < 0.999 => format!("{p:.3}"),
        p if p < 1.0 => format!("1 - {:.0e}", (1.0 - p).max(1e-16)),
        _ => "1".to_owned(),
    }
}

pub fn share_text(share: f64) -> String {
    let percent = share * 100.0;
    let text =
        if percent == 0.0 || percent >= 0.001 { format!("{percent:.3}") } else { format!("{percent:.1e}") };
    let text = if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} %")
}

pub fn time_text(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.1} ms", s * 1000.0),
        s if s < 600.0 => format!("{s:.2} s"),
        s => format!("{:.1} min", s / 60.0),
    }
}

pub fn count_text(count: f64) -> String {
    if count < 1e9 { format!("{count:.0}") } else { format!("{count:.1e}") }
}

pub fn rate_text(bytes: f64) -> String {
    if bytes < 1e9 { format!("{:.0} MB/s", bytes / 1e6) } else { format!("{:.1} GB/s", bytes / 1e9) }
}

pub fn bits_text(bytes: f64) -> String {
    format!("{:.1} Gbit/s", bytes * 8.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.0, 4.7e-24, 0.05, 0.9975, 0.9999, 1.0].map(probability_text),
            ["0", "4.7e-24", "0.050", "0.998", "1 - 1e-4", "1"]
        );
        assert_eq!([0.8, 0.01, 1.0, 0.0, 0.001].map(share_text), ["80 %", "1 %", "100 %", "0 %", "0.1 %"]);
        assert_eq!([0.0015, 1.3, 599.0, 3600.0].map(time_text), ["1.5 ms", "1.30 s", "599.00 s", "60.0 min"]);
    }
}
