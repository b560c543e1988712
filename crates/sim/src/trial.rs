//! Runs one seed, once or twice. A panic of the node is a failure like any other.

use std::panic::AssertUnwindSafe;

use crate::client::History;
use crate::failure::{Checker, Failure, panic_text};
use crate::seed::{self, Outcome};

/// A seed that failed, with its latest operations.
pub struct Failed {
    pub failure: Failure,
    pub lines: Vec<String>,
}

/// Runs a seed; `again`: twice, and both runs must end the same. Returns the operations of the first run.
pub fn run(seed: u64, again: bool) -> Result<(Outcome, Vec<String>), Failed> {
    let (first, lines) = once(seed)?;
    if again {
        let (second, lines) = once(seed)?;
        if first != second {
            let text = format!("it ended otherwise the second time\n  {first:?}\n  {second:?}");
            return Err(Failed { failure: Failure::new(Checker::Same, text), lines });
        }
    }
    Ok((first, lines))
}

fn once(seed: u64) -> Result<(Outcome, Vec<String>), Failed> {
    let history = History::default();
    let failure = match std::panic::catch_unwind(AssertUnwindSafe(|| seed::run(seed, &history))) {
        Ok(Ok(outcome)) => return Ok((outcome, history.lines())),
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Checker::Panics, panic_text(&*panic)),
    };
    Err(Failed { failure, lines: history.lines() })
}
