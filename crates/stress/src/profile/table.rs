//! The rows of a table's partitions, and the values of their columns, as functions of the partition's seed.
//!
//! A partition has a tree of clustering values: below each value of one clustering column, `cluster` says how
//! many values the next column has. A row is a path in that tree; its number follows from the seed and the
//! path.

use base::rng::Rng;
use model::types::CqlType;

use super::document::{ColumnText, Document};
use crate::distribution::Distribution;
use crate::value::{mix, push_value};

/// The part of a column in the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the partition key.
    Partition,
    /// The clustering column at this position, from 0.
    Clustering(usize),
    /// One value in a partition.
    Static,
    /// One value in a row.
    Regular,
}

/// A column, and how its values are made.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name, as it is stored.
    pub name: String,
    /// Its part in the primary key.
    pub role: Role,
    /// Its type; known once a statement with the column was prepared.
    pub cql_type: CqlType,
    /// Bytes or elements of a value.
    size: Distribution,
    /// The numbers that values are made of; `None`: the seed itself.
    population: Option<Distribution>,
    /// The number of values of a clustering column.
    cluster: Distribution,
    /// Distinguishes the columns of a row.
    salt: u64,
}

impl Column {
    /// A column of a table. `text` is its entry in the profile.
    ///
    /// # Errors
    /// What is wrong with the distributions.
    pub fn new(name: &str, role: Role, cql_type: CqlType, text: Option<&ColumnText>) -> Result<Self, String> {
        let parse = |field: &str, notation: Option<&String>, default: Option<Distribution>| match notation {
            Some(notation) => Distribution::parse(notation)
                .map(Some)
                .map_err(|error| format!("column {name}, {field}: {error}")),
            None => Ok(default),
        };
        let size =
            parse("size", text.and_then(|text| text.size.as_ref()), Some(Distribution::uniform(4, 8)))?;
        let population = parse("population", text.and_then(|text| text.population.as_ref()), None)?;
        let cluster =
            parse("cluster", text.and_then(|text| text.cluster.as_ref()), Some(Distribution::fixed(1)))?;
        let (size, cluster) = (size.expect("a default"), cluster.expect("a default"));
        if size.min() < 0 || size.max() > 64 << 20 {
            return Err(format!("column {name}: a size is 0 to 64 MiB"));
        }
        if cluster.min() < 1 || cluster.max() > 1 << 30 {
            return Err(format!("column {name}: cluster is 1 to 2^30"));
        }
        if cluster != Distribution::fixed(1) && !matches!(role, Role::Clustering(_)) {
            return Err(format!("column {name}: only a clustering column has `cluster`"));
        }
        // FNV-1a.
        let salt = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Ok(Self { name: name.to_string(), role, cql_type, size, population, cluster, salt })
    }

    /// Appends the column's value in `row`.
    ///
    /// # Errors
    /// The column's type has no values that can be made.
    pub fn push_value(&self, out: &mut Vec<u8>, row: &Row) -> Result<(), String> {
        let seed = match self.role {
            Role::Partition | Role::Static => row.partition,
            Role::Clustering(position) => row.path[position],
            Role::Regular => row.path.last().copied().unwrap_or(row.partition),
        };
        let mut rng = Rng::new(mix(seed, self.salt));
        let number = match &self.population {
            Some(population) => population.sample(&mut rng) as u64,
            // A key's number is the seed, so that different seeds are different keys.
            None if self.role == Role::Partition => seed,
            None => rng.next_u64() >> 1,
        };
        // Texts of one number are equal, whichever row they are in; those of two columns are not.
        let mut of_number = Rng::new(mix(number, self.salt));
        let size = self.size.sample(&mut of_number) as usize;
        let number = match self.cql_type.without_reversed() {
            CqlType::Text | CqlType::Ascii | CqlType::Blob => of_number.next_u64(),
            _ => number,
        };
        push_value(out, &self.cql_type, number, size)
            .map_err(|what| format!("column {}: no values can be made for {what}", self.name))
    }
}

/// A row of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The partition's seed.
    pub partition: u64,
    /// One number for each clustering column.
    path: Vec<u64>,
}

