//! Law: random statements on random tables return the same rows as an evaluation that reads every row.

use std::cmp::Ordering;

use base::rng::Rng;
use model::sample::{self, Variety};
use reader::{PartitionPage, ReadCommand};

use super::*;
use crate::Storage;

/// A condition on a row, as CQL text and as a function.
struct Condition {
    text: String,
    holds: Box<dyn Fn(&RowValues) -> bool>,
}

/// The values of the columns that conditions test.
#[derive(Clone, Debug, Default)]
struct RowValues {
    p: String,
    token: i64,
    c: Option<i32>,
    d: Option<String>,
    i: Option<i32>,
    t: Option<String>,
    s: Option<String>,
    has_row: bool,
}

fn condition(text: impl Into<String>, holds: impl Fn(&RowValues) -> bool + 'static) -> Condition {
    Condition { text: text.into(), holds: Box::new(holds) }
}

#[derive(Default)]
struct Query {
    conditions: Vec<Condition>,
    by_keys: bool,
    order: Option<bool>,
    limit: Option<usize>,
    partition_limit: Option<usize>,
    /// Whether partitions without rows are excluded from the result.
    only_rows: bool,
    is_in: bool,
}

fn compare(op: usize) -> (&'static str, fn(Ordering) -> bool) {
    [
        ("=", Ordering::is_eq as fn(Ordering) -> bool),
        (">", Ordering::is_gt),
        (">=", Ordering::is_ge),
        ("<", Ordering::is_lt),
        ("<=", Ordering::is_le),
    ][op]
}

fn random_query(rng: &mut Rng, table: &str) -> Query {
    let mut query = Query::default();
    match rng.below(4) {
        0 => {
            let key = format!("key{}", rng.below(5));
            query.by_keys = true;
            query.conditions.push(condition(format!("p = '{key}'"), move |row| row.p == key));
        }
        1 => {
            let keys: Vec<String> = (0..2 + rng.below(3)).map(|_| format!("key{}", rng.below(5))).collect();
            let list: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
            (query.by_keys, query.is_in) = (true, true);
            query
                .conditions
                .push(condition(format!("p IN ({})", list.join(", ")), move |row| keys.contains(&row.p)));
        }
        2 => {
            let bound = sample::partition_key(rng.below(5)).token();
            let (symbol, test) = compare(rng.index(5));
            query.conditions.push(condition(format!("token(p) {symbol} {bound}"), move |row| {
                test(row.token.cmp(&bound))
            }));
        }
        _ => {}
    }
    let deep = table == "deep";
    if table != "plain" {
        match rng.below(6) {
            0 => {
                let (at, (symbol, test)) = (rng.below(6) as i32, compare(rng.index(5)));
                query.conditions.push(condition(format!("c {symbol} {at}"), move |row| {
                    row.c.is_some_and(|c| test(c.cmp(&at)))
                }));
                query.only_rows = true;
            }
            1 => {
                let (a, b) = (rng.below(6) as i32, rng.below(6) as i32);
                query.conditions.push(condition(format!("c IN ({a}, {b}, {a})"), move |row| {
                    row.c.is_some_and(|c| c == a || c == b)
                }));
                query.only_rows = true;
            }
            2 => {
                let (a, b) = (rng.below(6) as i32, rng.below(6) as i32);
                query.conditions.push(condition(format!("c > {a} AND c <= {b}"), move |row| {
                    row.c.is_some_and(|c| c > a && c <= b)
                }));
                query.only_rows = true;
            }
            3 if deep => {
                let (c, d) = (rng.below(6) as i32, format!("c{}", rng.below(3)));
                let (symbol, test) = compare(rng.index(5));
                query.conditions.push(condition(format!("(c, d) {symbol} ({c}, '{d}')"), move |row| {
                    let have = row.c.zip(row.d.clone());
                    have.is_some_and(|have| test(have.cmp(&(c, d.clone()))))
                }));
                query.only_rows = true;
                if symbol.starts_with('>') && rng.chance(1, 2) {
                    let (end, upper) = (rng.below(6) as i32, format!("c{}", rng.below(3)));
                    query.conditions.push(if rng.chance(1, 2) {
                        condition(format!("c < {end}"), move |row| row.c.is_some_and(|c| c < end))
                    } else {
                        condition(format!("(c, d) <= ({end}, '{upper}')"), move |row| {
                            row.c.zip(row.d.clone()).is_some_and(|have| have <= (end, upper.clone()))
                        })
                    });
                }
            }
            4 if deep => {
                let (c, d) = (rng.below(6) as i32, format!("c{}", rng.below(3)));
                let (symbol, test) = compare(rng.index(5));
                query.conditions.push(condition(format!("c = {c} AND d {symbol} '{d}'"), move |row| {
                    row.c == Some(c) && row.d.as_ref().is_some_and(|have| test(have.cmp(&d)))
                }));
                query.only_rows = true;
            }
            5 if deep => {
                let d = format!("c{}", rng.below(3));
                query.conditions.push(condition(format!("d = '{d}'"), move |row| row.d == Some(d.clone())));
                query.only_rows = true;
            }
            _ => {}
        }
        if query.by_keys && rng.chance(1, 2) {
            query.order = Some(rng.chance(1, 2));
        }
        if rng.chance(1, 4) {
            query.partition_limit = Some(1 + rng.index(3));
        }
    }
    if table == "wide" && rng.chance(1, 6) {
        query.conditions.push(condition("t > 'm'", |row| row.t.as_ref().is_some_and(|t| t.as_str() > "m")));
        query.only_rows = true;
    }
    if table == "wide" && rng.chance(1, 8) {
        query.conditions.push(condition("s > 'k'", |row| row.s.as_ref().is_some_and(|s| s.as_str() > "k")));
    }
    if table == "plain" && rng.chance(1, 4) {
        query.conditions.push(condition("i > 3", |row| row.i.is_some_and(|i| i > 3)));
        query.only_rows = true;
    }
    if rng.chance(1, 3) {
        query.limit = Some(1 + rng.index(9));
    }
    query
}

