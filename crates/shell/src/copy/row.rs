//! Turns a record of a file into the values of a statement.

use model::CqlType;
use model::types::{Json, json_name};
use protocol::{ColumnSpec, Value, ValueBuffer};

use super::dialect::Fields;
use super::options::{Format, Options};
use super::text_in;

/// The statement that writes a row, and where its values come from.
#[derive(Clone, Debug)]
pub struct Plan {
    pub text: String,
    /// The columns of the file, in its order.
    pub file_columns: Vec<String>,
    /// For each bind marker the index of its column in the file, without the marker of the timestamp.
    pub binds: Vec<usize>,
    /// For each of `binds`, whether it belongs to the primary key.
    pub is_key: Vec<bool>,
    /// Updates of counters have no timestamp, and cannot be repeated.
    pub is_counter: bool,
    /// The timestamp of the record with ordinal 0.
    pub base_us: i64,
}

/// Converts records; one for each worker.
pub struct Converter<'a> {
    plan: &'a Plan,
    options: &'a Options,
    variables: Vec<ColumnSpec>,
    has_unset: bool,
    fields: Fields,
}

impl<'a> Converter<'a> {
    /// `variables` are the bind markers of the prepared statement.
    pub fn new(plan: &'a Plan, options: &'a Options, variables: Vec<ColumnSpec>, has_unset: bool) -> Self {
        Self { plan, options, variables, has_unset, fields: Fields::default() }
    }

    /// The values of a record with this ordinal.
    ///
    /// # Errors
    /// Why the record is not a row of the table.
    pub fn convert(&mut self, record: &[u8], ordinal: u64) -> Result<ValueBuffer, String> {
        let mut values = ValueBuffer::default();
        match self.options.format {
            Format::Csv => self.push_csv(record, &mut values)?,
            Format::Json => self.push_json(record, &mut values)?,
        }
        if !self.plan.is_counter {
            let timestamp_us = self.plan.base_us.saturating_add_unsigned(ordinal);
            values.push(Value::Bytes(&timestamp_us.to_be_bytes()));
        }
        Ok(values)
    }

    fn push_csv(&mut self, record: &[u8], values: &mut ValueBuffer) -> Result<(), String> {
        let mut fields = std::mem::take(&mut self.fields);
        self.options.dialect.split(record, &mut fields);
        let expected = self.plan.file_columns.len();
        let done = match fields.len() == expected {
            false => Err(format!("Invalid row length {} should be {expected}", fields.len())),
            true => self.plan.binds.iter().enumerate().try_for_each(|(i, &column)| {
                let value =
                    text_in::read(&self.variables[i].column_type, fields.get(column), &self.options.values)?;
                self.push(values, i, value.as_deref())
            }),
        };
        self.fields = fields;
        done
    }

    fn push_json(&self, record: &[u8], values: &mut ValueBuffer) -> Result<(), String> {
        let text = std::str::from_utf8(record).map_err(|error| format!("not UTF-8: {error}"))?;
        let members = match Json::parse(text).map_err(|error| format!("not JSON: {error}"))? {
            Json::Object(members) => members,
            other => return Err(format!("a line is an object, not a JSON {}", other.kind())),
        };
        let is_known = |key: &str| {
            let name = json_name(key);
            self.plan.file_columns.iter().any(|column| *column == key || *column == name)
        };
        if let Some((key, _)) = members.iter().find(|(key, _)| !is_known(key)) {
            return Err(format!("there is no column {key}"));
        }
        for (i, &column) in self.plan.binds.iter().enumerate() {
            let name = &self.plan.file_columns[column];
            let found = members
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .or_else(|| members.iter().rev().find(|(key, _)| json_name(key) == *name));
            match found {
                None if self.has_unset && !self.plan.is_key[i] && !self.plan.is_counter => {
                    values.push(Value::Unset);
                }
                None | Some((_, Json::Null)) => self.push(values, i, None)?,
                Some((_, json)) => {
                    let bytes = self.variables[i].column_type.bytes_of_json(json);
                    let bytes = bytes.map_err(|error| format!("Failed to parse column {name}: {error}"))?;
                    self.push(values, i, Some(&bytes))?;
                }
            }
        }
        Ok(())
    }

