//! Tests of the house rules: they read files of the repository and run nothing.
//!
//! - [`map`]: the pages name existing things, and docs/code-map.md all of them;
//! - [`arrows`]: crates depend only on what the table in ARCHITECTURE.md allows;
//! - [`rooms`]: modules of a crate use each other only as its row there allows;
//! - [`figures`]: tables of figures in bench/README.md rest on records;
//! - [`tidy`]: doors for clocks and the like, lints, test binaries, decisions, formats.

mod arrows;
mod figures;
mod map;
mod rooms;
mod tidy;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("crates/sim is in a repository")
}

/// A text file, by its path from the root.
#[track_caller]
fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The sorted names in a directory, except those that begin with a dot; empty if there is no such directory.
fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return vec![] };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("names here are UTF-8");
    let names = entries.map(|entry| name(entry.expect("the directory can be read")));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Every crate: the folders of `crates/`.
fn crates() -> Vec<String> {
    let names = names_in(&root().join("crates"));
    assert!(names.len() > 5, "the crates are in crates/: {names:?}");
    names
}

/// Every file below a directory whose name has this suffix, as paths from the root. Build output is left out.
fn files_below(dir: &str, end: &str) -> Vec<String> {
    let mut found = vec![];
    let mut dirs = vec![PathBuf::from(dir)];
    while let Some(dir) = dirs.pop() {
        for name in names_in(&root().join(&dir)) {
            let path = dir.join(&name);
            if root().join(&path).is_dir() {
                if !["target", "node_modules"].contains(&name.as_str()) {
                    dirs.push(path);
                }
            } else if name.ends_with(end) {
                found.push(path.to_str().expect("paths here are UTF-8").to_string());
            }
        }
    }
    found.sort();
    found
}

/// The text from the heading (`## The arrows`) to the next one of the same or a higher level.
#[track_caller]
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let level = heading.bytes().take_while(|byte| *byte == b'#').count();
    let mut start = None;
    let mut at = 0;
    let mut fenced = false;
    for line in page.split_inclusive('\n') {
        fenced ^= line.starts_with("```");
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        match start {
            Some(start) if !fenced && (1..=level).contains(&marks) => return &page[start..at],
            None if line.trim_end() == heading => start = Some(at + line.len()),
            _ => {}
        }
        at += line.len();
    }
    &page[start.unwrap_or_else(|| panic!("there is no heading {heading:?}"))..]
}

/// The rows of the first table in a text, without its head; cells trimmed.
fn table(text: &str) -> Vec<Vec<String>> {
    let lines =
        text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
    lines.skip(2).map(cells).collect()
}

/// The texts in backticks that lie on one line each.
fn quoted(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = vec![];
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

#[test]
fn the_tools_of_these_tests_find_what_is_there() {
    let page = "# A\n\n## B\none `x::y` two `z`\n```text\n## C\n`no`\n```\n| h | i |\n|---|---|\n| 1 | `2` |\n\n## D\n";
    let b = section(page, "## B");
    assert!(b.starts_with("one") && b.ends_with("| 1 | `2` |\n\n"), "{b:?}");
    assert_eq!(quoted(b), ["x::y", "z", "2"]);
    assert_eq!(table(b), [["1", "`2`"]]);
    assert_eq!(section(page, "## D"), "");
}
