//! Chooses the files that the demo stores.

use crate::failure::Failure;
use crate::walk::{Found, Walk, read_object};
use std::path::{Path, PathBuf};

const FILE_COUNT_MAX: usize = 20_000;
const BYTES_MAX: u64 = 300 << 20;
/// With fewer the demo would look at a toy; then files that every machine has are added.
const FILE_COUNT_MIN: usize = 10_000;
const TOP_UP: &str = "/usr/share";

/// Files in the order of their paths, each with the key that it gets.
pub struct Tree {
    pub files: Vec<TreeFile>,
    pub bytes: u64,
    pub roots: Vec<PathBuf>,
}

pub struct TreeFile {
    pub path: PathBuf,
    pub key: Vec<u8>,
}

impl Tree {
    pub fn choose(named: Option<&Path>) -> Result<Tree, Failure> {
        let mut tree = Tree { files: Vec::new(), bytes: 0, roots: Vec::new() };
        if let Some(dir) = named {
            tree.add(dir)?;
        } else {
            let sources = cargo_home().map(|home| home.join("registry/src")).filter(|dir| dir.is_dir());
            if let Some(dir) = sources {
                tree.add(&dir)?;
            }
            if tree.files.len() < FILE_COUNT_MIN && Path::new(TOP_UP).is_dir() {
                tree.add(Path::new(TOP_UP))?;
            }
        }
        if tree.files.is_empty() {
            return Err(Failure::usage("there are no files to store; name a directory with --dir"));
        }
        Ok(tree)
    }

    fn add(&mut self, root: &Path) -> Result<(), Failure> {
        let number = self.roots.len();
        for found in Walk::new(root).map_err(|error| Failure::local(root, &error))? {
            let Found::File { path, key } = found else { continue };
            // A file that cannot be read, or is too large for an object, is left out.
            let Ok(value) = read_object(&path) else { continue };
            if self.files.len() >= FILE_COUNT_MAX || self.bytes + value.len() as u64 > BYTES_MAX {
                break;
            }
            self.bytes += value.len() as u64;
            self.files.push(TreeFile { path, key: [format!("{number}/").as_bytes(), &key].concat() });
        }
        self.roots.push(root.to_owned());
        Ok(())
    }

    pub fn roots_text(&self) -> String {
        self.roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(" and ")
    }
}

fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_tree_is_taken_whole_and_alone() {
        let dir = std::env::temp_dir().join(format!("ramhold-tree-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("b")).unwrap();
        std::fs::write(dir.join("b/2"), "two").unwrap();
        std::fs::write(dir.join("a"), "one").unwrap();
        let tree = Tree::choose(Some(&dir)).unwrap();
        let keys: Vec<_> = tree.files.iter().map(|file| file.key.clone()).collect();
        assert_eq!(keys, [b"0/a".to_vec(), b"0/b/2".to_vec()]);
        assert_eq!(tree.bytes, 6);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_empty_tree_is_refused() {
        let dir = std::env::temp_dir().join(format!("ramhold-empty-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(Tree::choose(Some(&dir)).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
