//! Suggestions for misspelled names: "did you mean orders?".
//!
//! The server's errors have Cassandra's texts, which suggest nothing. The shell knows the names of the
//! schema, and finds the one nearest to the name in the error.

use base::suggest::nearest;

use super::complete::table_of;
use super::names::Names;

/// The known name that is nearest to the unknown name in the server's `error` about `statement`; `None` if
/// the error is about something else, or no name is near.
pub fn suggestion<'a>(
    names: &'a Names,
    keyspace: Option<&str>,
    error: &str,
    statement: &str,
) -> Option<&'a str> {
    if let Some(rest) = error.strip_prefix("Undefined column name ") {
        let (column, table) = rest.split_once(" in table ")?;
        let (keyspace, table) = table.split_once('.')?;
        let columns = names.keyspaces.get(keyspace)?.tables.get(table)?;
        return nearest(column, columns.iter().map(|column| column.name.as_str()));
    }
    let unknown = error.strip_suffix(" does not exist")?;
    if let Some(name) = unknown.strip_prefix("keyspace ").or(unknown.strip_prefix("Keyspace ")) {
        return nearest(name.trim_matches('\''), names.keyspaces.keys().map(String::as_str));
    }
    let table = unknown.strip_prefix("table ")?;
    let in_statement = table_of(statement).and_then(|(keyspace, _)| keyspace);
    let tables = &names.keyspaces.get(in_statement.as_deref().or(keyspace)?)?.tables;
    nearest(table, tables.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_table_keyspace_or_column() {
        let mut names = Names::default();
        names.add_column("shop", "orders", "customer", "regular");
        names.add_column("debian", "packages", "name", "partition_key");
        let suggest = |error, statement| suggestion(&names, Some("shop"), error, statement);
        assert_eq!(suggest("table oders does not exist", "SELECT * FROM oders"), Some("orders"));
        assert_eq!(
            suggest("table pakages does not exist", "INSERT INTO debian.pakages (name) VALUES ('a')"),
            Some("packages")
        );
        assert_eq!(suggest("table pakages does not exist", "SELECT * FROM pakages"), None);
        assert_eq!(suggest("keyspace deb does not exist", "SELECT * FROM deb.packages"), None);
        assert_eq!(suggest("Keyspace 'debain' does not exist", "USE debain"), Some("debian"));
        let column = "Undefined column name custmer in table shop.orders";
        assert_eq!(suggest(column, "SELECT custmer FROM orders"), Some("customer"));
        assert_eq!(suggest("line 1:0 no viable alternative", "SELCT"), None);
    }
}
