//! Checks which crate may import which, and that the files of a crate do not import each other in circles.
//!
//! - Crates: the rules for folders below, and the table in ARCHITECTURE.md. The imports are read from the
//!   crates' manifests: a folder is a boundary, and roles never see each other.
//! - Files: no circle, except for the crates in `CIRCLES`. The rule is in `imports/circles.rs`.

mod circles;
mod modules;
mod tokens;

use crate::shell::{Failure, root};
use modules::Sources;
use std::fs;
use std::path::Path;

/// For each folder, the folders on which its crates may depend.
pub const FOLDERS: &[(&str, &[&str])] = &[
    ("core", &["core"]),
    ("io", &["core", "io"]),
    ("clients", &["core", "io"]),
    ("apps", &["core", "io", "clients"]),
    ("testing", &["core", "io", "clients"]),
    ("bench", &["core", "io", "clients", "bench"]),
    ("xtask", &[]),
];

/// Roles: each meets the others only in `wire`; only `node` may know several.
const ROLES: &[&str] = &["master", "backup", "coordinator", "client", "resp", "brick", "supervisor"];
const MAY_KNOW_ROLES: &[&str] = &["node", "resp"];

/// Single crates that a folder may import beyond its list, as (importing folder, folder, crate). The steps of
/// workloads, pure and without I/O, must be the same for `ramhold bench` and for the stores that it is
/// compared with. Figures are measured in the simulator.
const EXCEPTIONS: &[(&str, &str, &str)] = &[("apps", "bench", "workload"), ("bench", "testing", "world")];

/// Crates whose files still import each other in circles: the crate, the number of files in each circle (the
/// largest first), and the reason. A new or grown circle fails, and a vanished one must leave the list.
const CIRCLES: &[(&str, &[usize], &str)] = &[
    ("core/base", &[3], "the ways to make a checksum name the constants of the file that chooses one"),
    ("core/client", &[3], "the session owns parts that have methods of the session"),
    ("core/log", &[12], "the log owns parts that have methods of the log"),
    ("core/node", &[5], "the node owns parts that have methods of the node"),
    ("core/replication", &[3], "the replicator owns parts that name its settings"),
    ("core/shard", &[6], "the shard owns parts that have methods of the shard"),
    ("core/wire", &[9], "messages name each other's fields, and frames those with a checksum of their own"),
    ("io/runtime", &[6, 3], "the disk and the network own parts that have their methods"),
    (
        "testing/world",
        &[16, 6, 3, 2],
        "scenarios, faults and systems name each other; parts have their owner's methods",
    ),
];

/// Third-party crates that the pure core may use.
const CORE_FOREIGN: &[&str] = &["crc32c", "minicbor", "rapidhash", "proptest"];

pub fn check() -> Result<(), Failure> {
    let mut faults = Vec::new();
    let architecture = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&architecture)
        .map_err(|e| Failure(format!("cannot read {}: {e}", architecture.display())))?;
    let table = table(&text);
    for (folder, allowed) in FOLDERS {
        for (name, manifest) in manifests(folder)? {
            let place = if *folder == name { name.clone() } else { format!("{folder}/{name}") };
            let row = table.iter().find(|row| row.crates.contains(&place));
            if row.is_none() {
                faults.push(format!("{place} has no row in ARCHITECTURE.md"));
            }
            for dependency in dependencies(&manifest) {
                match place_of(&dependency)? {
                    None => {
                        if *folder == "core" && !CORE_FOREIGN.contains(&dependency.as_str()) {
                            faults
                                .push(format!("core/{name} uses {dependency}, which the pure core may not"));
                        }
                    }
                    Some((other_folder, other)) => {
                        let excepted = EXCEPTIONS.contains(&(*folder, &other_folder, &other));
                        if !excepted && !allowed.contains(&other_folder.as_str()) {
                            faults.push(format!("{folder}/{name} imports {other_folder}/{other}"));
                        }
                        if row.is_some_and(|row| !row.allows(&other_folder, &other)) {
                            faults.push(format!("{place} imports {other}, which its row does not allow"));
                        }
                        let knows_role = *folder == "core"
                            && ROLES.contains(&other.as_str())
                            && !MAY_KNOW_ROLES.contains(&name.as_str());
                        if knows_role {
                            faults.push(format!("core/{name} imports the role {other}; roles meet in wire"));
                        }
                    }
                }
            }
        }
    }
    faults.extend(circle_faults()?);
    if faults.is_empty() {
        println!("=== import rules: ok");
        return Ok(());
    }
    Err(Failure(format!("import rules are broken (see ARCHITECTURE.md):\n  {}", faults.join("\n  "))))
}

