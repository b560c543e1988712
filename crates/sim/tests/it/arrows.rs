//! Compares dependencies between the crates with the table "The arrows" of ARCHITECTURE.md.
//!
//! Only `[dependencies]` count (for targets too); dependencies of tests are free.

use std::collections::BTreeSet;

use crate::{crates, section, table, text};

/// The table: each crate and its allowed dependencies.
fn allowed() -> Vec<(String, BTreeSet<String>)> {
    let page = text("ARCHITECTURE.md");
    let arrow = |row: Vec<String>| {
        let [from, to] = row.try_into().expect("a row of the arrows has two cells");
        let to = to.split(',').map(|name| name.trim().to_string()).filter(|name| name != "–").collect();
        (from, to)
    };
    table(section(&page, "## The arrows")).into_iter().map(arrow).collect()
}

/// The packages that a Cargo.toml depends on, by package name.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            let is_normal = |header: &str| header == "dependencies" || header.ends_with(".dependencies");
            inside = is_normal(header);
            // [dependencies.name]
            let table = header.rsplit_once('.').filter(|(above, _)| is_normal(above));
            found.extend(table.map(|(_, name)| name.to_string()));
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().expect("a split has a first part");
            let package = line.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            found.insert(package.unwrap_or(name).to_string());
        }
    }
    found
}

/// The error for an arrow that is not allowed.
fn check_arrow(from: &str, to: &str, allowed: &[(String, BTreeSet<String>)]) -> Result<(), String> {
    match allowed.iter().find(|(name, _)| name == from) {
        None => Err(format!("{from} has no row in the table of arrows in ARCHITECTURE.md; give it one")),
        Some((_, may)) if may.contains(to) => Ok(()),
        Some((_, may)) => Err(format!(
            "crates/{from}/Cargo.toml: {from} -> {to} is not allowed; it may use {may:?}. Move the code, or change the table in \
             ARCHITECTURE.md and say why in docs/adr/"
        )),
    }
}

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    let allowed = allowed();
    let crates = crates();
    let mut wrong = vec![];
    let mut arrows = 0;
    for from in &crates {
        if !allowed.iter().any(|(name, _)| name == from) {
            wrong.push(format!("{from} has no row in the table of arrows in ARCHITECTURE.md; give it one"));
        }
        for to in
            dependencies(&text(&format!("crates/{from}/Cargo.toml"))).iter().filter(|to| crates.contains(to))
        {
            arrows += 1;
            wrong.extend(check_arrow(from, to, &allowed).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(arrows > 10, "only {arrows} arrows were found: the manifests are not read rightly");
}

/// Checks that every crate has one row, below the rows of its dependencies, so that there is no cycle.
fn check_table(allowed: &[(String, BTreeSet<String>)], crates: &[String]) -> Result<(), String> {
    for (index, (from, to)) in allowed.iter().enumerate() {
        if !crates.contains(from) {
            return Err(format!("the table of arrows has a row for {from}; there is no crates/{from}"));
        }
        let above = |name: &String| allowed[..index].iter().any(|(above, _)| above == name);
        if above(from) {
            return Err(format!("the table of arrows has two rows for {from}"));
        }
        if let Some(name) = to.iter().find(|name| !above(name)) {
            return Err(format!("the table of arrows lets {from} use {name}, which has no row above it"));
        }
    }
    Ok(())
}

#[test]
fn the_table_speaks_of_crates_that_exist_and_goes_one_way() {
    check_table(&allowed(), &crates()).unwrap();
    let names = ["a", "b"].map(str::to_string);
    let row = |from: &str, to: &[&str]| (from.to_string(), to.iter().map(|name| name.to_string()).collect());
    assert!(check_table(&[row("a", &[]), row("b", &["a"])], &names).is_ok());
    for wrong in
        [[row("a", &["b"]), row("b", &["a"])], [row("a", &[]), row("a", &[])], [row("a", &[]), row("c", &[])]]
    {
        assert!(check_table(&wrong, &names).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_wrong_arrow_is_found_however_it_is_written() {
    let manifest = "[package]\nname = \"sstable\"\n[dependencies]\nbase.workspace = true\nmodel = { workspace = true }\n\
                    e = { path = \"../x\", package = \"engine\" }\n[dev-dependencies]\nsim.workspace = true\n\
                    [target.'cfg(unix)'.dependencies]\nruntime = \"1\"\n[dependencies.catalog]\nworkspace = true\n";
    let found = dependencies(manifest);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, ["base", "catalog", "engine", "model", "runtime"]);
    let allowed = [("sstable".to_string(), BTreeSet::from(["base".to_string()]))];
    assert!(check_arrow("sstable", "base", &allowed).is_ok());
    assert!(check_arrow("sstable", "engine", &allowed).is_err());
    assert!(check_arrow("new", "base", &allowed).is_err());
}
