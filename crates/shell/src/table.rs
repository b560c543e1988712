//! Formats rows as a table, or each row as a list of its columns.
//!
//! ```text
//!  id | name              @ Row 1
//! ----+-------           ------+-----
//!   1 | Alice             id   | 1
//!   2 |   Bob             name | Alice
//! ```
//!
//! In tables, values are right-aligned and names are left-aligned, as in cqlsh. Widths are in columns of the
//! terminal: a Chinese character takes two.

use unicode_width::UnicodeWidthStr;

use super::style::{Style, paint};

/// The text of a table cell: one line without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub style: Style,
}

impl Cell {
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

/// The widest cell of each column.
fn column_widths(header: &[Cell], rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths: Vec<usize> = header.iter().map(Cell::width).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    widths
}

/// The length of the longest line that [`write_table`] writes.
pub fn table_width(header: &[Cell], rows: &[Vec<Cell>]) -> usize {
    let widths = column_widths(header, rows);
    widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1)
}

/// Appends a table. Each row has as many cells as the header. The header is left out of pages that continue
/// another one.
pub fn write_table(out: &mut String, header: &[Cell], rows: &[Vec<Cell>], with_header: bool, color: bool) {
    let widths = column_widths(header, rows);
    if with_header {
        let last = header.len().saturating_sub(1);
        for (i, (cell, &width)) in header.iter().zip(&widths).enumerate() {
            out.push_str(if i > 0 { " | " } else { " " });
            paint(out, &cell.text, cell.style, color);
            if i < last {
                pad(out, width - cell.width());
            }
        }
        out.push('\n');
        for (i, width) in widths.iter().enumerate() {
            out.push_str(if i > 0 { "+" } else { "" });
            out.extend(std::iter::repeat_n('-', width + 2));
        }
        out.push('\n');
    }
    for row in rows {
        for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            out.push_str(if i > 0 { " | " } else { " " });
            pad(out, width - cell.width());
            paint(out, &cell.text, cell.style, color);
        }
        out.push('\n');
    }
}

/// Appends each row as lines `name | value`. The first row has the number `first_row`.
pub fn write_expanded(out: &mut String, header: &[Cell], rows: &[Vec<Cell>], first_row: usize, color: bool) {
    let names_width = header.iter().map(Cell::width).max().unwrap_or(0);
    let values_width = rows.iter().flatten().map(Cell::width).max().unwrap_or(0);
    for (i, row) in rows.iter().enumerate() {
        *out += &format!("@ Row {}\n", first_row + i);
        out.extend(std::iter::repeat_n('-', names_width + 2));
        out.push('+');
        out.extend(std::iter::repeat_n('-', values_width + 2));
        out.push('\n');
        for (name, cell) in header.iter().zip(row) {
            out.push(' ');
            paint(out, &name.text, name.style, color);
            pad(out, names_width - name.width());
            out.push_str(" | ");
            paint(out, &cell.text, cell.style, color);
            out.push('\n');
        }
        out.push('\n');
    }
}

fn pad(out: &mut String, columns: usize) {
    out.extend(std::iter::repeat_n(' ', columns));
}

/// Appends names in columns, sorted down each column, in lines of at most `width` terminal columns.
pub fn write_columns(out: &mut String, names: &[String], width: usize) {
    let widest = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    let columns = (width / widest.max(1)).max(1);
    let lines = names.len().div_ceil(columns);
    for line in 0..lines {
        let row: Vec<&String> = names.iter().skip(line).step_by(lines).collect();
        for (i, name) in row.iter().enumerate() {
            out.push_str(name);
            if i + 1 < row.len() {
                pad(out, widest - name.width());
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses lines of words; the first line is the header.
    fn cells(table: &str) -> (Vec<Cell>, Vec<Vec<Cell>>) {
        let mut lines = table.lines().map(|line| {
            line.split_whitespace().map(|word| Cell::new(word, Style::Plain)).collect::<Vec<_>>()
        });
        (lines.next().unwrap(), lines.collect())
    }

    #[track_caller]
    fn check(table: &str, expect: &[&str]) {
        let (header, rows) = cells(table);
        let mut out = String::new();
        write_table(&mut out, &header, &rows, true, false);
        assert_eq!(out.lines().collect::<Vec<_>>(), expect);
        assert_eq!(Some(table_width(&header, &rows)), out.lines().map(UnicodeWidthStr::width).max());
    }

    #[test]
    fn values_stand_right_and_names_left() {
        check(
            "id name\n1 Alice\n200 Bob",
            &[
                " id  | name", //
                "-----+-------",
                "   1 | Alice",
                " 200 |   Bob",
            ],
        );
        check("count\n3", &[" count", "-------", "     3"]);
        check("a b", &[" a | b", "---+---"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_accents_none() {
        check("k v\n日本 x\ne\u{301} 🦀", &[" k    | v", "------+----", " 日本 |  x", "    e\u{301} | 🦀"]);
    }

    #[test]
    fn colour_does_not_count() {
        let header = [Cell::new("k", Style::PartitionKey), Cell::new("v", Style::Column)];
        let rows = [vec![Cell::new("10", Style::Scalar), Cell::new("null", Style::Null)]];
        let mut out = String::new();
        write_table(&mut out, &header, &rows, true, true);
        let plain = out
            .replace("\x1b[0m", "")
            .replace("\x1b[1;31m", "")
            .replace("\x1b[1;35m", "")
            .replace("\x1b[32m", "");
        assert_eq!(plain, " k  | v\n----+------\n 10 | null\n");
        assert!(out.contains("\x1b[1;31mnull\x1b[0m"));
    }

    #[test]
    fn a_page_that_follows_has_no_header() {
        let (header, rows) = cells("a b\n1 2");
        let mut out = String::new();
        write_table(&mut out, &header, &rows, false, false);
        assert_eq!(out, " 1 | 2\n");
    }

    #[test]
    fn expanded_rows() {
        let (header, rows) = cells("id name\n1 Alice\n2 B");
        let mut out = String::new();
        write_expanded(&mut out, &header, &rows, 7, false);
        assert_eq!(
            out.lines().collect::<Vec<_>>(),
            [
                "@ Row 7",
                "------+-------",
                " id   | 1",
                " name | Alice",
                "",
                "@ Row 8",
                "------+-------",
                " id   | 2",
                " name | B",
                "",
            ]
        );
    }

    #[test]
    fn names_go_down_first() {
        let names: Vec<String> = ["a", "bb", "c", "d", "e"].map(str::to_string).to_vec();
        let mut out = String::new();
        write_columns(&mut out, &names, 8);
        assert_eq!(out, "a   d\nbb  e\nc\n");
        let mut narrow = String::new();
        write_columns(&mut narrow, &names, 1);
        assert_eq!(narrow.lines().count(), 5);
    }
}
