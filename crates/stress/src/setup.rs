//! Makes the tables of a profile, and finds out what its statements need.

use model::types::{CqlType, push_identifier};
use protocol::{Consistency, CqlError, Prepared, QueryParameters, Request, Response};
use shell::{Connection, Failure};

use crate::profile::{Checks, Column, Document, Operation, Role, Table};

/// A profile whose tables exist.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The keyspace that connections use.
    pub keyspace: String,
    /// The columns of the table.
    pub table: Table,
    /// The operations with a share.
    pub operations: Vec<Operation>,
    /// The share of each operation.
    pub shares: Vec<f64>,
}

/// What is made before a run.
#[derive(Clone, Debug)]
pub struct Making {
    /// Whether keyspace and table are created if they do not exist.
    pub creates: bool,
    /// `CREATE KEYSPACE`, for profiles without a definition.
    pub keyspace_definition: String,
    /// Whether the table is truncated.
    pub truncates: bool,
    /// What answers of the operation `read` are compared with.
    pub read_checks: Checks,
}

/// Prepares the server and the operations.
///
/// # Errors
/// The server refuses a statement, or the profile does not fit the table.
pub fn prepare(
    connection: &mut Connection,
    document: &Document,
    shares: &[(String, f64)],
    making: &Making,
) -> Result<Plan, String> {
    if making.creates {
        let keyspace = document.keyspace_definition.as_deref().unwrap_or(&making.keyspace_definition);
        create(connection, keyspace)?;
    }
    use_keyspace(connection, &document.keyspace)?;
    if making.creates {
        let is_type = |text: &&String| text.trim_start().to_ascii_uppercase().starts_with("CREATE TYPE");
        for text in document.extra_definitions.iter().filter(is_type) {
            create(connection, text)?;
        }
        if let Some(text) = &document.table_definition {
            create(connection, text)?;
        }
        for text in document.extra_definitions.iter().filter(|text| !is_type(text)) {
            create(connection, text)?;
        }
    }
    let mut quoted_table = String::new();
    push_identifier(&mut quoted_table, &document.table);
    if making.truncates {
        query(connection, &format!("TRUNCATE {quoted_table}"))?;
    }
    let mut table = columns(connection, document)?;
    table.check(document)?;
    let (insert, parameters, is_counter) = insert_text(connection, &quoted_table, &mut table)?;
    let mut operations = vec![];
    for (name, _) in shares {
        operations.push(match document.queries.get(name) {
            None => {
                Operation::insert(insert.clone(), &document.insert, &table, parameters.clone(), is_counter)?
            }
            Some(text) => {
                let prepared = prepare_statement(connection, &text.cql)?;
                let mut parameters = vec![];
                for variable in &prepared.variables {
                    let column = table.columns.iter().position(|column| column.name == variable.name);
                    parameters.push(column.ok_or_else(|| {
                        format!(
                            "query {name}: there are no values for the marker {}; a marker stands for a value of a \
                             column",
                            variable.name
                        )
                    })?);
                }
                let checks = if name == "read" { making.read_checks } else { Checks::Nothing };
                Operation::query(name, text.cql.clone(), text.fields.as_deref(), parameters, checks)?
            }
        });
    }
    let shares = shares.iter().map(|(_, share)| *share).collect();
    Ok(Plan { keyspace: document.keyspace.clone(), table, operations, shares })
}

/// `USE`, so that statements need not name the keyspace.
///
/// # Errors
/// The server refuses it.
pub fn use_keyspace(connection: &mut Connection, keyspace: &str) -> Result<(), String> {
    let mut text = "USE ".to_string();
    push_identifier(&mut text, keyspace);
    query(connection, &text).map(drop)
}

/// Prepares a statement on this connection.
///
/// # Errors
/// The server refuses it.
pub fn prepare_statement(connection: &mut Connection, text: &str) -> Result<Prepared, String> {
    match connection.request(&Request::Prepare { text, keyspace: None }, false) {
        Ok(message) => match message.response {
            Response::Prepared(prepared) => Ok(prepared),
            other => Err(format!("an unexpected answer to PREPARE: {other:?}")),
        },
        Err(failure) => Err(refused(text, &failure)),
    }
}

fn refused(text: &str, failure: &Failure) -> String {
    format!("{failure}\n  {}", text.trim().replace('\n', "\n  "))
}

