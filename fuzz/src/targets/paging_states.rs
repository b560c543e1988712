//! Any bytes are a paging state of a SELECT, or are refused.
//!
//! The first byte selects the statement, the second the number of rows per page.

use crate::storage::{run, storage};
use cql::Outcome;
use protocol::Values;

const STATEMENTS: [&str; 8] = [
    "SELECT * FROM wide",
    "SELECT * FROM wide WHERE k = 1",
    "SELECT * FROM wide WHERE k = 1 ORDER BY c DESC LIMIT 3",
    "SELECT k, count(*) FROM wide GROUP BY k, c",
    "SELECT DISTINCT k, s FROM wide",
    "SELECT * FROM wide WHERE k IN (0, 1, 2) AND c > 0",
    "SELECT v FROM wide WHERE v > 0 PER PARTITION LIMIT 2 ALLOW FILTERING",
    "SELECT * FROM pair",
];

pub fn examine(data: &[u8]) {
    let [statement, page_rows, state @ ..] = data else { return };
    let text = STATEMENTS[usize::from(*statement) % STATEMENTS.len()];
    let storage = storage();
    let page_rows = Some(u32::from(page_rows % 4) + 1);
    let mut state = Some(state.to_vec());
    // A position after the last row gives no rows; paging from an invented position also ends.
    for _ in 0..50 {
        let Some(given) = state else { return };
        match run(&storage, text, &Values::default(), page_rows, Some(&given)) {
            Ok(Outcome::Rows(page)) => state = page.paging_state,
            Ok(_) => panic!("rows expected: {text}"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    panic!("{text} does not end from paging state {data:?}");
}
