//! Any script with any values runs on a storage in memory: each statement returns an outcome or an error, and
//! the pages of a result together equal the unpaged result.
//!
//! The text ends at the first byte 0. The bytes after it are the values of the bind markers, each with its
//! length in one byte.

use crate::storage::{RESULT_ROWS_MAX, run, storage};
use cql::Outcome;
use protocol::{Value, ValueBuffer, Values};
use syntax::split_statements;

const STATEMENTS_MAX: usize = 6;
const PAGES_MAX: usize = 100;

pub fn examine(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let values = bound(data.get(end + 1..).unwrap_or_default());
    let storage = storage();
    for statement in split_statements(text).into_iter().take(STATEMENTS_MAX) {
        let outcome = match run(&storage, statement.text, &values.values(), None, None) {
            Ok(outcome) => outcome,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let Outcome::Rows(whole) = outcome else { continue };
        assert!(whole.count() < RESULT_ROWS_MAX && whole.paging_state.is_none());
        // now(), uuid() and writetime of a conditional write differ from one execution to the next.
        let lower = statement.text.to_ascii_lowercase();
        if lower.trim_start().starts_with("select")
            && !["now", "uuid", "current", "system"].iter().any(|word| lower.contains(word))
        {
            check_pages(&storage, statement.text, &values.values(), whole.count(), &whole.joined_cells());
        }
    }
}

fn bound(mut bytes: &[u8]) -> ValueBuffer {
    let mut values = ValueBuffer::default();
    while let [len, rest @ ..] = bytes {
        match len {
            0xff => values.push(Value::Null),
            0xfe => values.push(Value::Unset),
            _ => values.push(Value::Bytes(&rest[..usize::from(*len).min(rest.len())])),
        }
        let taken = if *len < 0xfe { usize::from(*len).min(rest.len()) } else { 0 };
        bytes = &rest[taken..];
    }
    values
}

fn check_pages(
    storage: &cql::testing::MemoryCoordinator,
    text: &str,
    values: &Values<'_>,
    count: u32,
    cells: &[u8],
) {
    let (mut state, mut rows, mut bytes) = (None, 0, vec![]);
    for _ in 0..PAGES_MAX {
        let outcome = run(storage, text, values, Some(2), state.as_deref());
        let page = match outcome {
            Ok(Outcome::Rows(page)) => page,
            Ok(_) => panic!("rows become something else in pages: {text}"),
            // Some statements cannot be paged, for example ORDER BY with IN.
            Err(_) => return,
        };
        rows += page.count();
        bytes.extend_from_slice(&page.joined_cells());
        state = page.paging_state;
        if state.is_none() {
            assert_eq!((rows, &bytes[..]), (count, cells), "in pages of two rows: {text}");
            return;
        }
    }
}