/// The columns of a table.
#[derive(Clone, Debug)]
pub struct Table {
    /// In the order of the table's definition: partition key, clustering, other columns.
    pub columns: Vec<Column>,
}

impl Table {
    /// # Errors
    /// The profile describes a column that the table does not have.
    pub fn check(&self, document: &Document) -> Result<(), String> {
        let unknown = document.columnspec.iter().find(|text| self.column(&text.name).is_none());
        match unknown {
            Some(text) => Err(format!(
                "the profile describes the column {}, which {} does not have",
                text.name, document.table
            )),
            None => Ok(()),
        }
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn clustering(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| matches!(column.role, Role::Clustering(_)))
    }

    /// The largest number of rows of a partition.
    pub fn rows_max(&self) -> u64 {
        self.clustering().fold(1, |all, column| all.saturating_mul(column.cluster.max() as u64))
    }

    /// A row of the partition, drawn with `rng`.
    pub fn random_row(&self, partition: u64, rng: &mut Rng) -> Row {
        let mut path = vec![];
        let mut at = partition;
        for column in self.clustering() {
            let index = rng.below(count(column, at));
            at = child(column, at, index);
            path.push(at);
        }
        Row { partition, path }
    }

    /// Every row of the partition, as `cluster` has them.
    pub fn rows(&self, partition: u64) -> Vec<Row> {
        let mut rows = vec![Row { partition, path: vec![] }];
        for column in self.clustering() {
            rows = rows
                .into_iter()
                .flat_map(|row| {
                    let at = row.path.last().copied().unwrap_or(partition);
                    (0..count(column, at)).map(move |index| {
                        let mut path = row.path.clone();
                        path.push(child(column, at, index));
                        Row { partition, path }
                    })
                })
                .collect();
        }
        rows
    }
}

/// The number of values of a clustering column below `at`.
fn count(column: &Column, at: u64) -> u64 {
    column.cluster.sample(&mut Rng::new(mix(at, column.salt))) as u64
}

/// The number of value `index` of a clustering column below `at`.
fn child(column: &Column, at: u64, index: u64) -> u64 {
    mix(at ^ column.salt, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, role: Role, cql_type: CqlType, cluster: Option<&str>) -> Column {
        let text = ColumnText {
            name: name.to_string(),
            size: Some("uniform(5..9)".to_string()),
            population: None,
            cluster: cluster.map(str::to_string),
        };
        Column::new(name, role, cql_type, Some(&text)).unwrap()
    }

    fn value(column: &Column, row: &Row) -> Vec<u8> {
        let mut out = vec![];
        column.push_value(&mut out, row).unwrap();
        out
    }

    #[test]
    fn a_partition_has_the_rows_that_its_clusters_say() {
        let table = Table {
            columns: vec![
                column("k", Role::Partition, CqlType::Text, None),
                column("a", Role::Clustering(0), CqlType::Text, Some("uniform(1..4)")),
                column("b", Role::Clustering(1), CqlType::BigInt, Some("fixed(3)")),
                column("v", Role::Regular, CqlType::Blob, None),
            ],
        };
        assert_eq!(table.rows_max(), 12);
        let mut rng = Rng::new(1);
        for seed in 1..50 {
            let rows = table.rows(seed);
            assert!(rows.len().is_multiple_of(3) && (3..=12).contains(&rows.len()));
            assert_eq!(table.rows(seed), rows);
            let mut keys: Vec<_> = rows
                .iter()
                .map(|row| table.columns[1..3].iter().map(|column| value(column, row)).collect::<Vec<_>>())
                .collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), rows.len());
            assert!(rows.contains(&table.random_row(seed, &mut rng)));
            assert!(
                rows.iter().all(|row| value(&table.columns[0], row) == value(&table.columns[0], &rows[0]))
            );
            assert!((5..=9).contains(&value(&table.columns[3], &rows[0]).len()));
        }
    }

    #[test]
    fn different_seeds_are_different_keys() {
        let table = Table { columns: vec![column("k", Role::Partition, CqlType::Blob, None)] };
        let mut keys: Vec<_> =
            (1..=10_000).map(|seed| value(&table.columns[0], &table.rows(seed)[0])).collect();
        keys.sort();
        keys.dedup();
        assert!(keys.len() > 9_990, "{}", keys.len());
    }
}