fn query(connection: &mut Connection, text: &str) -> Result<Response, String> {
    let parameters = QueryParameters::new(Consistency::LocalOne);
    let answer = connection.request(&Request::Query { text, parameters }, false);
    answer.map(|message| message.response).map_err(|failure| refused(text, &failure))
}

/// Executes a CREATE statement; what exists already is left as it is.
fn create(connection: &mut Connection, text: &str) -> Result<(), String> {
    let parameters = QueryParameters::new(Consistency::LocalOne);
    match connection.request(&Request::Query { text, parameters }, false) {
        Ok(_) | Err(Failure::Refused(CqlError::AlreadyExists { .. })) => Ok(()),
        // An existing type is an ordinary error.
        Err(Failure::Refused(CqlError::Invalid(message))) if message.contains("already exists") => Ok(()),
        Err(failure) => Err(refused(text, &failure)),
    }
}

/// Reads the table's columns from the system tables. Their types come later, from PREPARE.
fn columns(connection: &mut Connection, document: &Document) -> Result<Table, String> {
    let literal = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let text = format!(
        "SELECT column_name, kind, position FROM system_schema.columns WHERE keyspace_name = {} AND table_name = {}",
        literal(&document.keyspace),
        literal(&document.table)
    );
    let Response::Rows(rows) = query(connection, &text)? else {
        return Err("system_schema.columns returned no rows".to_string());
    };
    let mut found = vec![];
    for row in &rows.rows {
        let text =
            |at: usize| row[at].as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let position = match row[2].as_deref() {
            Some(&[a, b, c, d]) => i32::from_be_bytes([a, b, c, d]).max(0) as usize,
            _ => 0,
        };
        let (order, role) = match text(1).as_str() {
            "partition_key" => (0, Role::Partition),
            "clustering" => (1, Role::Clustering(position)),
            "static" => (2, Role::Static),
            _ => (3, Role::Regular),
        };
        let name = text(0);
        let spec = document.columnspec.iter().find(|spec| spec.name == name);
        found.push((order, position, Column::new(&name, role, CqlType::Blob, spec)?));
    }
    if found.is_empty() {
        return Err(format!("there is no table {}.{}", document.keyspace, document.table));
    }
    found.sort_by(|a, b| (a.0, a.1, &a.2.name).cmp(&(b.0, b.1, &b.2.name)));
    Ok(Table { columns: found.into_iter().map(|(_, _, column)| column).collect() })
}

/// The statement of the operation `insert`, and the columns of its markers. Sets the types of the columns.
fn insert_text(
    connection: &mut Connection,
    quoted_table: &str,
    table: &mut Table,
) -> Result<(String, Vec<usize>, bool), String> {
    let quoted = |column: &Column| {
        let mut name = String::new();
        push_identifier(&mut name, &column.name);
        name
    };
    let names: Vec<String> = table.columns.iter().map(quoted).collect();
    let markers = vec!["?"; names.len()].join(", ");
    let insert = format!("INSERT INTO {quoted_table} ({}) VALUES ({markers})", names.join(", "));
    let is_key = |column: &Column| matches!(column.role, Role::Partition | Role::Clustering(_));
    let (keys, counters): (Vec<usize>, Vec<usize>) =
        (0..names.len()).partition(|index| is_key(&table.columns[*index]));
    let sums: Vec<String> = counters.iter().map(|index| format!("{0} = {0} + ?", names[*index])).collect();
    let wheres: Vec<String> = keys.iter().map(|index| format!("{} = ?", names[*index])).collect();
    let update = format!("UPDATE {quoted_table} SET {} WHERE {}", sums.join(", "), wheres.join(" AND "));
    // A table of counters takes no INSERT.
    let (text, order, prepared, is_counter) = match prepare_statement(connection, &insert) {
        Ok(prepared) => (insert, (0..names.len()).collect(), prepared, false),
        Err(error) if !error.contains("counter") => return Err(error),
        Err(_) => {
            let prepared = prepare_statement(connection, &update)?;
            (update, [counters, keys].concat(), prepared, true)
        }
    };
    let order: Vec<usize> = order;
    for (column, variable) in order.iter().zip(&prepared.variables) {
        table.columns[*column].cql_type = variable.column_type.clone();
    }
    Ok((text, order, is_counter))
}
