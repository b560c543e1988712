//! Compares dependencies between the rooms of a crate with "The rooms" of docs/code-map.md. A room is a
//! module directly in `src/`.
//!
//! - Each crate has a row with its rooms in an order: a room may use those before it. Rooms that use each
//!   other stand together in brackets, a *knot*; the page names each knot. A knot has at most
//!   [`KNOT_ROOMS_MAX`] rooms.
//! - The engine also has a row for each room, with the rooms that it may use.
//!
//! A dependency is `crate::…` or `super::…` in the source, without comments and tests. A name that the
//! crate's root re-exports counts as its room.

use std::collections::{BTreeMap, BTreeSet};

use crate::{crates, files_below, section, table, text};

const KNOT_ROOMS_MAX: usize = 4;

/// Each room of a crate, and the rooms that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The source without line comments and without items that are for tests alone.
pub fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if code.starts_with("#[cfg(test)]") {
            let indent = &line[..line.len() - code.len()];
            // The item ends with the first `;` of its own line, or with the brace at its own depth.
            for line in lines.by_ref() {
                let ends_here = line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(['}', ')']));
                let is_head =
                    line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with([' ', '}', '#']));
                if ends_here || is_head && line.ends_with(';') {
                    break;
                }
            }
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The first names of the path in `text` at `at`: one, or those of a group in braces.
fn heads(text: &str, at: usize) -> Vec<&str> {
    let name_at = |at: usize| {
        let rest = &text[at..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    };
    if !text[at..].starts_with('{') {
        return vec![name_at(at)];
    }
    let mut found = vec![];
    let (mut depth, mut begins) = (0, false);
    for (offset, c) in text[at..].char_indices() {
        match c {
            '{' => {
                depth += 1;
                begins = depth == 1;
            }
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' => begins = depth == 1,
            c if begins && !c.is_whitespace() => {
                found.push(name_at(at + offset));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

/// The names directly below the crate's root that a file uses. `depth`: the number of modules around its
/// items, including its own.
fn named_at_root(source: &str, depth: usize) -> BTreeSet<String> {
    let source = without_tests(source);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for (at, path) in source.match_indices("crate::") {
        if !source[..at].ends_with(is_word) {
            found.extend(heads(&source, at + path.len()));
        }
    }
    let mut at = 0;
    while let Some(offset) = source[at..].find("super::") {
        let begin = at + offset;
        let mut end = begin;
        while source[end..].starts_with("super::") {
            end += "super::".len();
        }
        if !source[..begin].ends_with(is_word) && (end - begin) / "super::".len() >= depth {
            found.extend(heads(&source, end));
        }
        at = end;
    }
    found.into_iter().map(str::to_string).collect()
}

/// The rooms of a crate with the rooms that they use. `files`: paths below `src/`, and the texts.
fn arrows(files: &[(String, String)]) -> Arrows {
    let test_modules: Vec<String> = files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_test = |path: &str| {
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        test_modules.iter().any(|test| module == test || module.starts_with(&format!("{test}/")))
    };
    let room_of = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_string();
    let is_root = |path: &str| ["lib.rs", "main.rs"].contains(&path) || path.starts_with("bin/");
    let sources: Vec<&(String, String)> =
        files.iter().filter(|(path, _)| !is_root(path) && !is_test(path)).collect();
    let roots = files.iter().filter(|(path, _)| ["lib.rs", "main.rs"].contains(&&path[..]));
    let re_exports: BTreeMap<String, String> = roots.flat_map(|(_, text)| re_exports(text)).collect();
    let mut arrows: Arrows = sources.iter().map(|(path, _)| (room_of(path), BTreeSet::new())).collect();
    let rooms: BTreeSet<String> = arrows.keys().cloned().collect();
    for (path, text) in sources {
        let depth = path.matches('/').count() + usize::from(!path.ends_with("/mod.rs"));
        let room = room_of(path);
        let named = named_at_root(text, depth).into_iter();
        let used = named.map(|name| re_exports.get(&name).cloned().unwrap_or(name));
        let used = used.filter(|name| *name != room && rooms.contains(name));
        arrows.get_mut(&room).expect("each file is in a room").extend(used);
    }
    arrows
}

/// The names that a crate's root re-exports from its rooms, each with the room.
fn re_exports(root: &str) -> Vec<(String, String)> {
    let root = without_tests(root);
    let mut found = vec![];
    for statement in root.split(';').map(str::trim) {
        let Some((visibility, path)) = statement.split_once("use ") else { continue };
        let Some((room, names)) = path.split_once("::").filter(|_| visibility.contains("pub")) else {
            continue;
        };
        for name in names.split([',', '{', '}']).map(str::trim) {
            // `a::B`, `B as C`
            let name = name.rsplit([':', ' ']).next().unwrap_or_default();
            found.push((name.to_string(), room.to_string()));
        }
    }
    found
}

/// The modules that a file declares only for tests, as paths below `src/` without suffix.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let below = path.trim_end_matches(".rs");
    let folder = match below.rsplit_once('/') {
        Some((folder, "mod")) => folder.to_string(),
        _ if ["lib", "main"].contains(&below) => String::new(),
        _ => below.to_string(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]"));
    let name = |line: &str| {
        let (visibility, name) = line.split_once("mod ")?;
        let is_module = visibility.is_empty() || visibility.starts_with("pub");
        name.strip_suffix(';').filter(|_| is_module).map(str::to_string)
    };
    let names = declared.filter_map(|pair| name(pair[1]));
    names.map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }).collect()
}

fn arrows_of(name: &str) -> Arrows {
    let src = format!("crates/{name}/src/");
    let files = files_below(&src, ".rs");
    let below = |file: String| (file.strip_prefix(&src).unwrap_or(&file).to_string(), text(&file));
    arrows(&files.into_iter().map(below).collect::<Vec<_>>())
}

/// The rooms of a crate in their order: each place has one room, or a knot.
type Order = Vec<Vec<String>>;

/// `a, b, (c, d)`
fn order(cell: &str) -> Order {
    let mut order: Order = vec![];
    let mut inside = false;
    for word in cell.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "–") {
        let name = word.trim_start_matches('(').trim_end_matches(')').trim_matches('`').to_string();
        match order.last_mut().filter(|_| inside) {
            Some(knot) => knot.push(name),
            None => order.push(vec![name]),
        }
        inside = (inside || word.starts_with('(')) && !word.ends_with(')');
    }
    order
}

/// The errors of a crate's rooms by its row.
fn check_order(name: &str, arrows: &Arrows, order: &Order) -> Vec<String> {
    let mut wrong = vec![];
    let place = |room: &String| order.iter().position(|rooms| rooms.contains(room));
    for room in arrows.keys().filter(|room| place(room).is_none()) {
        wrong.push(format!("{name}: the room {room} has no place in the row; it uses {:?}", arrows[room]));
    }
    for room in order.iter().flatten().filter(|room| !arrows.contains_key(*room)) {
        wrong.push(format!("{name}: there is no room {room}; remove it from the row"));
    }
    for knot in order.iter().filter(|rooms| rooms.len() > KNOT_ROOMS_MAX) {
        wrong.push(format!("{name}: the knot {knot:?} has more than {KNOT_ROOMS_MAX} rooms"));
    }
    for (from, used) in arrows {
        for to in used {
            if place(to) > place(from) {
                wrong.push(format!(
                    "{name}: {from} -> {to} is not allowed; {to} comes after {from}. Move the code, or the room"
                ));
            }
        }
    }
    wrong
}

/// Checks that each room of a knot reaches each other one; otherwise the row must split the knot.
fn check_knots(name: &str, arrows: &Arrows, order: &Order) -> Vec<String> {
    let reaches = |from: &String, knot: &[String]| {
        let mut seen = BTreeSet::from([from.clone()]);
        let mut next = vec![from.clone()];
        while let Some(room) = next.pop() {
            for to in arrows.get(&room).into_iter().flatten().filter(|to| knot.contains(to)) {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen.len() == knot.len()
    };
    let is_none = |knot: &&Vec<String>| knot.len() > 1 && !knot.iter().all(|room| reaches(room, knot));
    let say = |knot: &Vec<String>| format!("{name}: {knot:?} is no knot any more; take it apart in the row");
    order.iter().filter(is_none).map(say).collect()
}

/// The crates' rows.
fn orders() -> BTreeMap<String, Order> {
    let page = text("docs/code-map.md");
    let row = |row: Vec<String>| {
        let [name, rooms] = row.try_into().expect("a row of the rooms has two cells");
        (name, order(&rooms))
    };
    table(section(&page, "## The rooms")).into_iter().map(row).collect()
}

#[test]
fn rooms_use_only_those_before_them() {
    let orders = orders();
    let mut wrong = vec![];
    let mut count = 0;
    for name in crates() {
        let arrows = arrows_of(&name);
        count += arrows.values().map(BTreeSet::len).sum::<usize>();
        match orders.get(&name) {
            Some(order) => {
                wrong.extend(check_order(&name, &arrows, order));
                wrong.extend(check_knots(&name, &arrows, order));
            }
            None if arrows.values().all(BTreeSet::is_empty) => {}
            None => wrong.push(format!("{name} has no row; its rooms and what they use: {arrows:?}")),
        }
    }
    let known = crates();
    wrong.extend(
        orders.keys().filter(|name| !known.contains(name)).map(|name| format!("there is no crate {name}")),
    );
    assert!(wrong.is_empty(), "docs/code-map.md, \"The rooms\"\n{}", wrong.join("\n"));
    assert!(count > 100, "only {count} arrows between rooms were found: the sources are not read rightly");
}

#[test]
fn rooms_of_the_engine_use_only_what_their_rows_name() {
    let page = text("docs/code-map.md");
    let rows = table(section(section(&page, "## The rooms"), "### Rooms of the engine"));
    let allowed: BTreeMap<String, Order> = rows
        .into_iter()
        .map(|row| {
            let [room, used] = row.try_into().expect("a row of the engine's rooms has two cells");
            (room, order(&used))
        })
        .collect();
    let wrong = check_rows(&arrows_of("engine"), &allowed);
    assert!(wrong.is_empty(), "docs/code-map.md, \"Rooms of the engine\"\n{}", wrong.join("\n"));
}

fn check_rows(arrows: &Arrows, allowed: &BTreeMap<String, Order>) -> Vec<String> {
    let mut wrong = vec![];
    for (from, used) in arrows {
        let Some(may) = allowed.get(from) else {
            wrong.push(format!("{from} has no row; it uses {used:?}"));
            continue;
        };
        let may: BTreeSet<&String> = may.iter().flatten().collect();
        wrong.extend(
            used.iter().filter(|to| !may.contains(to)).map(|to| format!("{from} -> {to} is not allowed")),
        );
        wrong.extend(
            may.iter().filter(|to| !used.contains(**to)).map(|to| format!("{from} does not use {to}")),
        );
    }
    wrong.extend(
        allowed.keys().filter(|room| !arrows.contains_key(*room)).map(|room| format!("there is no {room}")),
    );
    wrong
}

/// A crate with three rooms: `low`, `middle` and `high`.
fn made_up(low: &str) -> Arrows {
    let file = |path: &str, text: &str| (path.to_string(), text.to_string());
    arrows(&[
        file(
            "lib.rs",
            "mod high;\nmod low;\nmod middle;\npub use high::{High, inner::B as C};\n#[cfg(test)]\npub(crate) mod checks;\n",
        ),
        file("checks.rs", "use crate::high::High;\n"),
        file("low.rs", low),
        file("middle/mod.rs", "mod inner;\nuse super::low::Low;\n"),
        file("middle/inner.rs", "use super::Middle;\nuse super::super::low;\n"),
        file(
            "high.rs",
            "use crate::{low::Low, middle::{self, Middle}};\n#[cfg(test)]\nmod tests {\n    use crate::checks;\n}\n",
        ),
    ])
}

#[test]
fn a_wrong_arrow_and_a_circle_are_found() {
    let good = made_up("// use crate::high::High;\npub struct Low;\n#[cfg(test)]\nuse crate::high;\n");
    let used = |room: &str| good[room].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((used("low"), used("middle"), used("high")), (vec![], vec!["low"], vec!["low", "middle"]));
    let row = order("low, middle, high");
    assert_eq!(check_order("made-up", &good, &row), [""; 0]);
    // An arrow that closes a cycle, in every notation.
    for low in [
        "use crate::high::High;\n",
        "use crate::{C, D};\n",
        "use super::{high, other};\n",
        "fn f() -> crate::high::High {}\n",
    ] {
        let circle = made_up(low);
        let wrong = check_order("made-up", &circle, &row);
        assert!(wrong.len() == 1 && wrong[0].contains("low -> high"), "{wrong:?}");
        // A declared knot is accepted; a declared knot without a cycle is an error.
        assert_eq!(check_order("made-up", &circle, &order("(low, middle, high)")), [""; 0]);
        assert_eq!(check_knots("made-up", &circle, &order("(low, middle, high)")), [""; 0]);
        assert_eq!(check_knots("made-up", &good, &order("(low, middle, high)")).len(), 1);
    }
    // Rows of single rooms must have every arrow, and no unused one.
    let rows = |rows: [(&str, &str); 3]| rows.map(|(room, used)| (room.to_string(), order(used))).into();
    assert_eq!(check_rows(&good, &rows([("low", "–"), ("middle", "low"), ("high", "low, middle")])), [""; 0]);
    assert_eq!(
        check_rows(&good, &rows([("low", "middle"), ("middle", "low"), ("high", "low")])),
        ["high -> middle is not allowed", "low does not use middle"]
    );
    // Rooms without a place, places without a room, knots that are too large.
    assert_eq!(check_order("made-up", &good, &order("low, high")).len(), 2);
    assert_eq!(check_order("made-up", &good, &order("low, middle, high, gone")).len(), 1);
    assert_eq!(check_order("made-up", &good, &order("(low, middle, high, a, b)")).len(), 3);
}
