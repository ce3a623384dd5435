//! Labels of servers in a network of small switches: BCube, and grids of mixed radix.
//!
//! A label has one digit for each level. The servers whose labels differ in the digit of one level alone share an edge
//! switch of that level, so they are *near*: one hop from each other. `BCube(n, k)` has `k + 1` levels of `n` digits; a
//! grid has a radix of its own for each level.
//!
//! MultiRing follows from this one relation. A server P is recovered by the servers near it (its recovery ring). Those
//! are fed by the servers that are near them and two hops from P (the backup rings):
//! `ring(P, R) = near(R) \ (near(P) + P)`.
//!
//! Invariants:
//! - near is symmetric, and nobody is near itself;
//! - lists are in the order of level and digit, so that all servers compute the same ones.
//!
//! Not here: which labels are taken, and by whom (topology); what is kept with whom (neighbourhoods). Catalogue:
//! H1, H2.
//! Source: RAMCUBE 2.2, 3.2, 3.3.

use ramhold_base::planted::{Defect, planted};
use ramhold_wire::topology::{LEVEL_COUNT_MAX, RADIX_MAX, Topology};
use std::fmt;
use std::str::FromStr;

/// Digits below this are written as one letter, `0` to `9` and `a` to `z`.
const LETTER_COUNT: u16 = 36;

/// Why text is no topology or no label of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelFault {
    /// The label has another number of digits than the topology has levels.
    DigitCount { digits: usize, levels: usize },
    /// A digit is no digit at all.
    NotADigit { text: String },
    /// A digit is not below the radix of its level.
    DigitTooHigh { digit: u16, level: usize, radix: u16 },
}

impl fmt::Display for LabelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelFault::DigitCount { digits, levels } => {
                write!(f, "it has {digits} digits, and the topology has {levels} levels")
            }
            LabelFault::NotADigit { text } => write!(f, "'{text}' is no digit"),
            LabelFault::DigitTooHigh { digit, level, radix } => {
                write!(f, "digit {digit} of level {level} must be below {radix}")
            }
        }
    }
}

/// The place of a server: one digit for each level, level 0 first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GridLabel(Vec<u16>);

impl GridLabel {
    pub fn level_count(&self) -> usize {
        self.0.len()
    }

    pub fn digit(&self, level: usize) -> u16 {
        self.0[level]
    }

    fn with(&self, level: usize, digit: u16) -> GridLabel {
        let mut digits = self.0.clone();
        digits[level] = digit;
        GridLabel(digits)
    }

    /// The levels on which two labels differ.
    pub fn levels_apart<'a>(&'a self, other: &'a GridLabel) -> impl Iterator<Item = usize> + 'a {
        (0..self.0.len()).filter(|level| self.0[*level] != other.0[*level])
    }

    /// The level of the switch that two servers share; none when they share no switch.
    pub fn shared_level(&self, other: &GridLabel) -> Option<usize> {
        let mut levels = self.levels_apart(other);
        levels.next().filter(|_| levels.next().is_none())
    }

    /// The rack: the servers on one switch of level 0. Its name is the label without its digit of level 0.
    pub fn rack(&self) -> &[u16] {
        &self.0[1..]
    }
}

/// An edge switch: its level, and the digits that its servers have in common, level 0 first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Switch {
    pub level: usize,
    rest: Vec<u16>,
}

/// A network of edge switches, by the number of digits of each level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    radices: Vec<u16>,
}

impl Grid {
    /// A network with these radices, level 0 first. `None`: too many or no levels, or a radix out of range.
    pub fn new(radices: Vec<u16>) -> Option<Grid> {
        let is_sound = (1..=LEVEL_COUNT_MAX).contains(&radices.len())
            && radices.iter().all(|radix| (2..=RADIX_MAX).contains(radix));
        is_sound.then_some(Grid { radices })
    }

    /// The network of a topology with levels.
    pub fn of(topology: &Topology) -> Option<Grid> {
        topology.radices().and_then(Grid::new)
    }

    pub fn level_count(&self) -> usize {
        self.radices.len()
    }

    pub fn radix(&self, level: usize) -> u16 {
        self.radices[level]
    }

    /// The number of places for servers. The largest networks have more than can be counted.
    pub fn server_count(&self) -> u64 {
        self.radices.iter().fold(1, |count: u64, radix| count.saturating_mul(u64::from(*radix)))
    }

    pub fn switch_count(&self) -> u64 {
        self.radices.iter().map(|radix| self.server_count() / u64::from(*radix)).sum()
    }

    /// Reads a label, the digit of the highest level first: `10`, or `1.0`. Where a
    /// digit may be above 35, only the second form is read.
    pub fn label(&self, text: &str) -> Result<GridLabel, LabelFault> {
        let mut digits: Vec<u16> = if text.contains('.') || !self.has_letters() {
            text.split('.').map(number).collect::<Result<_, _>>()?
        } else {
            text.chars().map(letter).collect::<Result<_, _>>()?
        };
        let levels = self.level_count();
        if digits.len() != levels {
            return Err(LabelFault::DigitCount { digits: digits.len(), levels });
        }
        digits.reverse();
        for (level, digit) in digits.iter().copied().enumerate() {
            let radix = self.radices[level];
            if digit >= radix {
                return Err(LabelFault::DigitTooHigh { digit, level, radix });
            }
        }
        Ok(GridLabel(digits))
    }

