//! What can be wrong with a type's name, with bytes said to be of a type, or with a literal.

use std::fmt;

/// One sentence a person can act on: what was expected, what was found and, where there is a position,
/// at which byte. The wording of value errors follows Cassandra's, since clients already match on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    message: Box<str>,
}

impl TypeError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into().into_boxed_str() }
    }

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

/// At most the first 60 characters of `text`, for an error that repeats what it was given.
pub(crate) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(60).collect();
    if chars.next().is_some() { format!("{head}…") } else { head }
}