fn text_of(query: &Query, table: &str) -> String {
    let mut text = format!("SELECT * FROM sample.{table}");
    if !query.conditions.is_empty() {
        let conditions: Vec<&str> =
            query.conditions.iter().map(|condition| condition.text.as_str()).collect();
        text += &format!(" WHERE {}", conditions.join(" AND "));
    }
    if let Some(falling) = query.order {
        text += &format!(" ORDER BY c {}", if falling { "DESC" } else { "ASC" });
    }
    if let Some(limit) = query.partition_limit {
        text += &format!(" PER PARTITION LIMIT {limit}");
    }
    if let Some(limit) = query.limit {
        text += &format!(" LIMIT {limit}");
    }
    text + " ALLOW FILTERING"
}

fn values(schema: &TableSchema, partition: &PartitionPage, row: Option<&model::ClusteringRow>) -> RowValues {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("an int"));
    let cell = |name: &str| {
        let column = schema.column_named(name)?;
        let data = match column.kind {
            model::ColumnKind::Static => partition.static_row.cell(column.id)?,
            model::ColumnKind::Regular => row?.row.cell(column.id)?,
        };
        match data {
            model::ColumnData::Simple(cell) => Some(cell.value.to_vec()),
            model::ColumnData::Complex(_) => None,
        }
    };
    let clustering = |at| row.and_then(|row| row.key.values().nth(at));
    RowValues {
        p: text(partition.key.bytes()),
        token: partition.key.token(),
        c: clustering(0).map(int),
        d: clustering(1).map(text),
        i: cell("i").filter(|value| value.len() == 4).map(|value| int(&value)),
        t: cell("t").map(|value| text(&value)),
        s: cell("s").map(|value| text(&value)),
        has_row: row.is_some(),
    }
}

