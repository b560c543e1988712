//! Records the candidates of a decision, only if an explanation was requested.

use crate::explain::{Attempt, Candidate, Verdict};

#[derive(Debug, Default)]
pub struct Trace {
    /// `None`: nothing is recorded.
    attempts: Option<Vec<Attempt>>,
}

impl Trace {
    pub fn kept() -> Self {
        Self { attempts: Some(vec![]) }
    }

    pub fn into_attempts(self) -> Vec<Attempt> {
        self.attempts.unwrap_or_default()
    }

    /// Begins a rule: the following candidates are recorded under it.
    pub fn rule(&mut self, rule: &'static str) {
        if let Some(attempts) = &mut self.attempts {
            attempts.push(Attempt { rule: rule.into(), candidates: vec![] });
        }
    }

    pub fn saw(&mut self, runs: usize, bytes: u64, dead_bytes: Option<f64>, verdict: Verdict) {
        if let Some(attempt) = self.attempts.as_mut().and_then(|attempts| attempts.last_mut()) {
            let dead_bytes = dead_bytes.map(|bytes| bytes as u64);
            attempt.candidates.push(Candidate { runs, bytes, dead_bytes, verdict });
        }
    }
}
