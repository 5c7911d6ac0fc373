//! Import circles: files of a crate that all depend on each other, directly or through other files.
//!
//! A file *imports* another one if it names something that is defined there: in a `use`, or by a path inside
//! code. A name that a third file re-exports (`pub use`) counts for the file that defines it, and a re-export
//! is no import: so a `lib.rs` that only lists a crate's public items is in no circle. Modules under
//! `#[cfg(test)]` are ignored.
//!
//! The files of a circle can only be understood, and changed, together. Circles of three files are permitted,
//! such as the files of an error, of its cause and of its message; larger circles are not.

use crate::process;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// The folders of the crates that are checked.
const CRATES: &[&str] = &["space", "exec", "net", "scope", "monitor", "host"];

/// The largest number of files that may form a circle.
const LARGEST: usize = 3;

/// Crates or folders that still have larger circles, each with the reason. The test fails if an exception is
/// no longer needed.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// A crate's files: path below the root, and text.
type Files = BTreeMap<String, String>;
/// For each file, the files that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;
/// The path from the crate's root to a module, by names.
type Way = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    /// Names that a `use` imports: each with its path, and whether it is re-exported (`pub`).
    names: BTreeMap<String, (Vec<String>, bool)>,
    /// Modules from which a `use` imports everything: the path, and whether it is re-exported.
    all_of: Vec<(Vec<String>, bool)>,
    /// The items that the module defines.
    items: BTreeSet<String>,
    /// Paths in code.
    paths: BTreeSet<Vec<String>>,
}

struct Crate<'a> {
    files: &'a Files,
    modules: BTreeMap<Way, Module>,
}

/// What a path refers to.
#[derive(Debug, PartialEq)]
enum Target {
    Module(Way),
    /// An item, by the module that defines it.
    Item(Way),
}

/// The imports among the files of a crate, starting from its root file.
fn imports(files: &Files, root: &str) -> Imports {
    let mut all = Crate { files, modules: BTreeMap::new() };
    all.read(Vec::new(), root);
    let mut imports: Imports =
        all.modules.values().map(|module| (module.file.clone(), BTreeSet::new())).collect();
    for (way, module) in &all.modules {
        let own = module.names.values().chain(&module.all_of).filter(|(_, passed_on)| !passed_on);
        for path in own.map(|(path, _)| path).chain(&module.paths) {
            let Some(Target::Item(found)) = all.target(way, path, &mut BTreeSet::new()) else { continue };
            let file = &all.modules[&found].file;
            if *file != module.file {
                imports.entry(module.file.clone()).or_default().insert(file.clone());
            }
        }
    }
    imports
}

