//! Formats a page of rows as text, for callers without a session.

use protocol::ColumnSpec;

use super::output::Format;
use super::style::Style;
use super::table::{Cell, write_table};
use super::{export, value};

/// Appends the rows without colours. The header is written only if `with_header` is set; JSON has no header.
pub fn push_page(
    out: &mut String,
    format: Format,
    columns: &[ColumnSpec],
    rows: &[Vec<Option<Vec<u8>>>],
    with_header: bool,
) {
    match format {
        Format::Json => rows.iter().for_each(|row| export::write_json_row(out, columns, row)),
        Format::Csv => {
            if with_header {
                export::write_csv_header(out, columns);
            }
            rows.iter().for_each(|row| export::write_csv_row(out, columns, row));
        }
        Format::Table => {
            let heading = |column: &ColumnSpec| {
                let mut text = String::new();
                value::escape(&mut text, &column.name, false);
                Cell::new(text, Style::Plain)
            };
            let header: Vec<Cell> = columns.iter().map(heading).collect();
            write_table(out, &header, &shown(columns, rows), with_header, false);
        }
    }
}

/// The values of the rows as text for users.
pub(super) fn shown(columns: &[ColumnSpec], rows: &[Vec<Option<Vec<u8>>>]) -> Vec<Vec<Cell>> {
    let show_row = |row: &Vec<Option<Vec<u8>>>| {
        let cells = columns.iter().zip(row);
        cells.map(|(column, value)| value::show(&column.column_type, value.as_deref())).collect()
    };
    rows.iter().map(show_row).collect()
}
