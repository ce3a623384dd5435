//! The modules of one crate: their names, and which file defines an item that a path names.
//!
//! A path is followed through `use` and `pub use` to the file that defines the item. Names from other crates
//! lead nowhere. Methods are not seen: they are not named by a path.

use super::tokens::{self, Token, group_end};
use std::collections::{BTreeMap, BTreeSet};

/// Deeper chains of `use` than this are a circle of names.
const HOP_COUNT_MAX: usize = 32;

/// One crate's sources: the text of each file by its path below `src`.
pub type Sources = BTreeMap<String, String>;

/// All modules that are reachable from the crate's roots.
#[derive(Default)]
pub struct Modules {
    modules: Vec<Module>,
    /// Macros by name, with the module that defines each. An exported one is named as an item of the root.
    macros: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    root: usize,
    children: BTreeMap<String, usize>,
    /// Names that are defined here.
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths of two or more names, outside of `use`.
    paths: BTreeSet<Vec<String>>,
    /// All names outside of `use`.
    words: BTreeSet<String>,
}

/// One name that a `use` brings in; `*` for all.
struct Use {
    name: String,
    path: Vec<String>,
    reach: Reach,
}

/// How far a name reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Module,
    Beyond,
}

#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// An item that this module defines.
    ItemOf(usize),
}

impl Modules {
    /// Reads `main.rs`, `lib.rs` and `bin/*.rs` with all modules that they declare.
    pub fn read(sources: &Sources) -> Modules {
        let mut all = Modules::default();
        for (path, text) in sources {
            let is_program = path.strip_prefix("bin/").is_some_and(|name| !name.contains('/'));
            if ["main.rs", "lib.rs"].contains(&path.as_str()) || is_program {
                let root = all.modules.len();
                let folder = if is_program { "bin/" } else { "" };
                all.modules.push(Module { file: path.clone(), root, ..Module::default() });
                all.fill(root, &tokens::code(text), folder, sources);
            }
        }
        all
    }

    /// For each file, the other files that its code imports from.
    pub fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let to = imports.entry(module.file.clone()).or_default();
            let front_door = |it: &&Use| it.reach == Reach::Module || module.words.contains(&it.name);
            let named = module.uses.iter().filter(front_door).filter(|it| it.name != "*");
            let paths = named.map(|it| &it.path).chain(&module.paths);
            let mut found: Vec<Found> = paths.filter_map(|path| self.resolve(index, path, 0)).collect();
            for glob in module.uses.iter().filter(|it| it.name == "*" && it.reach == Reach::Module) {
                if let Some(Found::Module(from)) = self.resolve(index, &glob.path, 0) {
                    found.extend(module.words.iter().filter_map(|word| self.find(from, word, 0)));
                }
            }
            // A module's name alone is no import: what is used of it has a path of its own.
            to.extend(found.into_iter().filter_map(|found| match found {
                Found::Module(_) => None,
                Found::ItemOf(owner) => Some(self.modules[owner].file.clone()),
            }));
            to.remove(&module.file);
        }
        imports
    }

    /// Follows a path, seen from a module.
    fn resolve(&self, from: usize, path: &[String], hops: usize) -> Option<Found> {
        let mut names = path.iter();
        let first = names.next()?;
        let mut place = match first.as_str() {
            "crate" => Found::Module(self.modules[from].root),
            "self" => Found::Module(from),
            "super" => Found::Module(self.modules[from].parent?),
            name => self.find(from, name, hops + 1)?,
        };
        for name in names {
            place = match place {
                Found::Module(module) if name == "super" => Found::Module(self.modules[module].parent?),
                Found::Module(module) if name == "self" => Found::Module(module),
                Found::Module(module) => self.find(module, name, hops + 1)?,
                // The rest is a variant, a constant or a function of the item.
                Found::ItemOf(module) => return Some(Found::ItemOf(module)),
            };
        }
        Some(place)
    }

    /// Looks up a name inside a module.
    fn find(&self, module: usize, name: &str, hops: usize) -> Option<Found> {
        if hops > HOP_COUNT_MAX {
            return None;
        }
        let own = &self.modules[module];
        if let Some(child) = own.children.get(name) {
            return Some(Found::Module(*child));
        }
        if own.items.contains(name) {
            return Some(Found::ItemOf(module));
        }
        if let Some(definition) = self.macros.get(name).filter(|_| own.root == module) {
            return Some(Found::ItemOf(*definition));
        }
        let named = own.uses.iter().filter(|it| it.name == name && it.path != [name]);
        let globs = own.uses.iter().filter(|it| it.name == "*");
        let named = named.filter_map(|it| self.resolve(module, &it.path, hops + 1)).next();
        named.or_else(|| {
            let mut from = globs.filter_map(|it| self.resolve(module, &it.path, hops + 1));
            from.find_map(|found| match found {
                Found::Module(from) if from != module => self.find(from, name, hops + 1),
                Found::Module(_) | Found::ItemOf(_) => None,
            })
        })
    }

    /// Reads the body of a module whose own modules are in `folder`.
    fn fill(&mut self, module: usize, tokens: &[Token], folder: &str, sources: &Sources) {
        let mut index = 0;
        let mut depth = 0_u32;
        while let Some(token) = tokens.get(index) {
            index = match (token.word(), tokens.get(index + 1)) {
                (Some("use"), Some(next)) if !next.is('<') => self.take_use(module, tokens, index),
                (Some("mod"), Some(Token::Word(name))) => {
                    self.take_module(module, name, &tokens[index + 2..], folder, sources);
                    let is_inside = tokens.get(index + 2).is_some_and(|it| it.is('{'));
                    if is_inside { group_end(tokens, index + 2) } else { index + 2 }
                }
                (Some("macro_rules"), _) => {
                    let name = tokens.get(index + 2).and_then(Token::word).unwrap_or_default();
                    self.modules[module].items.insert(name.to_owned());
                    self.macros.insert(name.to_owned(), module);
                    index + 1
                }
                (Some(word), next) => {
                    self.take_definition(module, word, next.and_then(Token::word), depth);
                    self.take_name(module, tokens, index);
                    index + 1
                }
                (None, _) => {
                    match token {
                        Token::Sign('{') => depth += 1,
                        Token::Sign('}') => depth = depth.saturating_sub(1),
                        Token::Word(_) | Token::Path | Token::Sign(_) => {}
                    }
                    index + 1
                }
            }
        }
    }

    /// Takes the `use` at `index`; returns where it ends.
    fn take_use(&mut self, module: usize, tokens: &[Token], index: usize) -> usize {
        let end = index + tokens[index..].iter().take_while(|it| !it.is(';')).count();
        self.modules[module].uses.extend(uses(&tokens[index + 1..end], reach(&tokens[..index])));
        end
    }

    /// Takes `mod name`, with the body that follows or with a file of its own.
    fn take_module(&mut self, parent: usize, name: &str, rest: &[Token], folder: &str, sources: &Sources) {
        let below = format!("{folder}{name}/");
        let own = &self.modules[parent];
        let (root, mut file) = (own.root, own.file.clone());
        let mut body: Vec<Token> = Vec::new();
        if rest.first().is_some_and(|it| it.is('{')) {
            body.extend_from_slice(&rest[1..group_end(rest, 0) - 1]);
        } else {
            let places = [format!("{folder}{name}.rs"), format!("{below}mod.rs")];
            if let Some((path, text)) = places.iter().find_map(|it| sources.get_key_value(it)) {
                file = path.clone();
                body = tokens::code(text);
            }
        }
        let child = self.modules.len();
        self.modules.push(Module { file, parent: Some(parent), root, ..Module::default() });
        self.modules[parent].children.insert(name.to_owned(), child);
        self.fill(child, &body, &below, sources);
    }

    /// Takes the name of an item if a definition outside of all braces begins with this keyword.
    fn take_definition(&mut self, module: usize, keyword: &str, name: Option<&str>, depth: u32) {
        const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];
        // In `const fn name` and `static mut NAME` the name comes later.
        const NO_NAMES: [&str; 6] = ["fn", "mut", "unsafe", "async", "extern", "_"];
        if let Some(name) = name.filter(|name| depth == 0 && !NO_NAMES.contains(name))
            && (KEYWORDS.contains(&keyword) || keyword == "mut")
        {
            self.modules[module].items.insert(name.to_owned());
        }
    }

    /// Takes the name at `index`, and the path that begins with it.
    fn take_name(&mut self, module: usize, tokens: &[Token], index: usize) {
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        let is_method = before.is_some_and(|it| it.is('.'));
        if is_method || before == Some(&Token::Path) {
            return;
        }
        let path = path(&tokens[index..]);
        let own = &mut self.modules[module];
        own.words.extend(path.first().cloned());
        if path.len() > 1 {
            own.paths.insert(path);
        }
    }
}

