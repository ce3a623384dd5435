//! Finds import circles among the files of a crate.
//!
//! The rule: **a file imports from another file if its code, tests left out, names an item that the other file
//! defines.** A name counts in `use`, in a path such as `crate::a::b()`, and when it comes by a `*`. Names are
//! followed through `pub use` to the file that defines them. So these are no imports:
//! - a `mod child;`;
//! - a `pub use child::Item;` in a parent that does not use `Item` itself: it is the front door;
//! - a call of a method.
//!
//! Files that reach each other by imports form a circle. A parent that uses its child is part of a circle as
//! soon as the child names an item that the parent's file defines; the item belongs into a file below both.

use super::modules::{Modules, Sources};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of one crate, the largest first; in each the files, sorted, and one way round.
pub fn circles(sources: &Sources) -> Vec<Circle> {
    let imports = Modules::read(sources).imports();
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reachable(&imports, file))).collect();
    let mut circles = Vec::new();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    for (file, others) in &reached {
        if !others.contains(file) || seen.contains(file) {
            continue;
        }
        let files: Vec<String> = others
            .iter()
            .filter(|other| reached[**other].contains(file))
            .map(|other| (*other).clone())
            .collect();
        seen.extend(others.iter().filter(|other| reached[**other].contains(file)));
        let way = shortest_way_round(&imports, &files);
        circles.push(Circle { files, way });
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

pub struct Circle {
    pub files: Vec<String>,
    /// The shortest way round: the first file is also the last.
    pub way: Vec<String>,
}

/// All files to which imports lead from a file; the file itself only if one leads back to it.
fn reachable<'a>(imports: &'a Imports, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = imports[from].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&imports[file]);
        }
    }
    reached
}

fn shortest_way_round(imports: &Imports, files: &[String]) -> Vec<String> {
    let ways = files.iter().filter_map(|start| {
        let mut ways: VecDeque<Vec<&String>> = VecDeque::from([vec![start]]);
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for next in imports[*way.last()?].iter().filter(|next| files.contains(next)) {
                let longer = [&way[..], &[next]].concat();
                if next == start {
                    return Some(longer);
                }
                if seen.insert(next) {
                    ways.push_back(longer);
                }
            }
        }
        None
    });
    ways.min_by_key(Vec::len).unwrap_or_default().into_iter().cloned().collect()
}

