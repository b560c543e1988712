//! Prints statements on secondary indexes as CQL text.

use std::fmt::{self, Display, Formatter};

use super::ast::{CreateIndex, DropIndex, IndexTarget, TargetPart};
use super::print::{Quoted, Separated};
use super::print_schema::{if_exists, if_not_exists};

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_custom { "CREATE CUSTOM INDEX " } else { "CREATE INDEX " })?;
        f.write_str(if_not_exists(self.if_not_exists))?;
        self.name.iter().try_for_each(|name| write!(f, "{name} "))?;
        write!(f, "ON {} ({})", self.table, Separated(&self.targets, ", "))?;
        self.class.iter().try_for_each(|class| write!(f, " USING {}", Quoted(class)))?;
        if self.properties.is_empty() {
            return Ok(());
        }
        write!(f, " WITH {}", Separated(&self.properties, " AND "))
    }
}

impl Display for IndexTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column { part: TargetPart::Simple, column } => column.fmt(f),
            Self::Column { part, column } => write!(f, "{}({column})", part.name()),
            Self::PartitionKey { columns, .. } => write!(f, "({})", Separated(columns, ", ")),
        }
    }
}

impl Display for DropIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP INDEX {}{}", if_exists(self.if_exists), self.name)
    }
}
