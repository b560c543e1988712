//! CQL statements that create the tables in Cassandra.

use std::fmt::Write as _;

use model::types::{UserType, push_identifier};
use model::{ColumnKind, TableSchema};

pub fn create_keyspace(keyspace: &str) -> String {
    format!(
        "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};\n",
        quoted(keyspace)
    )
}

pub fn create_type(user: &UserType) -> String {
    let fields =
        user.fields.iter().map(|field| format!("{} {}", quoted(&field.name), field.field_type.to_cql()));
    let fields = fields.collect::<Vec<_>>().join(", ");
    format!("CREATE TYPE {}.{} ({fields});\n", quoted(&user.keyspace), quoted(&user.name))
}

/// The statement includes the table's id, from which the name of its directory follows.
pub fn create_table(schema: &TableSchema) -> String {
    let mut columns = vec![];
    for key in schema.partition_key.iter().chain(&schema.clustering) {
        columns.push(format!("{} {}", quoted(&key.name), key.ty.to_cql()));
    }
    for column in schema.columns() {
        let kind = if column.kind == ColumnKind::Static { " static" } else { "" };
        columns.push(format!("{} {}{kind}", quoted(&column.name), column.ty.to_cql()));
    }
    let names = |keys: &[model::KeyColumn]| keys.iter().map(|key| quoted(&key.name)).collect::<Vec<_>>();
    let mut key = vec![format!("({})", names(&schema.partition_key).join(", "))];
    key.extend(names(&schema.clustering));
    columns.push(format!("PRIMARY KEY ({})", key.join(", ")));
    let mut out = format!(
        "CREATE TABLE {}.{} ({})\n  WITH ID = {}",
        quoted(&schema.keyspace),
        quoted(&schema.name),
        columns.join(", "),
        schema.id
    );
    if !schema.clustering.is_empty() {
        let order = schema.clustering.iter().map(|key| {
            let order = if key.ty.is_reversed() { "DESC" } else { "ASC" };
            format!("{} {order}", quoted(&key.name))
        });
        let order = order.collect::<Vec<_>>().join(", ");
        write!(out, " AND CLUSTERING ORDER BY ({order})").expect("a string takes everything");
    }
    out + ";\n"
}

fn quoted(name: &str) -> String {
    let mut out = String::new();
    push_identifier(&mut out, name);
    out
}
