//! Checks that the modules of each crate form no import circle.
//!
//! The rule holds for each folder: its modules, each with everything beneath it, depend on each other in one direction
//! only. A module and its parent count as one, because an `impl` block may be spread over child files. Names that a
//! module imports or re-exports count for the module that defines them. Test code is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMacro, ItemMod, ItemUse, UseTree};

/// Segments of a module's path, from the crate's root on.
type ModulePath = Vec<String>;

/// Circles that are accepted: crate, parent module, two of its modules, reason.
const ACCEPTED: &[(&str, &str, [&str; 2], &str)] = &[(
    "grete-py",
    "consumer",
    ["message", "messages"],
    "a Message is a row of its Messages, which make it on demand: each class refers to the other",
)];

/// How often one re-export may lead to another one.
const MAX_REEXPORTS: usize = 8;

/// Runs the check over all crates and reports each circle with the files that close it.
pub fn run(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut circles = Vec::new();
    let mut modules = 0;
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        if folder.join("src").is_dir() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let sources = read_modules(&folder.join("src"))?;
            modules += sources.len();
            circles.extend(find_circles(&name, &sources)?);
        }
    }
    if circles.is_empty() {
        println!("{modules} modules form no circle");
        return Ok(());
    }
    circles.sort();
    Err(circles.join("\n").into())
}

/// Reads the sources below `folder` by module path. Test modules are left out.
fn read_modules(folder: &Path) -> Result<BTreeMap<ModulePath, String>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?,
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut module: ModulePath = path
                .strip_prefix(folder)?
                .with_extension("")
                .iter()
                .map(|part| part.to_string_lossy().into())
                .collect();
            if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                module.pop();
            }
            found.insert(module, fs::read_to_string(&path)?);
        }
    }
    Ok(found)
}

/// The names that a module refers to.
#[derive(Default)]
struct References {
    /// Absolute paths, of `use` items and in code.
    paths: Vec<ModulePath>,
    /// Imported or re-exported name -> absolute path.
    imports: BTreeMap<String, ModulePath>,
    /// Child modules that exist in tests only.
    test_modules: BTreeSet<String>,
}

struct Collector<'a> {
    module: &'a ModulePath,
    children: &'a BTreeSet<String>,
    references: References,
}

impl Collector<'_> {
    /// Makes a path absolute; `None`: it leaves the crate, or names a local item.
    fn resolve(&self, path: &[String]) -> Option<ModulePath> {
        let mut base = self.module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (base, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first if self.children.contains(first) => {}
            _ => return None,
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn collect_use(&mut self, prefix: &[String], tree: &UseTree) {
        let extended = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.collect_use(&extended(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.collect_use(prefix, item)),
            UseTree::Glob(_) => self.add(prefix, None),
            UseTree::Name(name) if name.ident == "self" => self.add(prefix, prefix.last().cloned()),
            UseTree::Name(name) => self.add(&extended(&name.ident), Some(name.ident.to_string())),
            UseTree::Rename(rename) => self.add(&extended(&rename.ident), Some(rename.rename.to_string())),
        }
    }

    fn add(&mut self, path: &[String], name: Option<String>) {
        let Some(absolute) = self.resolve(path) else { return };
        if let Some(name) = name {
            self.references.imports.insert(name, absolute.clone());
        }
        self.references.paths.push(absolute);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Macro(ItemMacro { attrs, .. }) => attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        } else if let Item::Mod(ItemMod { ident, content: None, .. }) = item {
            self.references.test_modules.insert(ident.to_string());
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.collect_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.add(&segments, None);
        }
        visit::visit_path(self, path);
    }
}