impl Crate<'_> {
    /// Reads a file, and the files of the modules that it declares.
    fn read(&mut self, way: Way, file: &str) {
        let text = &self.files[file];
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.module(way, file, &parsed.items);
    }

    fn module(&mut self, way: Way, file: &str, items: &[syn::Item]) {
        let mut found = Found { module: Module { file: file.to_owned(), ..Module::default() } };
        for item in items {
            if is_for_tests(item) {
                continue;
            }
            if let Some(name) = name(item) {
                found.module.items.insert(name);
            }
            let syn::Item::Mod(inner) = item else {
                found.visit_item(item);
                continue;
            };
            let name = inner.ident.to_string();
            found.module.children.insert(name.clone());
            let below: Way = way.iter().cloned().chain([name.clone()]).collect();
            match &inner.content {
                Some((_, items)) => self.module(below, file, items),
                None => self.read(below, &self.file_of(file, &way, &name)),
            }
        }
        self.modules.insert(way, found.module);
    }

    /// The file that the declaration `mod name;` in a file refers to.
    fn file_of(&self, file: &str, way: &[String], name: &str) -> String {
        let folder = &file[..file.rfind('/').map_or(0, |at| at + 1)];
        let stem = &file[folder.len()..file.len() - ".rs".len()];
        // If a module lies in a file `NAME.rs`, its submodules lie in the folder `NAME`.
        let folder = match way.is_empty() || stem == "mod" {
            true => folder.to_owned(),
            false => format!("{folder}{stem}/"),
        };
        let candidates = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
        let there = candidates.iter().find(|candidate| self.files.contains_key(*candidate));
        there.unwrap_or_else(|| panic!("{file}: none of {candidates:?} is there")).clone()
    }

    /// What a path in a module refers to; `None` if the target is in another crate.
    fn target(&self, from: &[String], path: &[String], seen: &mut BTreeSet<(Way, Way)>) -> Option<Target> {
        if !seen.insert((from.to_vec(), path.to_vec())) {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(Vec::new(), rest, seen),
            "self" => self.walk(from.to_vec(), rest, seen),
            "super" => {
                let above = &from[..from.len().checked_sub(1)?];
                // Further `super` may follow the first one.
                let rest: Vec<String> = ["self".to_owned()].into_iter().chain(rest.iter().cloned()).collect();
                let supers = rest.iter().skip(1).take_while(|step| *step == "super").count();
                let above = &above[..above.len().checked_sub(supers)?];
                self.walk(above.to_vec(), &rest[1 + supers..], seen)
            }
            first if self.modules[from].children.contains(first) => self.walk(from.to_vec(), path, seen),
            first => {
                let (meant, _) = self.modules[from].names.get(first)?;
                // In `use memchr::memchr`, the first part of the path is another crate, which has the same
                // name as the imported item.
                if meant.first().is_some_and(|step| step == first) {
                    return None;
                }
                let further: Vec<String> = meant.iter().chain(rest).cloned().collect();
                self.target(from, &further, seen)
            }
        }
    }

    /// Resolves the remaining names of a path from a module.
    fn walk(&self, at: Way, rest: &[String], seen: &mut BTreeSet<(Way, Way)>) -> Option<Target> {
        let Some((name, further)) = rest.split_first() else {
            return Some(Target::Module(at));
        };
        let module = &self.modules[&at];
        if module.children.contains(name) {
            let below = at.into_iter().chain([name.clone()]).collect();
            return self.walk(below, further, seen);
        }
        if module.items.contains(name) || name == "*" {
            return Some(Target::Item(at));
        }
        if let Some((meant, _)) = module.names.get(name) {
            let path: Vec<String> = meant.iter().chain(further).cloned().collect();
            return self.target(&at, &path, seen);
        }
        let from_all = module.all_of.iter().find_map(|(path, _)| {
            let path: Vec<String> =
                path[..path.len() - 1].iter().cloned().chain(rest.iter().cloned()).collect();
            self.target(&at, &path, seen)
        });
        from_all.filter(|target| match target {
            Target::Item(way) => self.modules[way].items.contains(name),
            Target::Module(_) => true,
        })
    }
}

/// Collects the names and paths in the items of a module.
struct Found {
    module: Module,
}

impl Found {
    fn bring_in(&mut self, tree: &syn::UseTree, before: &[String], passed_on: bool) {
        let with = |name: &dyn ToString| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.bring_in(&path.tree, &with(&path.ident), passed_on),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().expect("`self` stands behind a module").clone();
                self.module.names.insert(last, (before.to_vec(), passed_on));
            }
            syn::UseTree::Name(name) => {
                self.module.names.insert(name.ident.to_string(), (with(&name.ident), passed_on));
            }
            syn::UseTree::Rename(renamed) => {
                let path = if renamed.ident == "self" { before.to_vec() } else { with(&renamed.ident) };
                // An import as `_` has no name that other code could use.
                let name = match renamed.rename.to_string().as_str() {
                    "_" => path.join("::"),
                    name => name.to_owned(),
                };
                self.module.names.insert(name, (path, passed_on));
            }
            syn::UseTree::Glob(_) => self.module.all_of.push((with(&"*"), passed_on)),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|inner| self.bring_in(inner, before, passed_on));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.bring_in(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.module.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.module.paths.extend(paths_in(&called.tokens.to_string()));
    }
}

