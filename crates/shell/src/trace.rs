//! The trace of a statement, read from the server's `system_traces`.

use super::failure::Failure;
use super::session::{Session, texts};
use super::style::Style;
use super::table::{Cell, write_table};

const COLUMNS: [&str; 4] = ["activity", "source", "elapsed_us", "thread"];

/// The trace's session and its events, or a message that there are none.
///
/// # Errors
/// The connection broke. A server without traces is not an error.
pub fn show(session: &mut Session, id: &str, color: bool) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(id).is_err() {
        return Err(Failure::Command(format!("{id} is not the id of a trace: ids are UUIDs")));
    }
    let head = session.rows(&format!(
        "SELECT command, request, coordinator, duration FROM system_traces.sessions WHERE session_id = {id}"
    ));
    let mut out = format!("\nTracing session: {id}\n");
    let head = match head {
        Ok(rows) => texts(&rows),
        Err(Failure::Refused(_)) => {
            out.push_str("This server keeps no traces (it has no system_traces.sessions).\n");
            return Ok(out);
        }
        Err(failure) => return Err(failure),
    };
    let Some(head) = head.first() else {
        out.push_str("system_traces.sessions has no row for it (yet).\n");
        return Ok(out);
    };
    if let [command, request, coordinator, duration] = head.as_slice() {
        out += &format!("{request} ({command}) by {coordinator}: {duration} us\n");
    }
    let events = session.rows(&format!(
        "SELECT activity, source, source_elapsed, thread FROM system_traces.events WHERE session_id = {id}"
    ))?;
    let header = COLUMNS.map(|name| Cell::new(name, Style::Column));
    let rows: Vec<Vec<Cell>> = texts(&events)
        .into_iter()
        .map(|row| row.into_iter().map(|text| Cell::new(text, Style::Plain)).collect())
        .collect();
    out.push('\n');
    write_table(&mut out, &header, &rows, true, color);
    Ok(out)
}
