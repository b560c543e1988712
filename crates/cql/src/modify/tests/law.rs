//! Law: after any statements in any order, the stored data equals a model. The model keeps all writes of the
//! statements, and finds a value by a search from the latest timestamp to the earliest.

use std::collections::BTreeMap;

use base::rng::Rng;

use super::*;

/// Position of a cell: partition, row (`None` for the static row), column, element.
type CellPosition = (i32, Option<i32>, &'static str, Option<String>);

/// Position of a row: partition, and row or `None` for the static row.
type RowName = (i32, Option<i32>);

/// The values of a row's columns. A map column has a value for each entry.
type Columns<'a> = BTreeMap<&'a str, Vec<String>>;

/// Range of rows. The end is exclusive.
type Span = (i32, i32);

/// The model: all writes, each with its timestamp.
#[derive(Default)]
struct Said {
    cells: Vec<(CellPosition, i64, Option<String>)>,
    markers: Vec<(i32, i32, i64)>,
    /// Deletions of a partition, or of rows in it.
    deletions: Vec<(i32, Option<Span>, i64)>,
    /// Replacements of a column's elements.
    replaced: Vec<(i32, i32, &'static str, i64)>,
}

impl Said {
    fn is_deleted(&self, k: i32, row: Option<i32>, at: i64) -> bool {
        self.deletions.iter().any(|(deleted, rows, when)| {
            let introspection = match (rows, row) {
                (None, _) => true,
                (Some((from, to)), Some(c)) => (*from..*to).contains(&c),
                (Some(_), None) => false,
            };
            *deleted == k && introspection && at <= *when
        })
    }

    fn lines(&self) -> Vec<String> {
        let mut latest: BTreeMap<&CellPosition, (i64, Option<&String>)> = BTreeMap::new();
        for (place, at, value) in &self.cells {
            let (k, row, column, _) = place;
            let is_replaced = row.is_some_and(|row| {
                self.replaced
                    .iter()
                    .any(|(rk, rc, rcolumn, when)| (*rk, *rc, *rcolumn) == (*k, row, *column) && at < when)
            });
            let known = latest.entry(place).or_insert((i64::MIN, None));
            if *at > known.0 && !is_replaced && !self.is_deleted(*k, *row, *at) {
                *known = (*at, value.as_ref());
            }
        }
        let mut rows: BTreeMap<RowName, Columns<'_>> = BTreeMap::new();
        for (k, c, at) in &self.markers {
            if !self.is_deleted(*k, Some(*c), *at) {
                rows.entry((*k, Some(*c))).or_default();
            }
        }
        for ((k, row, column, element), (_, value)) in latest {
            let Some(value) = value else { continue };
            let text = match element {
                Some(element) => format!("'{element}': {value}"),
                None => value.clone(),
            };
            rows.entry((*k, *row)).or_default().entry(column).or_default().push(text);
        }
        let line = |((k, row), columns): (&RowName, &Columns<'_>)| {
            let columns = columns.iter().map(|(column, values)| match *column {
                "m" => format!(" m={{{}}}", values.join(", ")),
                column => format!(" {column}={}", values[0]),
            });
            let row = row.map_or_else(String::new, |c| format!("/{c}"));
            format!("{k}{row}:{}", columns.collect::<String>())
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.sort();
        lines
    }
}

/// Returns a random statement with its timestamp, and adds its writes to the model.
fn say(rng: &mut Rng, at: i64, said: &mut Said) -> String {
    let (k, c) = (rng.below(3) as i32, rng.below(4) as i32);
    let value = |rng: &mut Rng| if rng.chance(1, 5) { None } else { Some(rng.below(100).to_string()) };
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_string());
    let using = format!("USING TIMESTAMP {at}");
    let row = format!("WHERE k = {k} AND c = {c}");
    match rng.below(11) {
        0 | 1 => {
            let (v, s) = (value(rng), value(rng));
            said.markers.push((k, c, at));
            let insert =
                format!("INSERT INTO t (k, c, v, s) VALUES ({k}, {c}, {}, {}) {using}", text(&v), text(&s));
            said.cells.push(((k, Some(c), "v", None), at, v));
            said.cells.push(((k, None, "s", None), at, s));
            insert
        }
        2 | 3 => {
            let v = value(rng);
            let update = format!("UPDATE t {using} SET v = {} {row}", text(&v));
            said.cells.push(((k, Some(c), "v", None), at, v));
            update
        }
        4 => {
            let s = value(rng);
            let update = format!("UPDATE t {using} SET s = {} WHERE k = {k}", text(&s));
            said.cells.push(((k, None, "s", None), at, s));
            update
        }
        5 => {
            let (key, v) = (rng.pick(&["a", "b", "c"]).to_string(), value(rng));
            let update = format!("UPDATE t {using} SET m['{key}'] = {} {row}", text(&v));
            said.cells.push(((k, Some(c), "m", Some(key)), at, v));
            update
        }
        6 => {
            let replace = rng.chance(1, 2);
            let entries: BTreeMap<&str, u64> =
                (0..rng.below(3)).map(|_| (*rng.pick(&["a", "b", "c"]), 7)).collect();
            let literal: Vec<String> = entries.iter().map(|(key, v)| format!("'{key}': {v}")).collect();
            let literal = format!("{{{}}}", literal.join(", "));
            for (key, v) in entries {
                said.cells.push(((k, Some(c), "m", Some(key.to_string())), at, Some(v.to_string())));
            }
            if replace {
                said.replaced.push((k, c, "m", at));
            }
            format!("UPDATE t {using} SET m = {}{literal} {row}", if replace { "" } else { "m + " })
        }
        7 => {
            said.cells.push(((k, Some(c), "v", None), at, None));
            said.cells.push(((k, Some(c), "m", Some("a".to_string())), at, None));
            format!("DELETE v, m['a'] FROM t {using} {row}")
        }
        8 => {
            said.deletions.push((k, Some((c, c + 1)), at));
            format!("DELETE FROM t {using} {row}")
        }
        9 => {
            let to = rng.below(5) as i32;
            said.deletions.push((k, Some((c, to)), at));
            format!("DELETE FROM t {using} WHERE k = {k} AND c >= {c} AND c < {to}")
        }
        _ => {
            said.deletions.push((k, None, at));
            format!("DELETE FROM t {using} WHERE k = {k}")
        }
    }
}

#[test]
fn the_latest_word_on_every_cell_is_what_is_there() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (db, mut said, mut texts) = (Db::new(), Said::default(), vec![]);
        let mut times: Vec<i64> = (1..=60).collect();
        while let Some(next) = (!times.is_empty()).then(|| rng.index(times.len())) {
            // Timestamps are far enough apart that the deletion of a replaced map lies between two of them.
            let at = times.swap_remove(next) * 10;
            texts.push(say(&mut rng, at, &mut said));
            if texts.len() >= 3 || rng.chance(1, 2) || times.is_empty() {
                let text = match &texts[..] {
                    [one] => one.clone(),
                    several => format!("BEGIN BATCH {}; APPLY BATCH", several.join("; ")),
                };
                texts.clear();
                if let Err(error) = db.run(&text) {
                    panic!("seed {seed}: {text}: {error}");
                }
                assert_eq!(db.dump("t"), said.lines(), "seed {seed} after {text}");
            }
        }
    }
}
