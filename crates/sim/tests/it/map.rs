//! Compares ARCHITECTURE.md and docs/code-map.md with the source tree: names on the pages exist, and
//! everything at their level is named.
//!
//! - The code map has a heading for each crate and below it, in code blocks, paths from the crate's folder.
//!   Each must exist, and every module and folder directly in `src/` must be there, except those of tests.
//! - In "The way of …", a name in backticks must be defined in the code; a name with `::` must be defined in
//!   that module or beside that type.
//! - Paths in backticks and links between pages must exist, on every page.

use std::collections::BTreeSet;

use crate::{crates, files_below, names_in, quoted, root, section, text};

/// The pages whose paths and links are checked.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["ARCHITECTURE.md", "README.md", "CHANGELOG.md"].map(str::to_string).to_vec();
    pages.extend(files_below("docs", ".md"));
    assert!(pages.len() > 8, "{pages:?}");
    pages
}

/// The headings of a level in a text.
fn headings<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(mark)).map(str::trim).collect()
}

/// The first words of the lines in a text's code blocks.
fn block_paths(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut paths = vec![];
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            paths.extend(line.split_whitespace().next());
        }
    }
    paths
}

/// The modules and folders directly in a crate's `src/`, without the crate's root and modules of tests.
fn modules(name: &str) -> Vec<String> {
    let src = root().join("crates").join(name).join("src");
    let tests_only = |module: &str| {
        let declared = format!("#[cfg(test)]\nmod {};", module.trim_end_matches(".rs"));
        let roots = ["lib.rs", "main.rs"].into_iter().filter(|file| src.join(file).exists());
        roots.into_iter().any(|file| text(&format!("crates/{name}/src/{file}")).contains(&declared))
    };
    let is_module = |module: &str| module.ends_with(".rs") || src.join(module).is_dir();
    let wanted = |module: &String| is_module(module) && module != "lib.rs" && !tests_only(module);
    names_in(&src).into_iter().filter(wanted).collect()
}

#[test]
fn every_crate_is_on_the_map_and_nothing_else() {
    let page = text("docs/code-map.md");
    let on_map: BTreeSet<String> =
        headings(section(&page, "## The crates"), "### ").into_iter().map(str::to_string).collect();
    let on_disk: BTreeSet<String> = crates().into_iter().collect();
    let forgotten: Vec<_> = on_disk.difference(&on_map).collect();
    let gone: Vec<_> = on_map.difference(&on_disk).collect();
    assert!(forgotten.is_empty() && gone.is_empty(), "docs/code-map.md: add {forgotten:?}, remove {gone:?}");
}

#[test]
fn every_path_on_the_map_exists_and_every_module_is_on_it() {
    let page = text("docs/code-map.md");
    let map = section(&page, "## The crates");
    let mut wrong = vec![];
    for name in crates() {
        let part = section(map, &format!("### {name}"));
        let paths = block_paths(part);
        let dir = root().join("crates").join(&name);
        let missing = paths.iter().filter(|path| !dir.join(path).exists());
        wrong.extend(
            missing.map(|path| format!("### {name}: there is no crates/{name}/{path}; remove the line")),
        );
        for module in modules(&name) {
            let listed = |path: &&str| path.trim_end_matches('/') == format!("src/{module}");
            if !paths.iter().any(listed) {
                wrong.push(format!(
                    "### {name}: src/{module} is not on the map; add a line that says what it is for"
                ));
            }
        }
        if !part.contains("**Invariant:**") {
            wrong.push(format!(
                "### {name}: no line begins with **Invariant:**; say what this crate never does"
            ));
        }
    }
    assert!(wrong.is_empty(), "docs/code-map.md\n{}", wrong.join("\n"));
}

/// A source file: the names of its folders and its own name, and its text.
struct Source {
    places: Vec<String>,
    text: String,
}

fn sources() -> Vec<Source> {
    let files = crates().into_iter().flat_map(|name| files_below(&format!("crates/{name}/src"), ".rs"));
    let places = |file: &str| file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    let sources: Vec<Source> =
        files.map(|file| Source { places: places(&file), text: text(&file) }).collect();
    assert!(sources.len() > 50, "only {} source files were found", sources.len());
    sources
}

