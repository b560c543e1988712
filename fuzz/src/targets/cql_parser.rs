//! Any text is a statement that prints as itself, or a short error with its position. A script is split into
//! statements only between characters.

use syntax::{Selection, Statement, parse, split_statements, tokens};

/// The errors that have no position, as in Cassandra.
const WITHOUT_POSITION: [&str; 4] = [
    "Only expressions of the form X = ",
    "Multiple definition",
    "Invalid (reserved) user type name ",
    "frozen<> is only allowed on collections, tuples, and user-defined types (got ",
];

pub fn examine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check_tokens(text);
    for part in split_statements(text) {
        assert!(text[part.start..].starts_with(part.text));
    }
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let message = error.to_string();
            let has_position = message.starts_with("line ");
            let is_known = has_position || WITHOUT_POSITION.iter().any(|known| message.starts_with(known));
            assert!(is_known && message.len() < 1000, "{message}");
            return;
        }
    };
    assert!(parsed.markers.iter().enumerate().all(|(i, marker)| marker.index == i));
    if let Statement::Select(select) = &parsed.statement
        && let Selection::Items(items) = &select.selection
    {
        items.iter().for_each(|item| drop(item.column_name()));
    }
    let printed = parsed.statement.to_string();
    // Unsupported statements are not parsed completely, so they are not printed.
    if !matches!(parsed.statement, Statement::Unsupported(_)) && !printed.contains('…') {
        assert_eq!(parse(&printed).as_ref(), Ok(&parsed), "{printed}");
    }
}

fn check_tokens(text: &str) {
    let mut end = 0;
    for token in tokens(text) {
        let (start, token_end) = (token.span.start as usize, token.span.end as usize);
        assert!(text[end..start].chars().all(|c| " \t\r\n".contains(c)) && start < token_end);
        end = token_end;
    }
    assert!(text[end..].chars().all(|c| " \t\r\n".contains(c)));
}
