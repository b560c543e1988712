//! Why a change of the schema is refused, or why the contents of the system tables are not a valid schema.

use std::fmt;

/// The kinds correspond to the error codes of the native protocol. Texts follow Cassandra's where it has the
/// same rule, since clients match on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogError {
    /// The keyspace (`table` is empty) or table exists. Protocol code 0x2400.
    AlreadyExists { keyspace: String, table: String },
    /// The statement cannot be executed on the current schema. Protocol code 0x2200.
    Invalid(String),
    /// The text of a definition cannot be read. Protocol code 0x2000.
    Syntax(String),
    /// A name, option or definition is not allowed. Protocol code 0x2300.
    Configuration(String),
    /// The keyspace belongs to the database. Protocol code 0x2100.
    Unauthorized(String),
    /// The system tables are inconsistent. The text contains table, row, and the expected value.
    Corrupt(String),
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            Self::AlreadyExists { keyspace, table } => {
                write!(f, "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
            }
            Self::Invalid(text)
            | Self::Syntax(text)
            | Self::Configuration(text)
            | Self::Unauthorized(text)
            | Self::Corrupt(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CatalogError {}

/// `Err(CatalogError::Invalid)` from a format string.
macro_rules! invalid {
    ($($arg:tt)*) => {
        Err($crate::error::CatalogError::Invalid(format!($($arg)*)))
    };
}
/// `Err(CatalogError::Configuration)` from a format string.
macro_rules! configuration {
    ($($arg:tt)*) => {
        Err($crate::error::CatalogError::Configuration(format!($($arg)*)))
    };
}
pub(crate) use {configuration, invalid};