/// The import circles that are not as listed.
fn circle_faults() -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let mut places = Vec::new();
    for (folder, _) in FOLDERS {
        for (name, _) in manifests(folder)? {
            let place = if *folder == name { name } else { format!("{folder}/{name}") };
            let mut sources = Sources::new();
            read_sources(&root().join(&place).join("src"), "", &mut sources)?;
            let listed = CIRCLES.iter().find(|(listed, ..)| *listed == place);
            let sizes = listed.map_or(&[][..], |(_, sizes, _)| sizes);
            faults.extend(circles::faults(&place, &circles::circles(&sources), sizes));
            places.push(place);
        }
    }
    let unknown = CIRCLES.iter().filter(|(place, ..)| !places.iter().any(|known| known == place));
    faults.extend(unknown.map(|(place, ..)| format!("{place} in CIRCLES is no crate")));
    Ok(faults)
}

/// Reads all Rust sources of a folder, by their paths below the crate's `src`.
fn read_sources(folder: &Path, below: &str, sources: &mut Sources) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure(format!("cannot read {}: {e}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read_sources(&path, &format!("{below}{name}/"), sources)?;
        } else if name.ends_with(".rs") {
            sources.insert(format!("{below}{name}"), fs::read_to_string(&path).map_err(failed)?);
        }
    }
    Ok(())
}

/// One row of the code map in ARCHITECTURE.md.
struct Row {
    crates: Vec<String>,
    /// `core` (a folder), `core/client` (a crate), `base` (a crate of core or io), or `everything above`.
    may_import: Vec<String>,
}

impl Row {
    fn allows(&self, folder: &str, name: &str) -> bool {
        let place = format!("{folder}/{name}");
        self.may_import.iter().any(|it| {
            it == folder
                || *it == place
                || (it == name && ["core", "io"].contains(&folder))
                || (it == "all of core" && folder == "core")
                || (it == "everything above" && ["core", "io", "clients"].contains(&folder))
        })
    }
}

/// The rows of the code map: `| crates in backquotes | what | may import, with commas; more text |`.
fn table(text: &str) -> Vec<Row> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| folder | what | may import |"));
    let rows = rows.take_while(|line| line.starts_with('|')).filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (first, last) = (cells.first()?, cells.last()?);
        let crates = first.split('`').skip(1).step_by(2).map(str::to_string).collect();
        let may_import = last.split(';').next()?.split(',').map(|it| it.trim().to_string()).collect();
        Some(Row { crates, may_import })
    })
    .collect()
}

/// The crates of a folder: (folder name, manifest text).
fn manifests(folder: &str) -> Result<Vec<(String, String)>, Failure> {
    let path = root().join(folder);
    let read = |path: &std::path::Path| fs::read_to_string(path.join("Cargo.toml")).ok();
    if let Some(own) = read(&path) {
        return Ok(vec![(folder.to_string(), own)]);
    }
    let entries = fs::read_dir(&path).map_err(|e| Failure(format!("cannot read {}: {e}", path.display())))?;
    let mut found: Vec<(String, String)> = entries
        .flatten()
        .filter_map(|e| Some((e.file_name().to_string_lossy().into_owned(), read(&e.path())?)))
        .collect();
    found.sort();
    Ok(found)
}

/// Names in the sections of normal dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            names.push(line[..end].to_string());
        }
    }
    names
}

/// The folder and name of a crate of this workspace; none for other crates.
fn place_of(dependency: &str) -> Result<Option<(String, String)>, Failure> {
    if !dependency.starts_with("ramhold-") {
        return Ok(None);
    }
    for (folder, _) in FOLDERS {
        for (name, manifest) in manifests(folder)? {
            if manifest.contains(&format!("name = \"{dependency}\"\n")) {
                return Ok(Some(((*folder).to_string(), name)));
            }
        }
    }
    Err(Failure(format!("{dependency} is no crate of this workspace")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_code_map_are_read() {
        let text = "# A\n| folder | what | may import |\n|---|---|---|\n| `core/b` | a role | base, wire |\n\
                    | `bench/x`, `bench/y` | figures | core, testing/world; programs by path |\n\n| `no` | row | base |\n";
        let rows = table(text);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].crates, ["bench/x", "bench/y"]);
        assert!(rows[0].allows("core", "base") && rows[0].allows("core", "wire"));
        assert!(!rows[0].allows("core", "log") && !rows[0].allows("testing", "base"));
        assert!(rows[1].allows("core", "log") && rows[1].allows("testing", "world"));
        assert!(!rows[1].allows("testing", "cluster") && !rows[1].allows("programs", "path"));
    }

    #[test]
    fn dependencies_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nramhold-base.workspace = true\nserde = { a = 1 }\n\
                        # no\n[dev-dependencies]\nproptest.workspace = true\n";
        assert_eq!(dependencies(manifest), ["ramhold-base", "serde"]);
    }
}
