//! Why a node cannot start, or did not end well.

use std::fmt;

/// The reason as a text for the operator, with the next step.
#[derive(Debug)]
pub struct ServeError(pub String);

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServeError {}

impl From<String> for ServeError {
    fn from(text: String) -> Self {
        Self(text)
    }
}
