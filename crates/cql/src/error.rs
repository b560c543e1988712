//! Conversion of errors of the catalog and of this crate to errors of the native protocol.

use catalog::CatalogError;
use model::TableSchema;
use model::types::push_identifier;
use protocol::CqlError;

/// Converts an error of the catalog to the error that the client receives.
pub fn from_catalog(error: CatalogError) -> CqlError {
    match error {
        CatalogError::AlreadyExists { keyspace, table } => CqlError::AlreadyExists { keyspace, table },
        CatalogError::Invalid(text) => CqlError::Invalid(text),
        CatalogError::Syntax(text) => CqlError::Syntax(text),
        CatalogError::Configuration(text) => CqlError::Config(text),
        CatalogError::Unauthorized(text) => CqlError::Unauthorized(text),
        CatalogError::Corrupt(text) => CqlError::Server(text),
    }
}

/// The error for a column that the table does not have. The name is written as CQL.
pub(crate) fn undefined_column<T>(schema: &TableSchema, name: &str) -> Result<T, CqlError> {
    let mut written = String::new();
    push_identifier(&mut written, name);
    Err(CqlError::Invalid(format!("Undefined column name {written} in table {}", schema.full_name())))
}

/// Builds `Err(CqlError::Invalid)` from a format string.
macro_rules! invalid {
    ($($arg:tt)*) => {
        Err(protocol::CqlError::Invalid(format!($($arg)*)))
    };
}
pub(crate) use invalid;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_catalog() {
        let exists = |table: &str| CatalogError::AlreadyExists { keyspace: "ks".into(), table: table.into() };
        for error in [exists(""), exists("t"), CatalogError::Corrupt("torn".into())] {
            assert_eq!(from_catalog(error.clone()).to_string(), error.to_string());
        }
    }
}