    /// The label as text. See `label`.
    pub fn name(&self, label: &GridLabel) -> String {
        self.text(&label.0)
    }

    /// A switch as text: `<1,0>` is the switch of level 1 of all servers whose other digits are `0`.
    pub fn switch_name(&self, switch: &Switch) -> String {
        format!("<{},{}>", switch.level, self.text(&switch.rest))
    }

    /// Whether each digit can be written as one letter.
    fn has_letters(&self) -> bool {
        self.radices.iter().all(|radix| *radix <= LETTER_COUNT)
    }

    /// Digits as text, those of the highest level first.
    fn text(&self, digits: &[u16]) -> String {
        if self.has_letters() {
            let letter = |digit: &u16| char::from_digit(u32::from(*digit), u32::from(LETTER_COUNT));
            return digits.iter().rev().map(|digit| letter(digit).expect("below the radix")).collect();
        }
        let digits: Vec<String> = digits.iter().rev().map(u16::to_string).collect();
        digits.join(".")
    }

    /// All places, in the order of their labels.
    pub fn labels(&self) -> impl Iterator<Item = GridLabel> + '_ {
        (0..self.server_count()).map(|mut place| {
            let mut digits = Vec::with_capacity(self.level_count());
            for radix in self.radices.iter().map(|radix| u64::from(*radix)) {
                digits.push(u16::try_from(place % radix).expect("below the radix"));
                place /= radix;
            }
            GridLabel(digits)
        })
    }

    /// The switch of a level to which a server is connected.
    pub fn switch(&self, label: &GridLabel, level: usize) -> Switch {
        let mut rest = label.0.clone();
        rest.remove(level);
        Switch { level, rest }
    }

    /// The other servers on the switch of one level.
    fn neighbours<'a>(&'a self, label: &'a GridLabel, level: usize) -> impl Iterator<Item = GridLabel> + 'a {
        let digits = (0..self.radices[level]).filter(move |digit| *digit != label.digit(level));
        let set = if planted(Defect::NearByWrongDigit) { self.level_count() - 1 - level } else { level };
        digits.map(move |digit| label.with(set, digit % self.radices[set]))
    }

    /// The servers that share an edge switch with a server: its recovery ring.
    pub fn near<'a>(&'a self, label: &'a GridLabel) -> impl Iterator<Item = GridLabel> + 'a {
        (0..self.level_count()).flat_map(move |level| self.neighbours(label, level))
    }

    /// The servers that are near `recoverer` and neither near `master` nor `master` itself: the backups that feed
    /// `recoverer` when it recovers `master`. Empty if the two are not near.
    pub fn ring(&self, master: &GridLabel, recoverer: &GridLabel) -> Vec<GridLabel> {
        let Some(shared) = master.shared_level(recoverer) else { return Vec::new() };
        let others = (0..self.level_count()).filter(|level| *level != shared);
        others.flat_map(|level| self.neighbours(recoverer, level).collect::<Vec<_>>()).collect()
    }

    /// All backups of a server, each once, in the order of their labels.
    pub fn backups(&self, master: &GridLabel) -> Vec<GridLabel> {
        let mut backups: Vec<GridLabel> =
            self.near(master).flat_map(|near| self.ring(master, &near)).collect();
        backups.sort_unstable_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
        backups.dedup();
        backups
    }

    /// The servers that a backup feeds when `master` is recovered: two, if it is a backup of `master` at all.
    pub fn recoverers(&self, master: &GridLabel, backup: &GridLabel) -> Vec<GridLabel> {
        if master.levels_apart(backup).count() != 2 {
            return Vec::new();
        }
        self.near(master).filter(|near| near.shared_level(backup).is_some()).collect()
    }

    /// The servers on a path that enters `to` through its switch of level `last`, both ends included.
    ///
    /// The path sets all other digits first, beginning at level `last + 1`, and the digit of `last` at the end. If that
    /// digit is right already while others are wrong, the path first steps aside by `detour` digits. Paths from one
    /// server with different `last` share neither a switch nor a server.
    pub fn route(&self, from: &GridLabel, to: &GridLabel, last: usize, detour: u16) -> Vec<GridLabel> {
        let levels = self.level_count();
        let mut path = vec![from.clone()];
        let mut at = from.clone();
        while at != *to {
            let mut others = (1..levels).map(|step| (last + step) % levels);
            let wrong = others.find(|level| at.digit(*level) != to.digit(*level));
            at = match wrong {
                None => at.with(last, to.digit(last)),
                Some(_) if at.digit(last) == to.digit(last) => {
                    at.with(last, (to.digit(last) + detour) % self.radices[last])
                }
                Some(level) => at.with(level, to.digit(level)),
            };
            path.push(at.clone());
        }
        path
    }
}

fn number(text: &str) -> Result<u16, LabelFault> {
    u16::from_str(text).map_err(|_| LabelFault::NotADigit { text: text.into() })
}

fn letter(letter: char) -> Result<u16, LabelFault> {
    let digit = letter.to_digit(u32::from(LETTER_COUNT)).and_then(|digit| u16::try_from(digit).ok());
    digit.filter(|_| !letter.is_ascii_uppercase()).ok_or(LabelFault::NotADigit { text: letter.into() })
}