/// Evaluates the query by reading all rows. Returns the selected rows in the query's order.
fn naive(storage: &MemoryCoordinator, schema: &Arc<TableSchema>, query: &Query) -> Vec<RowValues> {
    let mut command = ReadCommand::new(schema.id, model::PartitionRange::all());
    command.page_rows = u64::MAX;
    command.now_s = Some((NOW_US / 1_000_000) as u32);
    let mut page = block_on_ready(storage.read(command)).expect("memory can be read");
    if query.by_keys {
        page.partitions.sort_by(|a, b| a.key.bytes().cmp(b.key.bytes()));
    }
    let reversed = query.order.is_some_and(|falling| falling != schema.clustering[0].ty.is_reversed());
    let mut all: Vec<RowValues> = vec![];
    for partition in &page.partitions {
        let mut rows: Vec<_> = partition.rows.iter().map(Some).collect();
        if rows.is_empty() {
            rows.push(None);
        }
        if reversed {
            rows.reverse();
        }
        let rows = rows.into_iter().map(|row| values(schema, partition, row));
        let rows = rows.filter(|row| row.has_row || !query.only_rows);
        let rows = rows.filter(|row| query.conditions.iter().all(|condition| (condition.holds)(row)));
        all.extend(rows.take(query.partition_limit.unwrap_or(usize::MAX)));
    }
    if query.is_in && query.order.is_some() {
        all.sort_by(|a, b| {
            // Only the named column counts. In the table's order, partitions without rows come first.
            let is_descending = schema.clustering[0].ty.is_reversed();
            let values = if is_descending { b.c.cmp(&a.c) } else { a.c.cmp(&b.c) };
            let natural = if a.has_row && b.has_row { values } else { a.has_row.cmp(&b.has_row) };
            if reversed { natural.reverse() } else { natural }
        });
    }
    all.truncate(query.limit.unwrap_or(usize::MAX));
    all
}

#[test]
fn random_statements_give_what_a_look_at_every_row_gives() {
    let mut rows_seen = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let tables = sample::tables();
        let storage = MemoryCoordinator::new(&tables);
        if rng.chance(1, 3) {
            storage.set_page_rows_max(1 + rng.below(3));
        }
        // Pages of storage may end anywhere, also after dead rows, as they do with many tombstones.
        storage.set_early_ends(seed, seed % 4);
        let schema = tables[rng.index(3)].clone();
        for _ in 0..rng.below(30) {
            storage.write(&sample::mutation(&mut rng, &schema, &Variety::default()));
        }
        for _ in 0..8 {
            let query = random_query(&mut rng, &schema.name);
            let text = text_of(&query, &schema.name);
            let plan = plan(&storage, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
            // The expected rows are read from a copy of the storage without limits of the page size.
            let expected = {
                let whole = MemoryCoordinator::new(&tables);
                for (key, partition) in storage.table(schema.id).partitions() {
                    whole.write(&Mutation {
                        schema: schema.clone(),
                        key: key.clone(),
                        partition: partition.clone(),
                    });
                }
                naive(&whole, &schema, &query)
            };
            let expected: Vec<_> = expected.into_iter().map(|row| (row.p, row.c, row.d)).collect();
            rows_seen += expected.len();
            let sorts = query.is_in && query.order.is_some();
            for page_rows in [None, Some(1), Some(2), Some(3), Some(7), Some(1000)] {
                if sorts && page_rows.is_some() {
                    continue;
                }
                let found = pages(&storage, &plan, &[], page_rows);
                let found = found.unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
                let found: Vec<_> = found
                    .iter()
                    .map(|row| {
                        let text = |at: usize| {
                            row.get(at).cloned().flatten().map(|v| String::from_utf8(v).expect("text"))
                        };
                        let c = if schema.clustering.is_empty() { None } else { row[1].clone() };
                        let c = c.map(|c| i32::from_be_bytes(c.try_into().expect("an int")));
                        let d = if schema.clustering.len() > 1 { text(2) } else { None };
                        (text(0).expect("a key"), c, d)
                    })
                    .collect();
                assert_eq!(found, expected, "seed {seed}, pages of {page_rows:?}: {text}");
            }
        }
    }
    assert!(rows_seen > 4_000, "the statements find something: {rows_seen} rows");
}
