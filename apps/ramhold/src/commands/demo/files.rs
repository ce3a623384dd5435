//! The files as objects: stored, and compared byte for byte.

use super::comparison::{Differences, Seen, hash, read_all};
use super::scene::Scene;
use super::tree::Tree;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::bytes_for_eyes;
use crate::size::bytes_text;
use crate::walk::read_object;
use ramhold_client::{Client, Operation, OperationId, RejectRules, TableId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Operations under way at once, and the bytes that they may hold.
const PIPELINE_COUNT: usize = 64;
const PIPELINE_BYTES: usize = 16 << 20;

/// One stored file.
pub struct Object {
    /// Its place in the tree.
    pub file: usize,
    /// Hash of its bytes as they were stored.
    pub hash: u64,
}

pub struct Imported {
    pub objects: Vec<Object>,
    pub bytes: u64,
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