/// The faults of a crate whose circles may have the `listed` sizes, the largest first.
pub fn faults(place: &str, circles: &[Circle], listed: &[usize]) -> Vec<String> {
    let sizes: Vec<usize> = circles.iter().map(|circle| circle.files.len()).collect();
    if sizes == listed {
        return Vec::new();
    }
    if circles.is_empty() {
        return vec![format!(
            "{place} is listed with import circles, but there is none: remove it from CIRCLES"
        )];
    }
    let names = |circle: &Circle| {
        let (files, way) = (circle.files.join(", "), circle.way.join(" -> "));
        format!("{} files of {place} import each other in a circle ({way}): {files}", circle.files.len())
    };
    let mut faults: Vec<String> = circles.iter().map(names).collect();
    if !listed.is_empty() {
        faults.push(format!("{place} is listed with circles of {listed:?} files, but has {sizes:?}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a made-up crate, as the names of their files.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        circles(&sources).into_iter().map(|circle| circle.files).collect()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let main = ("main.rs", "mod a; mod b; fn main() { a::run() }");
        let forth = ("a.rs", "use crate::b::B; pub fn run() -> B {}");
        assert_eq!(
            found(&[main, forth, ("b.rs", "use crate::a; fn b() { a::run() }\npub struct B;")]),
            [["a.rs", "b.rs"]]
        );
        assert_eq!(
            found(&[main, forth, ("b.rs", "pub struct B { c: crate::a::C }")]).len(),
            0,
            "no such item"
        );
        assert_eq!(found(&[main, forth, ("b.rs", "// crate::a::run\npub struct B;")]).len(), 0);
        let in_tests = ("b.rs", "pub struct B; #[cfg(test)] mod tests { use super::*; use crate::a::run; }");
        assert_eq!(found(&[main, forth, in_tests]).len(), 0);
    }

    #[test]
    fn a_child_that_names_an_item_of_its_parents_file_closes_a_circle() {
        let parent = ("a.rs", "mod b; use b::B; pub struct A { b: B }");
        let root = ("lib.rs", "mod a;");
        assert_eq!(found(&[root, parent, ("a/b.rs", "pub struct B;")]).len(), 0);
        assert_eq!(found(&[root, parent, ("a/b.rs", "use super::A; pub struct B;")]), [["a.rs", "a/b.rs"]]);
        let methods = ("a/b.rs", "pub struct B; impl super::A { fn b(&self) {} }");
        assert_eq!(found(&[root, parent, methods]), [["a.rs", "a/b.rs"]]);
        let all = ("a/b.rs", "use super::*; pub struct B(Option<Box<A>>);");
        assert_eq!(found(&[root, parent, all]), [["a.rs", "a/b.rs"]]);
    }

    #[test]
    fn a_declaration_and_a_front_door_are_no_imports() {
        let child = ("a/b.rs", "use super::A; pub struct B { a: A }");
        let root = ("lib.rs", "mod a; pub use a::{A, B};");
        assert_eq!(found(&[root, ("a.rs", "mod b; pub use b::B; pub struct A;"), child]).len(), 0);
        let used = ("a.rs", "mod b; pub use b::B; pub struct A { b: Vec<B> }");
        assert_eq!(found(&[root, used, child]), [["a.rs", "a/b.rs"]]);
    }

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        // `a` names `C` by way of its parent, which only passes it on.
        let root = ("lib.rs", "mod a; mod c; pub(crate) use c::{C as D, *}; use a::run; fn x() { run() }");
        let child = ("a.rs", "use super::{D, E}; pub fn run(d: D, e: E) {}");
        assert_eq!(found(&[root, child, ("c.rs", "pub struct C; pub struct E;")]).len(), 0);
        let back = (
            "c.rs",
            "use std::{fmt::{self, Debug}, io}; use crate::{a::{self}}; pub struct C; pub struct E; fn c() { a::run() }",
        );
        assert_eq!(found(&[root, child, back]), [["a.rs", "c.rs"]]);
    }

    #[test]
    fn an_exported_macro_belongs_to_the_file_that_defines_it() {
        let root = ("lib.rs", "mod a; mod b;");
        let with = ("a.rs", "#[macro_export] macro_rules! m { () => { $crate::b::f() } }");
        assert_eq!(
            found(&[root, with, ("b.rs", "pub fn f() {} fn g() { crate::m!() }")]),
            [["a.rs", "b.rs"]]
        );
        assert_eq!(found(&[root, with, ("b.rs", "pub fn f() {}")]).len(), 0);
    }

    #[test]
    fn a_star_brings_in_only_the_names_that_are_used() {
        let root = ("lib.rs", "mod a; mod b;");
        let from =
            ("b.rs", "pub struct B; pub const fn b() {} static mut S: u8 = 0; pub fn c() { crate::a::d() }");
        let using =
            |body: &str| found(&[root, ("a.rs", &format!("use crate::b::*; pub fn d() {{ {body} }}")), from]);
        assert_eq!(using("B::new()"), [["a.rs", "b.rs"]]);
        assert_eq!(using("b()"), [["a.rs", "b.rs"]]);
        assert_eq!(using("unsafe { S }"), [["a.rs", "b.rs"]]);
        assert_eq!(using("const fn e() {} other.b()").len(), 0);
    }

    #[test]
    fn programs_beside_each_other_are_crates_of_their_own() {
        let files = [
            ("lib.rs", "mod a; pub use a::A;"),
            ("a.rs", "pub struct A;"),
            ("bin/one.rs", "mod two; fn main() { two::run() } pub struct One;"),
            ("bin/two.rs", "pub fn run() -> crate::One {}"),
        ];
        assert_eq!(found(&files), [["bin/one.rs", "bin/two.rs"]]);
    }

    #[test]
    fn the_list_must_say_what_is_there() {
        let of = |count: usize| Circle { files: vec!["a.rs".to_owned(); count], way: Vec::new() };
        assert!(faults("core/x", &[], &[]).is_empty());
        assert!(faults("core/x", &[of(3), of(2)], &[3, 2]).is_empty());
        assert_eq!(faults("core/x", &[of(3)], &[]).len(), 1);
        for listed in [&[2][..], &[4], &[3, 2]] {
            assert!(faults("core/x", &[of(3)], listed)[1].contains("has [3]"));
        }
        assert!(faults("core/x", &[], &[3])[0].contains("there is none"));
    }
}