/// The paths in a macro's tokens.
fn paths_in(tokens: &str) -> Vec<Vec<String>> {
    let joined = tokens.replace(" :: ", "::").replace(" ::", "::").replace(":: ", "::");
    let of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = joined.split(|c: char| !of_path(c)).filter(|word| word.contains("::"));
    let path = |word: &str| -> Vec<String> {
        word.split("::").filter(|step| !step.is_empty()).map(str::to_owned).collect()
    };
    words.map(path).collect()
}

fn name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Whether an item is compiled for tests only.
fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test")
                && !condition.contains("not(test)")
        }
        _ => false,
    })
}

/// The files of each circle, largest first.
fn circles(imports: &Imports) -> Vec<Vec<&str>> {
    let reached = |from: &str| {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = todo.pop() {
            todo.extend(imports[&file].iter().filter(|next| reached.insert((*next).clone())).cloned());
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<String>> =
        imports.keys().map(|file| (file.as_str(), reached(file))).collect();
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (file, reaches) in &reached {
        let both = |other: &&&str| reaches.contains(**other) && reached[**other].contains(*file);
        let circle: Vec<&str> = reached.keys().filter(both).copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<Vec<&str>> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// A circle as text: each file with the files of the circle that it imports.
fn shown(imports: &Imports, circle: &[&str]) -> String {
    let line = |file: &&str| {
        let inside: Vec<&str> =
            imports[*file].iter().map(String::as_str).filter(|used| circle.contains(used)).collect();
        format!("  {file} imports {}\n", inside.join(", "))
    };
    format!("{} files form a circle:\n{}", circle.len(), circle.iter().map(line).collect::<String>())
}

/// The imports among files that lie outside of the given folders.
fn without(imports: &Imports, folders: &[&str]) -> Imports {
    let stays = |file: &&String| !folders.iter().any(|folder| file.starts_with(folder));
    let stay = |(file, used): (&String, &BTreeSet<String>)| {
        (file.clone(), used.iter().filter(stays).cloned().collect())
    };
    imports.iter().filter(|(file, _)| stays(file)).map(stay).collect()
}

/// The circles that are too large, without those among excepted files, and the exceptions that are not
/// needed.
fn judged(imports: &Imports, exceptions: &[&str]) -> (Vec<String>, Vec<String>) {
    let too_large = |imports: &Imports| -> Vec<String> {
        let circles = circles(imports);
        let large = circles.iter().filter(|circle| circle.len() > LARGEST);
        large.map(|circle| shown(imports, circle)).collect()
    };
    let needless = |exception: &&&str| {
        let others: Vec<&str> = exceptions.iter().filter(|other| *other != *exception).copied().collect();
        too_large(&without(imports, &others)).is_empty()
    };
    let found = too_large(&without(imports, exceptions));
    (found, exceptions.iter().filter(needless).map(|exception| (*exception).to_owned()).collect())
}

/// Reads the files of Rust below a folder.
fn read(folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(process::root()).expect("inside the workspace");
            files
                .insert(below.to_string_lossy().into_owned(), std::fs::read_to_string(&path).expect("UTF-8"));
        }
    }
}

#[test]
fn files_form_no_large_circle() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let folder = process::root().join(name).join("src");
        if !folder.is_dir() {
            continue;
        }
        let mut files = Files::new();
        read(&folder, &mut files);
        let imports = imports(&files, &format!("{name}/src/lib.rs"));
        let own = |(folder, _): &&(&str, &str)| folder.starts_with(&format!("{name}/"));
        let exceptions: Vec<&str> = EXCEPTIONS.iter().filter(own).map(|(folder, _)| *folder).collect();
        let (large, needless) = judged(&imports, &exceptions);
        wrong.extend(large);
        wrong.extend(needless.iter().map(|folder| format!("`{folder}` needs no exception any more\n")));
    }
    assert!(wrong.is_empty(), "{}(xtask/src/circles.rs says what a circle is)", wrong.concat());
}

