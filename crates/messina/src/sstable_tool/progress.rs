//! Progress of a tool: a line on stderr that is overwritten, if stderr is a terminal, from the second second
//! on.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const FIRST_AFTER: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(200);

pub struct Progress {
    what: String,
    is_terminal: bool,
    started: Instant,
    shown: Option<Instant>,
}

impl Progress {
    #[allow(clippy::disallowed_methods, reason = "a person's time")]
    pub fn new(what: impl Into<String>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { what: what.into(), is_terminal, started: Instant::now(), shown: None }
    }

    /// Shows `done` of `total`, in any unit.
    #[allow(clippy::disallowed_methods, reason = "a person's time")]
    pub fn at(&mut self, done: u64, total: u64) {
        if !self.is_terminal {
            return;
        }
        let now = Instant::now();
        let is_due = match self.shown {
            None => now.duration_since(self.started) >= FIRST_AFTER,
            Some(shown) => now.duration_since(shown) >= EVERY,
        };
        if is_due {
            self.shown = Some(now);
            let percent = done as f64 * 100.0 / total.max(1) as f64;
            eprint!("\r\x1b[K{}: {percent:.0} %", self.what);
            drop(std::io::stderr().flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
            drop(std::io::stderr().flush());
        }
    }
}
