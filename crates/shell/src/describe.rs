//! Formats the answer to DESCRIBE: statements that can be executed again, or names in columns.

use model::CqlType;
use model::types::{CollectionIter, MapIter};
use protocol::Rows;

use super::table::write_columns;

/// Appends the answer. It has one of Cassandra's four forms: statements, the cluster, keyspaces, or names in
/// keyspaces. `in_keyspace`: all names are in the keyspace in use, so the keyspace is not printed. `width` is
/// in columns.
pub fn write_description(out: &mut String, rows: &Rows, in_keyspace: bool, width: usize) {
    let columns: Vec<&str> =
        rows.metadata.columns.iter().flatten().map(|column| column.name.as_str()).collect();
    let position = |name: &str| columns.iter().position(|column| *column == name);
    if let Some(at) = position("create_statement") {
        for row in &rows.rows {
            out.push('\n');
            out.push_str(text(row, Some(at)).trim_end());
            out.push('\n');
        }
        out.push('\n');
    } else if let Some(at) = position("cluster") {
        let row = rows.rows.first().map_or(&[][..], Vec::as_slice);
        *out += &format!("\nCluster: {}\n", text(row, Some(at)));
        *out += &format!("Partitioner: {}\n", text(row, position("partitioner")));
        *out += &format!("Snitch: {}\n\n", text(row, position("snitch")));
        let owned = position("range_ownership").and_then(|at| row.get(at)?.as_deref());
        write_ownership(out, owned);
    } else {
        let (keyspace, name) = (position("keyspace_name"), position("name"));
        let is_keyspace = |row: &Vec<_>| text(row, position("type")) == "keyspace";
        if rows.rows.iter().all(is_keyspace) && !rows.rows.is_empty() {
            let names: Vec<String> = rows.rows.iter().map(|row| text(row, name)).collect();
            out.push('\n');
            write_columns(out, &names, width);
            out.push('\n');
            return;
        }
        for group in rows.rows.chunk_by(|a, b| text(a, keyspace) == text(b, keyspace)) {
            out.push('\n');
            if !in_keyspace {
                let title = format!("Keyspace {}", text(&group[0], keyspace));
                *out += &format!("{title}\n{}\n", "-".repeat(title.len()));
            }
            let names: Vec<String> = group.iter().map(|row| text(row, name)).collect();
            write_columns(out, &names, width);
        }
        out.push('\n');
    }
}

fn text(row: &[Option<Vec<u8>>], at: Option<usize>) -> String {
    let value = at.and_then(|at| row.get(at)?.as_deref());
    value.map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Appends a map of tokens to lists of addresses.
fn write_ownership(out: &mut String, owned: Option<&[u8]>) {
    let Some(entries) = owned.and_then(|bytes| MapIter::new(bytes).ok()) else { return };
    out.push_str("Range ownership:\n");
    let bare = |bytes: &[u8]| CqlType::Text.text_of(bytes).trim_matches('\'').to_string();
    for (token, nodes) in entries.flatten().filter_map(|(token, nodes)| token.zip(nodes)) {
        let nodes: Vec<String> = CollectionIter::new(nodes)
            .map(|nodes| nodes.flatten().flatten().map(bare).collect())
            .unwrap_or_default();
        *out += &format!(" {:>40}  [{}]\n", bare(token), nodes.join(", "));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use protocol::{ColumnSpec, RowsMetadata};

    use super::*;

    /// Builds rows; the first line contains the column names.
    fn rows(lines: &[&[&str]]) -> Rows {
        let columns: Vec<ColumnSpec> =
            lines[0].iter().map(|name| ColumnSpec::new("system", "describe", name, CqlType::Text)).collect();
        Rows {
            metadata: RowsMetadata {
                columns_count: columns.len(),
                columns: Some(columns),
                ..RowsMetadata::default()
            },
            rows: lines[1..]
                .iter()
                .map(|row| row.iter().map(|text| Some(text.as_bytes().to_vec())).collect())
                .collect(),
        }
    }

    #[track_caller]
    fn check(lines: &[&[&str]], in_keyspace: bool, expect: &str) {
        let mut out = String::new();
        write_description(&mut out, &rows(lines), in_keyspace, 40);
        assert_eq!(out, expect);
    }

    const NAMES: [&str; 3] = ["keyspace_name", "type", "name"];

    #[test]
    fn statements_are_as_they_are() {
        check(
            &[
                &["keyspace_name", "type", "name", "create_statement"],
                &["ks", "keyspace", "ks", "CREATE KEYSPACE ks;"],
                &["ks", "table", "t", "CREATE TABLE ks.t (\n    k int PRIMARY KEY\n);"],
            ],
            false,
            "\nCREATE KEYSPACE ks;\n\nCREATE TABLE ks.t (\n    k int PRIMARY KEY\n);\n\n",
        );
    }

    #[test]
    fn names_stand_under_their_keyspace() {
        check(&[&NAMES, &["a", "keyspace", "a"], &["b", "keyspace", "b"]], false, "\na  b\n\n");
        check(
            &[&NAMES, &["a", "table", "t"], &["a", "table", "u"], &["b", "table", "v"]],
            false,
            "\nKeyspace a\n----------\nt  u\n\nKeyspace b\n----------\nv\n\n",
        );
        check(&[&NAMES, &["a", "table", "t"]], true, "\nt\n\n");
        check(&[&NAMES], true, "\n");
    }

    #[test]
    fn the_cluster() {
        check(
            &[&["cluster", "partitioner", "snitch"], &["Test", "Murmur3Partitioner", "SimpleSnitch"]],
            false,
            "\nCluster: Test\nPartitioner: Murmur3Partitioner\nSnitch: SimpleSnitch\n\n",
        );
    }
}
