//! Errors of type names, of serialized values, and of literals.

use std::fmt;

/// One sentence for a user: the expected and the found text and, if there is a position, the byte offset. The
/// wording of value errors is Cassandra's, because clients already match on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    message: Box<str>,
}

impl TypeError {
    /// An error with this text for the client.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into().into_boxed_str() }
    }

    /// The text for the client.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TypeError {}

/// `Err(TypeError)` from a format string.
macro_rules! type_err {
    ($($arg:tt)*) => {
        Err($crate::types::TypeError::new(format!($($arg)*)))
    };
}
pub(crate) use type_err;

/// The first 60 characters of `text` at most, for errors that quote their input.
pub(crate) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(60).collect();
    if chars.next().is_some() { format!("{head}…") } else { head }
}
