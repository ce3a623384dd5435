//! The files as objects: stored, and compared byte for byte.

use super::scene::Scene;
use super::tree::Tree;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::bytes_for_eyes;
use crate::size::bytes_text;
use crate::walk::read_object;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_client::{Client, Operation, OperationId, Outcome, RejectRules, Reply, Status, TableId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Operations under way at once, and the bytes that they may hold.
const PIPELINE_COUNT: usize = 64;
const PIPELINE_BYTES: usize = 16 << 20;
/// More names than these are only counted.
const NAMED_COUNT: usize = 20;

/// One stored file.
pub struct Object {
    /// Its place in the tree.
    pub file: usize,
    /// Of its bytes as they were stored.
    pub hash: u64,
}

pub struct Imported {
    pub objects: Vec<Object>,
    pub bytes: u64,
}

pub fn hash(bytes: &[u8]) -> u64 {
    PlacementHasher::new(PlacementSeed(0)).hash(bytes).0
}

/// Stores every file of the tree.
pub fn import(scene: &Scene, client: &mut Client, table: TableId, tree: &Tree) -> Result<Imported, Failure> {
    let start = Instant::now();
    let mut imported = Imported { objects: Vec::with_capacity(tree.files.len()), bytes: 0 };
    let mut under_way: BTreeMap<OperationId, (usize, usize)> = BTreeMap::new();
    let mut held = 0;
    for (file, named) in tree.files.iter().enumerate() {
        interrupt::check()?;
        while under_way.len() >= PIPELINE_COUNT || held > PIPELINE_BYTES {
            held -= finish_one(client, &mut under_way, tree)?;
        }
        // A file that has disappeared or grown too large since it was chosen is left out.
        let Ok(value) = read_object(&named.path) else { continue };
        imported.objects.push(Object { file, hash: hash(&value) });
        imported.bytes += value.len() as u64;
        held += value.len();
        let bytes = value.len();
        let rules = RejectRules::default();
        let id =
            client.submit(Operation::Write { table, key: named.key.clone(), value, rules, expiry: None });
        under_way.insert(id, (file, bytes));
    }
    while !under_way.is_empty() {
        finish_one(client, &mut under_way, tree)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    scene.tell(&format!(
        "{} files stored, {} in {seconds:.1} s ({}/s)",
        imported.objects.len(),
        bytes_text(imported.bytes),
        bytes_text((imported.bytes as f64 / seconds) as u64)
    ));
    Ok(imported)
}

/// Waits for one write; how many bytes it held.
fn finish_one(
    client: &mut Client,
    under_way: &mut BTreeMap<OperationId, (usize, usize)>,
    tree: &Tree,
) -> Result<usize, Failure> {
    let (id, outcome) = client.wait_any().expect("operations are under way");
    let (file, bytes) = under_way.remove(&id).expect("only our own operations are under way");
    match ramhold_client::Error::check(outcome) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::from(error).about(&tree.files[file].path.display().to_string())),
    }
}

/// Things that are not as they should be.
#[derive(Default)]
pub struct Differences {
    checked: u64,
    /// Sentences that name them; the first few.
    named: Vec<String>,
    count: u64,
}

impl Differences {
    /// None yet, among `checked` objects.
    pub fn among(checked: usize) -> Differences {
        Differences { checked: checked as u64, ..Differences::default() }
    }

    pub fn add(&mut self, what: String) {
        self.count += 1;
        if self.named.len() < NAMED_COUNT {
            self.named.push(what);
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn tell(&self, scene: &Scene, when: &str) {
        if self.count == 0 {
            scene.tell(&format!("{} objects compared {when}: every one is right", self.checked));
            return;
        }
        scene.tell(&format!("{} of {} objects {when} are LOST OR WRONG:", self.count, self.checked));
        for name in &self.named {
            crate::output::show(&format!("            {name}"));
        }
        let more = self.count - self.named.len() as u64;
        if more > 0 {
            crate::output::show(&format!("            ... and {more} more"));
        }
    }
}

/// What a read of one key came to.
pub enum Seen {
    Value {
        version: u64,
        value: Vec<u8>,
    },
    Absent,
    /// No answer in time; why.
    Unreadable(String),
}

/// Reads many keys, some at a time, and gives each result to `judge` with the key's place in `keys`.
pub fn read_all<'a>(
    client: &mut Client,
    table: TableId,
    keys: impl Iterator<Item = &'a [u8]>,
    patience: Duration,
    mut judge: impl FnMut(usize, Seen),
) -> Result<(), Failure> {
    let mut under_way: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut take = |client: &mut Client, under_way: &mut BTreeMap<OperationId, usize>| {
        let (id, outcome) = client.wait_any().expect("operations are under way");
        judge(under_way.remove(&id).expect("only our own operations are under way"), seen(outcome));
    };
    for (index, key) in keys.enumerate() {
        interrupt::check()?;
        if under_way.len() >= PIPELINE_COUNT {
            take(client, &mut under_way);
        }
        let operation = Operation::Read { table, key: key.to_vec(), rules: RejectRules::default() };
        under_way.insert(client.submit_within(operation, patience), index);
    }
    while !under_way.is_empty() {
        take(client, &mut under_way);
    }
    Ok(())
}

fn seen(outcome: Outcome) -> Seen {
    match outcome {
        Outcome::Done(Reply::Read { version, value, .. }) => Seen::Value { version: version.raw(), value },
        Outcome::Refused { status: Status::NotFound, .. } => Seen::Absent,
        Outcome::Refused { status, detail, .. } => Seen::Unreadable(format!("{status} ({detail})")),
        Outcome::Unknown { detail } => Seen::Unreadable(detail),
        Outcome::Done(_) => Seen::Unreadable("the answer does not belong to the question".to_owned()),
    }
}

/// Compares every stored file with its object.
pub fn verify(
    scene: &Scene,
    client: &mut Client,
    table: TableId,
    tree: &Tree,
    imported: &Imported,
    patience: Duration,
) -> Result<Differences, Failure> {
    scene.tell("comparing every file with its object, byte for byte");
    let mut differences = Differences::among(imported.objects.len());
    let keys = imported.objects.iter().map(|object| &tree.files[object.file].key[..]);
    let judge = |index: usize, seen: Seen| {
        let object = &imported.objects[index];
        let file = &tree.files[object.file];
        let wrong = match seen {
            Seen::Value { value, .. } => match read_object(&file.path) {
                Ok(bytes) if bytes == value => None,
                // The file has changed since the import. Then the stored bytes count.
                Ok(bytes) if hash(&bytes) != object.hash && hash(&value) == object.hash => None,
                Err(_) if hash(&value) == object.hash => None,
                _ => Some("has other bytes".to_owned()),
            },
            Seen::Absent => Some("is gone".to_owned()),
            Seen::Unreadable(why) => Some(format!("cannot be read: {why}")),
        };
        if let Some(wrong) = wrong {
            differences.add(format!("files/{} {wrong}", bytes_for_eyes(&file.key)));
        }
    };
    read_all(client, table, keys, patience, judge)?;
    Ok(differences)
}
