//! The definition of a materialized view: its base table, and the base rows that it has.
//!
//! A view is a table of its own. Its primary key has every column of the base table's primary key and at most
//! one other column of the base table. The conditions restrict columns of the base table's primary key, so
//! that a base row either always is in the view or never.
//!
//! What keeps a row of the view alive depends on its definition:
//!
//! | view | a row exists while |
//! |---|---|
//! | with a column added to the key ([`ViewDefinition::added_key`]) | it has a live row marker, made from the cell of that column (`TableSchema::needs_row_marker`) |
//! | with all columns of the base table | the row, which is a copy, is alive |
//! | with some of them | the row is alive; the times of the other columns are in a hidden column ([`HIDDEN_COLUMN`]) |
//!
//! `encode` and `decode` store the conditions in a system table: a count, then for each condition its kind,
//! its columns and its values, with lengths as big-endian u32.

use std::fmt;

use uuid::Uuid;

use crate::types::CqlType;

/// The name of the column with the times of cells that the view does not select. No statement can name it.
pub const HIDDEN_COLUMN: &str = "";

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The id of the base table.
    pub base_id: Uuid,
    /// The table is in the view's keyspace.
    pub base_name: String,
    /// `SELECT *`: the view gets every regular column that the base table gets.
    pub selects_all: bool,
    /// The text after WHERE.
    pub where_clause: String,
    /// The restrictions of `where_clause`, without `IS NOT NULL`.
    pub conditions: Vec<ViewCondition>,
    /// The column of the view's key that is not part of the base table's key.
    pub added_key: Option<String>,
}

/// A restriction of one column of the base table's key, or of several clustering columns together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCondition {
    /// The names of the columns of the base table; several only for a tuple of clustering columns.
    pub columns: Vec<String>,
    /// The condition for their values.
    pub test: ViewTest,
}

/// One value for each of the first columns of a condition.
pub type ViewValues = Vec<Vec<u8>>;

/// What the values of a [`ViewCondition`] must satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewTest {
    /// One of these; an equality has one.
    In(Vec<ViewValues>),
    /// A slice.
    Slice {
        /// The lower end, and whether it belongs to the slice; `None`: no lower end.
        start: Option<(ViewValues, bool)>,
        /// The upper end, and whether it belongs to the slice; `None`: no upper end.
        end: Option<(ViewValues, bool)>,
    },
    /// An element of a frozen list or set, or a value of a frozen map.
    Contains(Vec<u8>),
    /// A key of a frozen map.
    ContainsKey(Vec<u8>),
}

impl ViewDefinition {
    /// Renames a column of the base table's key in the conditions.
    pub fn rename(&mut self, from: &str, to: &str) {
        let columns = self.conditions.iter_mut().flat_map(|condition| &mut condition.columns);
        columns.filter(|column| *column == from).for_each(|column| *column = to.to_string());
    }
}

/// The type of [`HIDDEN_COLUMN`]. Its elements name a cell of the base table: the column's id as a big-endian
/// u32, then the path of the element in a complex column.
pub fn hidden_column_type() -> CqlType {
    CqlType::set(CqlType::Blob)
}

/// The stored conditions cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadConditions;

impl fmt::Display for BadConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the conditions of the view have an unknown form")
    }
}

const IN: u8 = 0;
const SLICE: u8 = 1;
const CONTAINS: u8 = 2;
const CONTAINS_KEY: u8 = 3;

/// Encodes conditions; see the head of the file.
pub fn encode(conditions: &[ViewCondition]) -> Vec<u8> {
    let mut out = vec![];
    let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend((bytes.len() as u32).to_be_bytes());
        out.extend(bytes);
    };
    let values = |out: &mut Vec<u8>, values: &ViewValues| {
        out.extend((values.len() as u32).to_be_bytes());
        values.iter().for_each(|value| bytes(out, value));
    };
    out.extend((conditions.len() as u32).to_be_bytes());
    for condition in conditions {
        let kind = match condition.test {
            ViewTest::In(_) => IN,
            ViewTest::Slice { .. } => SLICE,
            ViewTest::Contains(_) => CONTAINS,
            ViewTest::ContainsKey(_) => CONTAINS_KEY,
        };
        out.push(kind);
        out.extend((condition.columns.len() as u32).to_be_bytes());
        condition.columns.iter().for_each(|column| bytes(&mut out, column.as_bytes()));
        match &condition.test {
            ViewTest::In(all) => {
                out.extend((all.len() as u32).to_be_bytes());
                all.iter().for_each(|one| values(&mut out, one));
            }
            ViewTest::Slice { start, end } => {
                for side in [start, end] {
                    match side {
                        None => out.push(0),
                        Some((one, inclusive)) => {
                            out.push(1 + u8::from(*inclusive));
                            values(&mut out, one);
                        }
                    }
                }
            }
            ViewTest::Contains(value) | ViewTest::ContainsKey(value) => bytes(&mut out, value),
        }
    }
    out
}

/// Decodes what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<ViewCondition>, BadConditions> {
    let mut input = Input(bytes);
    let conditions = input.list(|input| {
        let kind = input.byte()?;
        let columns = input.list(|input| String::from_utf8(input.bytes()?).map_err(|_| BadConditions))?;
        let test = match kind {
            IN => ViewTest::In(input.list(|input| input.list(Input::bytes))?),
            SLICE => {
                let mut side = || match input.byte()? {
                    0 => Ok(None),
                    flag @ (1 | 2) => Ok(Some((input.list(Input::bytes)?, flag == 2))),
                    _ => Err(BadConditions),
                };
                ViewTest::Slice { start: side()?, end: side()? }
            }
            CONTAINS => ViewTest::Contains(input.bytes()?),
            CONTAINS_KEY => ViewTest::ContainsKey(input.bytes()?),
            _ => return Err(BadConditions),
        };
        Ok(ViewCondition { columns, test })
    })?;
    if input.0.is_empty() { Ok(conditions) } else { Err(BadConditions) }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, BadConditions> {
        let (first, rest) = self.0.split_first().ok_or(BadConditions)?;
        self.0 = rest;
        Ok(*first)
    }

    fn count(&mut self) -> Result<usize, BadConditions> {
        let (first, rest) = self.0.split_first_chunk::<4>().ok_or(BadConditions)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*first) as usize)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, BadConditions> {
        let length = self.count()?;
        let (first, rest) = self.0.split_at_checked(length).ok_or(BadConditions)?;
        self.0 = rest;
        Ok(first.to_vec())
    }

    /// A count and that many items. A wrong count ends at the end of the bytes, because every item has at
    /// least one.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, BadConditions>,
    ) -> Result<Vec<T>, BadConditions> {
        (0..self.count()?).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(column: &str, test: ViewTest) -> ViewCondition {
        ViewCondition { columns: vec![column.to_string()], test }
    }

    #[test]
    fn conditions_are_stored_and_cut_ones_refused() {
        let value = |byte: u8| vec![vec![byte]];
        let all = vec![
            condition("a", ViewTest::In(vec![value(1), vec![vec![]]])),
            condition("b", ViewTest::Slice { start: None, end: Some((value(2), true)) }),
            condition("b", ViewTest::Slice { start: Some((value(2), false)), end: None }),
            condition("c", ViewTest::Contains(vec![7, 8])),
            condition("c", ViewTest::ContainsKey(vec![])),
        ];
        let bytes = encode(&all);
        assert_eq!(decode(&bytes).unwrap(), all);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(BadConditions));
        }
        assert_eq!(decode(&[255; 40]), Err(BadConditions));
        assert_eq!(decode(&encode(&[])), Ok(vec![]));
    }
}
