//! The longest common subsequence of two strings.

use crate::command::{Command, Flags, KeyPlaces, Run};
use crate::parse::integer;
use crate::{Call, Fault, Reply, Stop};

/// Lengths that are kept at once, of 4 bytes each: 16 MiB. This bounds the memory, and the time for which the
/// server does nothing else.
const CELL_COUNT_MAX: usize = 4 * 1024 * 1024;

pub const LCS: Command = Command {
    name: "lcs",
    arity: -3,
    flags: Flags::READONLY,
    keys: KeyPlaces::TWO,
    access: &["RO access"],
    group: "string",
    since: "7.0.0",
    complexity: "O(N*M) with N the bytes of the first string and M those of the second",
    usage: "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
    summary: "Computes the longest row of bytes that two strings share in the same order, gaps allowed.",
    note: "Keeps at most 4,194,304 lengths (Redis: 134,217,728), the product of both strings' bytes, each plus one.",
    run: Run::Keys(lcs),
    ..Command::BASE
};

#[derive(Default)]
struct Options {
    lengths_only: bool,
    places: bool,
    match_length_min: usize,
    match_lengths: bool,
}

fn options(words: &[&[u8]]) -> Result<Options, Fault> {
    let mut options = Options::default();
    let mut rest = words;
    while let [word, more @ ..] = rest {
        rest = more;
        match (&word.to_ascii_lowercase()[..], more) {
            (b"len", _) => options.lengths_only = true,
            (b"idx", _) => options.places = true,
            (b"withmatchlen", _) => options.match_lengths = true,
            (b"minmatchlen", [text, more @ ..]) => {
                let length = integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
                options.match_length_min = length.max(0) as usize;
                rest = more;
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    if options.places && options.lengths_only {
        return Err(Fault::fixed("ERR If you want both the length and indexes, please just use IDX."));
    }
    Ok(options)
}

fn lcs(call: &mut Call<'_>) -> Result<(), Stop> {
    call.need(&call.args[1..3])?;
    let options = options(&call.args[3..])?;
    let first = call.get(call.args[1])?.map_or(Vec::new(), |object| object.value.clone());
    let second = call.keys.get(call.db, call.args[2])?.map_or(&[][..], |object| &object.value);
    let lengths = Lengths::of(&first, second)?;
    if options.lengths_only {
        call.reply.integer(lengths.at(first.len(), second.len()).into());
        return Ok(());
    }
    let (common, matches) = trace(&first, second, &lengths);
    if !options.places {
        call.reply.bulk(&common);
        return Ok(());
    }
    let wanted = |found: &&Match| found.length >= options.match_length_min;
    call.reply.map(2);
    call.reply.bulk(b"matches");
    call.reply.array(matches.iter().filter(wanted).count());
    for found in matches.iter().filter(wanted) {
        call.reply.array(2 + usize::from(options.match_lengths));
        found.write(&mut call.reply);
        if options.match_lengths {
            call.reply.integer(found.length as i64);
        }
    }
    call.reply.bulk(b"len");
    call.reply.integer(common.len() as i64);
    Ok(())
}

/// For every beginning of one string and every beginning of the other, the length of their common
/// subsequence.
struct Lengths {
    cells: Vec<u32>,
    row_cells: usize,
}

impl Lengths {
    fn of(first: &[u8], second: &[u8]) -> Result<Lengths, Fault> {
        let row_cells = second.len() + 1;
        let cell_count = (first.len() + 1) * row_cells;
        if cell_count > CELL_COUNT_MAX {
            return Err(Fault::fixed(
                "ERR Insufficient memory, transient memory for LCS exceeds 16777216 bytes",
            ));
        }
        let mut cells = vec![0; cell_count];
        for (index, byte) in first.iter().enumerate() {
            let (before, row) = cells[index * row_cells..(index + 2) * row_cells].split_at_mut(row_cells);
            for (column, other) in second.iter().enumerate() {
                row[column + 1] =
                    if byte == other { before[column] + 1 } else { before[column + 1].max(row[column]) };
            }
        }
        Ok(Lengths { cells, row_cells })
    }

    fn at(&self, first_bytes: usize, second_bytes: usize) -> u32 {
        self.cells[first_bytes * self.row_cells + second_bytes]
    }
}

/// A part that both strings have in common.
struct Match {
    first_start: usize,
    second_start: usize,
    length: usize,
}

impl Match {
    /// Writes its places in both strings.
    fn write(&self, reply: &mut Reply<'_>) {
        for start in [self.first_start, self.second_start] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + self.length - 1) as i64);
        }
    }
}

/// The common subsequence, and where it lies in both strings, from the end on.
fn trace(first: &[u8], second: &[u8], lengths: &Lengths) -> (Vec<u8>, Vec<Match>) {
    let (mut common, mut matches) = (Vec::new(), Vec::<Match>::new());
    let (mut at, mut other) = (first.len(), second.len());
    let mut goes_on = false;
    while at > 0 && other > 0 {
        if first[at - 1] == second[other - 1] {
            (at, other) = (at - 1, other - 1);
            common.push(first[at]);
            match matches.last_mut() {
                Some(found) if goes_on => {
                    (found.first_start, found.second_start) = (at, other);
                    found.length += 1;
                }
                _ => matches.push(Match { first_start: at, second_start: other, length: 1 }),
            }
            goes_on = true;
        } else {
            if lengths.at(at - 1, other) > lengths.at(at, other - 1) {
                at -= 1;
            } else {
                other -= 1;
            }
            goes_on = false;
        }
    }
    common.reverse();
    (common, matches)
}
