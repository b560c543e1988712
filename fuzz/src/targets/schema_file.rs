//! Any text is a file of CREATE statements, or an error that names the line.

use server::schema_file::parse_schema;

pub fn examine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_schema(text, Some("ks")) {
        Ok(_) => {}
        Err(error) => assert!(error.contains("line ") && error.len() < 2000, "{error}"),
    }
}
