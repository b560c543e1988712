//! The operations of a run: which one is next, and the values of its statements.

use base::rng::Rng;
use protocol::Value;
use protocol::{BatchType, ValueBuffer};

use super::document::{Document, InsertText};
use super::table::{Row, Table};
use crate::distribution::{Distribution, parse_number};

/// Protocol limit of the statements of a batch.
const BATCH_STATEMENTS_MAX: u64 = 65_535;

/// Whether the rows that an operation returns are compared with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// There must be a row.
    Exists,
    /// There must be one row, with the values that the operation `insert` writes.
    Values,
    /// Nothing is checked.
    Nothing,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The name by which the command line gives it a share.
    pub name: String,
    /// The text of its statement.
    pub cql: String,
    /// What is compared when its answer arrives.
    pub checks: Checks,
    /// Indexes of columns, one for each bind marker.
    parameters: Vec<usize>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Insert { partitions: Distribution, select: Distribution, of: f64, batch: BatchType },
    Query { is_multirow: bool },
}

/// The statements of one execution of an operation.
#[derive(Clone, Debug)]
pub struct Request {
    /// The index of the operation.
    pub operation: usize,
    /// The values of each statement; at least one.
    pub values: Vec<ValueBuffer>,
    /// The kind of the batch; a single statement is sent without a batch.
    pub batch: Option<BatchType>,
    /// The row of the first statement, with which answers are compared.
    pub row: Row,
    /// Different partitions that are written or read.
    pub partitions: u64,
}

impl Operation {
    /// The operation `insert`, with `cql`, whose markers are the columns of `parameters`.
    ///
    /// # Errors
    /// What is wrong with the profile.
    pub fn insert(
        cql: String,
        text: &InsertText,
        table: &Table,
        parameters: Vec<usize>,
        is_counter: bool,
    ) -> Result<Self, String> {
        let wrong = |error: String| format!("insert: {error}");
        let partitions =
            Distribution::parse(text.partitions.as_deref().unwrap_or("fixed(1)")).map_err(wrong)?;
        let select = text.select.as_deref().unwrap_or("fixed(1)/1");
        let (notation, of) = select.split_once('/').unwrap_or((select, "1"));
        let select = Distribution::parse(notation).map_err(wrong)?;
        let of = parse_number(of).map_err(wrong)? as f64;
        if partitions.min() < 1 || select.min() < 0 || of < 1.0 || select.max() as f64 > of {
            return Err("insert: partitions is at least 1, select is a part such as fixed(1)/10".to_string());
        }
        let batch = match text.batchtype.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None if is_counter => BatchType::Counter,
            None | Some("UNLOGGED") => BatchType::Unlogged,
            Some("LOGGED") => BatchType::Logged,
            Some("COUNTER") => BatchType::Counter,
            Some(other) => {
                return Err(format!("insert: batchtype is UNLOGGED, LOGGED or COUNTER, not {other}"));
            }
        };
        let rows = (table.rows_max() as f64 * select.max() as f64 / of).max(1.0) * partitions.max() as f64;
        if rows > BATCH_STATEMENTS_MAX as f64 {
            return Err(format!(
                "an insert may write {rows:.0} rows; a batch has at most {BATCH_STATEMENTS_MAX} statements"
            ));
        }
        let kind = Kind::Insert { partitions, select, of, batch };
        Ok(Self { name: "insert".to_string(), cql, checks: Checks::Nothing, parameters, kind })
    }

    /// An operation that executes a statement of the profile.
    ///
    /// # Errors
    /// What is wrong with `fields`.
    pub fn query(
        name: &str,
        cql: String,
        fields: Option<&str>,
        parameters: Vec<usize>,
        checks: Checks,
    ) -> Result<Self, String> {
        let is_multirow = match fields.map(str::to_ascii_lowercase).as_deref() {
            None | Some("samerow") => false,
            Some("multirow") => true,
            Some(other) => return Err(format!("query {name}: fields is samerow or multirow, not {other}")),
        };
        Ok(Self { name: name.to_string(), cql, checks, parameters, kind: Kind::Query { is_multirow } })
    }

    /// The rows of partition `seed` that an insert writes: each with the selected probability, at least one.
    fn selected(select: &Distribution, of: f64, table: &Table, seed: u64, rng: &mut Rng) -> Vec<Row> {
        let part = select.sample(rng) as f64 / of;
        // Of large partitions with a small part, single rows are drawn instead of listing all.
        if table.rows_max() > 1_000 && part < 0.1 || part * table.rows_max() as f64 <= 1.0 {
            let count = (part * table.rows_max() as f64).round().max(1.0) as u64;
            return (0..count).map(|_| table.random_row(seed, rng)).collect();
        }
        let mut rows = table.rows(seed);
        let kept = rng.index(rows.len());
        let mut index = 0;
        rows.retain(|_| {
            index += 1;
            index - 1 == kept || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= part
        });
        rows
    }

    /// The statements of an execution for partition `seed`, and what else `next_seed` yields.
    ///
    /// # Errors
    /// A value cannot be made.
    pub fn request(
        &self,
        index: usize,
        table: &Table,
        rng: &mut Rng,
        mut next_seed: impl FnMut(&mut Rng) -> u64,
    ) -> Result<Request, String> {
        let mut bytes = vec![];
        let mut values_of = |rows: &mut dyn FnMut() -> Row| -> Result<ValueBuffer, String> {
            let mut values = ValueBuffer::default();
            for column in &self.parameters {
                bytes.clear();
                table.columns[*column].push_value(&mut bytes, &rows())?;
                values.push(Value::Bytes(&bytes));
            }
            Ok(values)
        };
        match &self.kind {
            Kind::Query { is_multirow } => {
                let seed = next_seed(rng);
                let row = table.random_row(seed, rng);
                let mut rows = || match is_multirow {
                    true => table.random_row(seed, rng),
                    false => row.clone(),
                };
                let values = vec![values_of(&mut rows)?];
                Ok(Request { operation: index, values, batch: None, row, partitions: 1 })
            }
            Kind::Insert { partitions, select, of, batch } => {
                let partitions = partitions.sample(rng).max(1) as u64;
                let mut values = vec![];
                let mut first = None;
                for _ in 0..partitions {
                    let seed = next_seed(rng);
                    for row in Self::selected(select, *of, table, seed, rng) {
                        values.push(values_of(&mut || row.clone())?);
                        first.get_or_insert(row);
                    }
                }
                let row = first.expect("an insert writes a row");
                let batch = (values.len() > 1).then_some(*batch);
                Ok(Request { operation: index, values, batch, row, partitions })
            }
        }
    }
}