/// The path that begins here.
fn path(tokens: &[Token]) -> Vec<String> {
    let mut path = Vec::new();
    for pair in tokens.chunks(2) {
        let Some(Token::Word(word)) = pair.first() else { break };
        path.push(word.clone());
        if pair.get(1) != Some(&Token::Path) {
            break;
        }
    }
    path
}

/// The reach of the item that these tokens precede: `pub` and `pub(...)` reach beyond the module.
fn reach(before: &[Token]) -> Reach {
    match before {
        [.., Token::Word(word)] if word == "pub" => Reach::Beyond,
        [.., Token::Word(word), Token::Sign('('), _, Token::Sign(')')] if word == "pub" => Reach::Beyond,
        _ => Reach::Module,
    }
}

/// The names that the tree of one `use` brings in.
fn uses(tree: &[Token], reach: Reach) -> Vec<Use> {
    let mut found = Vec::new();
    let mut paths: Vec<Vec<String>> = Vec::new();
    branch(tree, &mut Vec::new(), &mut paths);
    for mut path in paths {
        let name = match path.iter().position(|name| name == "as") {
            Some(place) => {
                let name = path.get(place + 1).cloned().unwrap_or_default();
                path.truncate(place);
                name
            }
            None => path.last().cloned().unwrap_or_default(),
        };
        if name == "*" {
            path.pop();
        }
        found.push(Use { name, path, reach });
    }
    found
}

/// Takes the parts of a group, which commas separate, behind `prefix`; `a as b` stays in the path as it is.
fn branch(tree: &[Token], prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let length = prefix.len();
    let mut index = 0;
    let mut is_named = false;
    // A path from `::` names another crate.
    let is_foreign = tree.first() == Some(&Token::Path);
    while let Some(token) = tree.get(index) {
        match token {
            Token::Word(word) if word == "self" && length > 0 && prefix.len() == length => is_named = true,
            Token::Word(word) => {
                prefix.push(word.clone());
                is_named = true;
            }
            Token::Sign('*') => {
                prefix.push("*".to_owned());
                is_named = true;
            }
            Token::Sign('{') => {
                let end = group_end(tree, index);
                branch(&tree[index + 1..end - 1], prefix, paths);
                is_named = false;
                index = end;
                continue;
            }
            Token::Sign(',') => {
                if is_named && !is_foreign {
                    paths.push(prefix.clone());
                }
                prefix.truncate(length);
                is_named = false;
            }
            Token::Path | Token::Sign(_) => {}
        }
        index += 1;
    }
    if is_named && !is_foreign {
        paths.push(prefix.clone());
    }
    prefix.truncate(length);
}
