//! Formats rows for other programs: one JSON object per line, or CSV.

use model::CqlType;
use model::types::push_json_string;
use protocol::ColumnSpec;

use super::value;

type Row = [Option<Vec<u8>>];

/// Appends a JSON object such as `{"id": 1, "name": "Alice"}` and a line feed.
pub fn write_json_row(out: &mut String, columns: &[ColumnSpec], row: &Row) {
    out.push('{');
    for (i, (column, value)) in columns.iter().zip(row).enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        push_json_string(out, &column.name);
        out.push_str(": ");
        match value {
            Some(bytes) => column.column_type.write_json(bytes, out),
            None => out.push_str("null"),
        }
    }
    out.push_str("}\n");
}

/// Appends the line of column names.
pub fn write_csv_header(out: &mut String, columns: &[ColumnSpec]) {
    write_csv_line(out, columns.iter().map(|column| column.name.clone()));
}

/// Appends a line of values, formatted as in the shell's tables. Text is not escaped; null is an empty field.
pub fn write_csv_row(out: &mut String, columns: &[ColumnSpec], row: &Row) {
    write_csv_line(
        out,
        columns.iter().zip(row).map(|(column, value)| match (&column.column_type, value) {
            (_, None) => String::new(),
            (CqlType::Ascii | CqlType::Text, Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            (other, Some(bytes)) => value::show(other, Some(bytes)).text,
        }),
    );
}

/// Writes a line according to RFC 4180, but with a line feed only.
fn write_csv_line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        out.push_str(if i > 0 { "," } else { "" });
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<ColumnSpec> {
        vec![
            ColumnSpec::new("ks", "t", "id", CqlType::Int),
            ColumnSpec::new("ks", "t", "a \"name\"", CqlType::Text),
            ColumnSpec::new("ks", "t", "tags", CqlType::set(CqlType::Text)),
        ]
    }

    fn row() -> Vec<Option<Vec<u8>>> {
        let tags = CqlType::set(CqlType::Text).bytes_of("{'x', 'y'}").unwrap();
        vec![Some(7i32.to_be_bytes().to_vec()), Some(b"say \"hi\"\nthere".to_vec()), Some(tags)]
    }

    #[test]
    fn json_is_an_object_per_line() {
        let mut out = String::new();
        write_json_row(&mut out, &columns(), &row());
        write_json_row(&mut out, &columns(), &[None, None, None]);
        assert_eq!(
            out,
            "{\"id\": 7, \"a \\\"name\\\"\": \"say \\\"hi\\\"\\nthere\", \"tags\": [\"x\", \"y\"]}\n\
             {\"id\": null, \"a \\\"name\\\"\": null, \"tags\": null}\n"
        );
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut out = String::new();
        write_csv_header(&mut out, &columns());
        write_csv_row(&mut out, &columns(), &row());
        write_csv_row(&mut out, &columns(), &[None, Some(vec![]), None]);
        assert_eq!(out, "id,\"a \"\"name\"\"\",tags\n7,\"say \"\"hi\"\"\nthere\",\"{'x', 'y'}\"\n,,\n");
    }
}