/// Whether the text has `word` as a whole word after one of `before`.
fn has(text: &str, before: &[&str], word: &str) -> bool {
    before.iter().any(|before| {
        let wanted = format!("{before}{word}");
        let ends_there = |(at, _): (usize, &str)| {
            let behind = text[at + wanted.len()..].chars().next();
            behind.is_none_or(|c| !c.is_alphanumeric() && c != '_')
        };
        text.match_indices(&wanted).any(ends_there)
    })
}

const ITEMS: &[&str] = &["fn ", "struct ", "enum ", "trait ", "const ", "type ", "mod "];

/// Whether the sources define the path: its last name is defined in a module with the name before it, or
/// beside a type with that name. A single name may be defined anywhere, or be a module's name.
fn is_defined(path: &str, sources: &[Source]) -> bool {
    let names: Vec<&str> = path.split("::").collect();
    let [.., above, last] = names[..] else {
        return sources
            .iter()
            .any(|source| has(&source.text, ITEMS, path) || source.places.iter().any(|place| place == path));
    };
    let is_type = above.starts_with(char::is_uppercase);
    sources.iter().any(|source| {
        if is_type {
            let with = [&format!("{above} {{")[..], &format!("{above}<"), &format!("for {above}")];
            let here = has(&source.text, &["struct ", "enum ", "trait ", "impl "], above)
                || with.iter().any(|with| source.text.contains(with));
            // A variant stands alone at the beginning of a line.
            here && (has(&source.text, ITEMS, last)
                || (last.starts_with(char::is_uppercase) && has(&source.text, &["\n    "], last)))
        } else {
            let in_module = source.places.iter().any(|place| place == above);
            in_module && (has(&source.text, ITEMS, last) || source.places.iter().any(|place| place == last))
        }
    })
}

#[test]
fn the_ways_name_what_the_code_defines() {
    let page = text("ARCHITECTURE.md");
    let sources = sources();
    let ways: Vec<String> = headings(&page, "## ")
        .into_iter()
        .filter(|h| h.starts_with("The way of"))
        .map(|h| format!("## {h}"))
        .collect();
    assert_eq!(ways.len(), 6, "request, write, flush, read, compaction and start: {ways:?}");
    let is_path = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    let mut wrong = vec![];
    let mut checked = 0;
    for way in &ways {
        for path in quoted(section(&page, way)).into_iter().filter(is_path) {
            checked += 1;
            if !is_defined(path, &sources) {
                wrong.push(format!("{way}: nothing in crates/ defines {path}; name what does its work now"));
            }
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md\n{}", wrong.join("\n"));
    assert!(checked > 40, "only {checked} names were found in the ways");
}

#[test]
fn a_name_that_is_not_defined_is_found() {
    let source = |file: &str, text: &str| Source {
        places: file.split('/').map(str::to_string).collect(),
        text: text.to_string(),
    };
    let sources = [
        source(
            "crates/a/src/tree",
            "pub struct Tree<K> {}\nimpl<K> Tree<K> {\n    pub fn upsert(&self) {}\n}\n",
        ),
        source("crates/a/src/mode", "pub enum Mode {\n    Batch,\n}\nfn upsert_all() {}\n"),
    ];
    for good in
        ["Tree", "tree", "upsert_all", "Tree::upsert", "tree::upsert", "Mode::Batch", "mode::Mode", "a::tree"]
    {
        assert!(is_defined(good, &sources), "{good}");
    }
    for bad in [
        "Tre",
        "upsert_al",
        "Tree::ups",
        "Mode::upsert",
        "mode::upsert",
        "Mode::Bat",
        "Tre::upsert",
        "b::tree",
    ] {
        assert!(!is_defined(bad, &sources), "{bad}");
    }
}

#[test]
fn paths_and_links_lead_somewhere() {
    let mut wrong = vec![];
    let mut checked = 0;
    for page in pages() {
        let content = text(&page);
        let is_path = |word: &&str| {
            let begins = ["crates/", "docs/", "tests/", "bench/", "testdata/", "src/"]
                .iter()
                .any(|b| word.starts_with(b));
            begins && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        };
        let in_text = quoted(&content).into_iter().filter(is_path).map(|path| root().join(path));
        let folder = root().join(&page).parent().expect("a page is in a folder").to_path_buf();
        let targets = content.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let relative = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
        let links =
            relative.map(|target| folder.join(target.split('#').next().expect("a split has a first part")));
        for path in in_text.chain(links) {
            checked += 1;
            if !path.exists() {
                wrong.push(format!("{page} names {}, which is not there", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} paths were found");
}