fn find_circles(name: &str, sources: &BTreeMap<ModulePath, String>) -> Result<Vec<String>, Box<dyn Error>> {
    let mut all: BTreeMap<&ModulePath, References> = BTreeMap::new();
    for (module, source) in sources {
        let children = sources.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let children = children.filter_map(|child| child.last().cloned()).collect();
        let file = syn::parse_file(source).map_err(|error| format!("{name}: {}: {error}", module.join("::")))?;
        let mut collector = Collector { module, children: &children, references: References::default() };
        collector.visit_file(&file);
        all.insert(module, collector.references);
    }
    let is_test_module = |module: &ModulePath| {
        (1..=module.len()).any(|depth| {
            let (parent, name) = (module[..depth - 1].to_vec(), &module[depth - 1]);
            all.get(&parent).is_some_and(|references| references.test_modules.contains(name))
        })
    };
    // Module -> module that it uses, by parent and child of the parent.
    let mut edges: BTreeMap<ModulePath, BTreeMap<(String, String), BTreeSet<String>>> = BTreeMap::new();
    for (module, references) in &all {
        if is_test_module(module) {
            continue;
        }
        for path in &references.paths {
            let target = definition(&all, path, MAX_REEXPORTS);
            let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                edges
                    .entry(module[..common].to_vec())
                    .or_default()
                    .entry((from.clone(), to.clone()))
                    .or_default()
                    .insert(format!("{} -> {}", module.join("::"), target.join("::")));
            }
        }
    }
    let mut circles = Vec::new();
    for (parent, edges) in &edges {
        for ((from, to), uses) in edges.iter().filter(|((from, to), _)| from < to) {
            let accepted = ACCEPTED.iter().any(|(crate_name, module, pair, _)| {
                *crate_name == name && *module == parent.join("::") && *pair == [from.as_str(), to.as_str()]
            });
            if !accepted && let Some(back) = way(edges, to, from) {
                let uses = uses.iter().cloned().collect::<Vec<_>>().join(", ");
                circles.push(format!(
                    "{name}: modules of `{}` form a circle: {from} -> {to} ({uses}) and back ({back}); move what both \
                     need to a module of its own, below both",
                    parent.join("::")
                ));
            }
        }
    }
    Ok(circles)
}

/// Returns the module that defines what `path` names, through imports and re-exports.
fn definition(all: &BTreeMap<&ModulePath, References>, path: &ModulePath, reexports: usize) -> ModulePath {
    let depth = (0..=path.len()).rev().find(|&depth| all.contains_key(&path[..depth].to_vec())).unwrap_or(0);
    let module = path[..depth].to_vec();
    let next = path.get(depth).and_then(|name| all.get(&module)?.imports.get(name));
    match next {
        Some(target) if reexports > 0 && *target != *path => definition(all, target, reexports - 1),
        _ => module,
    }
}

/// Returns a shortest way from one module to another; `None`: there is none.
fn way(edges: &BTreeMap<(String, String), BTreeSet<String>>, from: &str, to: &str) -> Option<String> {
    let mut ways = vec![(from.to_string(), Vec::<String>::new())];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut next = Vec::new();
        for (at, path) in ways {
            if at == to {
                return Some(path.join(", "));
            }
            if !seen.insert(at.clone()) {
                continue;
            }
            for ((_, target), uses) in edges.iter().filter(|((source, _), _)| *source == at) {
                let mut path = path.clone();
                path.extend(uses.iter().next().cloned());
                next.push((target.clone(), path));
            }
        }
        ways = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(sources: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
        let sources = sources.iter().map(|(name, source)| (path(name), (*source).to_string())).collect();
        find_circles("a-crate", &sources).expect("sources that parse")
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let found = circles(&[("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "fn f() { super::a::g() }")]);
        assert!(found.len() == 1 && found[0].contains("a -> b") && found[0].contains("b -> a"), "{found:?}");
    }

    #[test]
    fn a_circle_of_folders_is_found_through_their_files() {
        let found = circles(&[
            ("", ""),
            ("a", ""),
            ("a::x", "use crate::b::y::Y;"),
            ("b::y", ""),
            ("b", ""),
            ("b::z", "use crate::a::x::X;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_reexport_counts_for_the_module_that_defines_the_name() {
        let sources = [("", ""), ("p", "pub use b::B;"), ("p::a", "use super::B;"), ("p::b", "use super::a::A;")];
        assert_eq!(circles(&sources).len(), 1);
    }

    #[test]
    fn parents_and_children_count_as_one_and_tests_do_not_count() {
        let parent = ("p", "mod a; #[cfg(test)] mod tests; use a::A;");
        assert_eq!(circles(&[("", ""), parent, ("p::a", "use super::P;"), ("p::tests", "use super::a::A;")]), [""; 0]);
        let tested = ("b", "#[cfg(test)] mod tests { use crate::a::A; }");
        assert_eq!(circles(&[("", ""), ("a", "use crate::b::B;"), tested]), [""; 0]);
    }
}