/// Checks a small crate: each file as `path: text`, and its imports as `from > to`.
#[track_caller]
fn check_imports(files: &[(&str, &str)], wanted: &[&str]) {
    let files: Files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let found = imports(&files, "lib.rs");
    let pairs = found.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} > {to}")));
    assert_eq!(pairs.collect::<Vec<String>>(), wanted);
}

#[test]
fn a_use_and_a_path_in_code_are_imports() {
    let b = ("b.rs", "pub struct B; pub fn b() {}");
    let lib = ("lib.rs", "mod a; mod b;");
    for a in [
        "use crate::b::B;",
        "use super::b::{B as Other, b};",
        "use crate::{b::*};",
        "use crate::b as other; fn a() { other::b() }",
        "fn a() { crate::b::b() }",
        "fn a() { println!(\"{}\", crate::b::b()) }",
        "fn a(_: &mut Vec<super::b::B>) {}",
        "impl std::fmt::Debug for crate::b::B {}",
        "fn a() { use crate::b::B; }",
        "mod inner { use super::super::b::B; }",
        "#[cfg(not(test))] use crate::b::B;",
    ] {
        check_imports(&[lib, ("a.rs", a), b], &["a.rs > b.rs"]);
    }
}

#[test]
fn tests_comments_texts_and_other_crates_are_no_imports() {
    let b = ("b.rs", "pub struct B;");
    let lib = ("lib.rs", "mod a; mod b;");
    for a in [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, not(loom)))] mod tests;",
        "#[cfg(test)] fn b() { crate::b::b() }",
        "// use crate::b::B;\n/// crate::b::B\nfn a() {}",
        "fn a() { let _ = \"crate::b::B\"; }",
        "use std::b::B; use serde::b;",
        "use crate::b;",
        "pub use crate::b::B;",
    ] {
        check_imports(&[lib, ("a.rs", a), b], &[]);
    }
}

#[test]
fn a_name_that_is_passed_on_counts_for_the_file_that_defines_it() {
    check_imports(
        &[
            ("lib.rs", "mod a; mod b; mod error; pub use error::Error; pub use b::Lib; pub struct Own;"),
            ("a.rs", "use crate::{Error, Lib}; fn a() { crate::b::Deep::new() }"),
            (
                "b/mod.rs",
                "mod deep; mod other; pub(crate) use deep::*; pub struct Lib; fn b() { other::f() }",
            ),
            ("b/deep.rs", "use crate::Own; pub struct Deep;"),
            ("b/other.rs", "pub fn f() { super::super::error::Error; }"),
            ("error.rs", "pub enum Error {}"),
        ],
        &[
            "a.rs > b/deep.rs",
            "a.rs > b/mod.rs",
            "a.rs > error.rs",
            "b/deep.rs > lib.rs",
            "b/mod.rs > b/other.rs",
            "b/other.rs > error.rs",
        ],
    );
}

#[test]
fn large_circles_are_found_and_exceptions_have_to_be_needed() {
    let made = |pairs: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in pairs {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            imports.entry((*to).to_owned()).or_default();
        }
        imports
    };
    let three = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x/e", "d")];
    assert_eq!(circles(&made(&three)), [["a", "b", "c"]]);
    assert_eq!(judged(&made(&three), &[]), (vec![], vec![]));
    assert_eq!(judged(&made(&three), &["x/"]).1, ["x/"]);

    // Two circles that share a file form one circle together.
    let four = made(&[&three[..], &[("d", "x/e"), ("x/e", "c")]].concat());
    let (found, _) = judged(&four, &[]);
    assert!(found[0].starts_with("5 files form a circle:\n  a imports b\n"), "{found:?}");
    assert!(found[0].contains("  c imports a, d\n"), "{found:?}");
    assert_eq!(judged(&four, &["x/"]), (vec![], vec![]));
    assert_eq!(judged(&four, &["x/", "y/"]), (vec![], vec!["y/".to_owned()]));
}