/// Operations with their shares.
#[derive(Clone, Debug)]
pub struct Operations {
    shares: Vec<f64>,
    sum: f64,
}

impl Operations {
    /// `shares`: one for each operation, not negative, one of them above 0.
    pub fn new(shares: Vec<f64>) -> Self {
        let sum = shares.iter().sum();
        assert!(sum > 0.0, "no operation has a share");
        Self { shares, sum }
    }

    /// The index of an operation, by the shares.
    pub fn choose(&self, rng: &mut Rng) -> usize {
        let mut left = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * self.sum;
        for (index, share) in self.shares.iter().enumerate() {
            left -= share;
            if left < 0.0 {
                return index;
            }
        }
        self.shares.iter().rposition(|share| *share > 0.0).expect("a share above 0")
    }
}

/// The shares of operations, from `insert=1,read=3` and the operations that there are.
///
/// # Errors
/// An operation is unknown, or a share is no number.
pub fn shares(text: &[(String, f64)], document: &Document) -> Result<Vec<(String, f64)>, String> {
    for (name, share) in text {
        if name != "insert" && !document.queries.contains_key(name) {
            let names: Vec<&str> =
                std::iter::once("insert").chain(document.queries.keys().map(String::as_str)).collect();
            return Err(format!("there is no operation {name}; the profile has {}", names.join(", ")));
        }
        if !share.is_finite() || *share < 0.0 {
            return Err(format!("the share of {name} is {share}; it must be a number of at least 0"));
        }
    }
    match text.iter().any(|(_, share)| *share > 0.0) {
        true => Ok(text.to_vec()),
        false => Err("no operation has a share above 0".to_string()),
    }
}
