//! The load of a tablet: questions of sessions in a second, averaged.
//!
//! Not here: who is told (`load_report`). Catalogue: I7. Source: DSTORE04 8.1 (the average's weight of a half).

/// Questions about a tablet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Since the last sample.
    pub asked: u64,
    /// In a thousand seconds.
    pub average: u64,
}

impl Load {
    pub fn sample(&mut self, millis: u64) {
        let rate = std::mem::take(&mut self.asked).saturating_mul(1_000_000) / millis.max(1);
        self.average = self.average / 2 + rate / 2;
    }

    /// The tablet is cut: each part is taken to have half of it.
    pub fn halve(&mut self) -> Load {
        *self = Load { asked: self.asked / 2, average: self.average / 2 };
        *self
    }

    /// Two tablets become one.
    pub fn add(&mut self, other: Load) {
        *self = Load { asked: self.asked + other.asked, average: self.average + other.average };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I7: each second counts half of the next one.
    #[test]
    fn a_load_is_an_average_that_forgets() {
        let mut load = Load { asked: 8000, average: 0 };
        load.sample(1000);
        assert_eq!(load.average, 4_000_000);
        load.asked = 8000;
        load.sample(1000);
        load.asked = 8000;
        load.sample(1000);
        assert_eq!(load.average, 7_000_000);
        load.asked = 4000;
        load.sample(2000);
        assert_eq!(load.average, 4_500_000, "half as many, over twice the time");
        let half = load.halve();
        load.add(half);
        assert_eq!(load.average, 4_500_000);
    }
}