    /// Adds a value; `None` is null.
    fn push(&self, values: &mut ValueBuffer, bind: usize, value: Option<&[u8]>) -> Result<(), String> {
        match value {
            Some(bytes) => values.push(Value::Bytes(bytes)),
            None if self.plan.is_key[bind] => {
                let name = &self.plan.file_columns[self.plan.binds[bind]];
                let mut text = format!("Cannot insert null value for primary key column '{name}'.");
                if self.options.format == Format::Csv && self.options.values.null.is_empty() {
                    text += " If you want to insert empty strings, consider using the WITH NULL=<marker> option for COPY.";
                }
                return Err(text);
            }
            None if self.variables[bind].column_type == CqlType::Counter => {
                values.push(Value::Bytes(&0i64.to_be_bytes()));
            }
            None if self.options.unset_nulls && self.has_unset => values.push(Value::Unset),
            None => values.push(Value::Null),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::type_of;
    use super::super::{options, statement};
    use super::*;

    /// The values of a record for the columns `k` (key) and `v`, as CQL literals.
    fn converted(with: &str, record: &str) -> Result<Vec<String>, String> {
        let plan = Plan {
            text: String::new(),
            file_columns: vec!["v".to_string(), "x".to_string(), "k".to_string()],
            binds: vec![2, 0],
            is_key: vec![true, false],
            is_counter: false,
            base_us: 100,
        };
        let statement = statement::parse(&format!("COPY t FROM STDIN {with}")).unwrap();
        let options = options::read(&statement, "ks", 1, &|name| name.into()).unwrap().0;
        let variable = |name: &str, cql_type: &str| ColumnSpec::new("ks", "t", name, type_of(cql_type));
        let variables = vec![variable("k", "int"), variable("v", "set<int>")];
        let types = ["int", "set<int>", "bigint"].map(type_of);
        let values = Converter::new(&plan, &options, variables, true).convert(record.as_bytes(), 7)?;
        let show = |(value, cql_type): (Value<'_>, &CqlType)| match value {
            Value::Bytes(bytes) => cql_type.text_of(bytes),
            Value::Null => "null".to_string(),
            Value::Unset => "unset".to_string(),
        };
        Ok(values.values().iter().zip(&types).map(show).collect())
    }

    fn row(values: [&str; 3]) -> Result<Vec<String>, String> {
        Ok(values.map(str::to_string).to_vec())
    }

    #[test]
    fn csv() {
        assert_eq!(converted("", "\"{2, 1}\",skipped,5"), row(["5", "{1, 2}", "107"]));
        assert_eq!(converted("", ",,5"), row(["5", "null", "107"]));
        assert_eq!(converted("WITH UNSETNULLS = true", ",,5"), row(["5", "unset", "107"]));
        assert_eq!(converted("", "1,2"), Err("Invalid row length 2 should be 3".to_string()));
        assert_eq!(converted("", ""), Err("Invalid row length 0 should be 3".to_string()));
        assert!(
            converted("", ",,")
                .unwrap_err()
                .starts_with("Cannot insert null value for primary key column 'k'. If")
        );
    }

    #[test]
    fn json() {
        let converted = |record| converted("WITH FORMAT = json", record);
        assert_eq!(converted("{\"k\": 5, \"v\": [2, 1]}"), row(["5", "{1, 2}", "107"]));
        assert_eq!(converted("{\"K\": \"5\"}"), row(["5", "unset", "107"]));
        assert_eq!(converted("{\"k\": 5, \"v\": null}"), row(["5", "null", "107"]));
        assert_eq!(converted("{\"k\": 5, \"w\": 1}"), Err("there is no column w".to_string()));
        assert!(converted("{\"v\": [1]}").unwrap_err().contains("primary key column 'k'"));
        assert!(converted("[5]").unwrap_err().contains("a line is an object"));
        assert!(converted("{").unwrap_err().starts_with("not JSON"));
        assert!(converted("{\"k\": \"x\"}").unwrap_err().starts_with("Failed to parse column k"));
    }
}
