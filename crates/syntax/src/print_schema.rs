//! Prints statements on the schema as CQL text, and dispatches on the kind of statement.

use std::fmt::{self, Display, Formatter};

use super::ast::{
    AlterKeyspace, AlterTable, AlterTableOp, AlterType, AlterTypeOp, ClusteringOrder, ColumnDef,
    CreateKeyspace, CreateTable, CreateType, Describe, DescribeTarget, DropKeyspace, DropTable, DropType,
    Mask, PrimaryKeyDef, Property, PropertyValue, Statement, TableProperties,
};
use super::print::{Entries, FunctionName, NoKeyword, Separated, UserTypeName};

impl Display for Statement {
    /// [`Statement::Unsupported`] prints only the part that the tree keeps: its first
    /// words.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use(keyspace) => write!(f, "USE {keyspace}"),
            Self::Select(select) => select.fmt(f),
            Self::Insert(insert) => insert.fmt(f),
            Self::Update(update) => update.fmt(f),
            Self::Delete(delete) => delete.fmt(f),
            Self::Batch(batch) => batch.fmt(f),
            Self::Truncate(truncate) => truncate.fmt(f),
            Self::CreateKeyspace(create) => create.fmt(f),
            Self::AlterKeyspace(alter) => alter.fmt(f),
            Self::DropKeyspace(drop) => drop.fmt(f),
            Self::CreateTable(create) => create.fmt(f),
            Self::AlterTable(alter) => alter.fmt(f),
            Self::DropTable(drop) => drop.fmt(f),
            Self::CreateType(create) => create.fmt(f),
            Self::AlterType(alter) => alter.fmt(f),
            Self::DropType(drop) => drop.fmt(f),
            Self::CreateIndex(create) => create.fmt(f),
            Self::DropIndex(drop) => drop.fmt(f),
            Self::CreateView(create) => create.fmt(f),
            Self::AlterView(alter) => alter.fmt(f),
            Self::DropView(drop) => drop.fmt(f),
            Self::CreateFunction(create) => create.fmt(f),
            Self::DropFunction(drop) => write!(f, "DROP FUNCTION {drop}"),
            Self::CreateAggregate(create) => create.fmt(f),
            Self::DropAggregate(drop) => write!(f, "DROP AGGREGATE {drop}"),
            Self::Describe(describe) => describe.fmt(f),
            Self::Access(access) => access.fmt(f),
            Self::Unsupported(unsupported) => f.write_str(unsupported.what),
        }
    }
}

pub(super) fn if_exists(is_set: bool) -> &'static str {
    if is_set { "IF EXISTS " } else { "" }
}

pub(super) fn if_not_exists(is_set: bool) -> &'static str {
    if is_set { "IF NOT EXISTS " } else { "" }
}

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

impl Display for PropertyValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Word(word) => word.fmt(f),
            Self::Map { entries, .. } => write!(f, "{{{}}}", Entries(entries, ": ")),
        }
    }
}

impl Display for CreateKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let condition = if_not_exists(self.if_not_exists);
        write!(f, "CREATE KEYSPACE {condition}{} WITH {}", self.name, Separated(&self.properties, " AND "))
    }
}

impl Display for AlterKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let condition = if_exists(self.if_exists);
        write!(f, "ALTER KEYSPACE {condition}{} WITH {}", self.name, Separated(&self.properties, " AND "))
    }
}

impl Display for DropKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP KEYSPACE {}{}", if_exists(self.if_exists), self.name)
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TABLE {}{} (", if_not_exists(self.if_not_exists), self.name)?;
        write!(f, "{}", Separated(&self.columns, ", "))?;
        for (i, key) in self.primary_keys.iter().enumerate() {
            let separator = if i == 0 && self.columns.is_empty() { "" } else { ", " };
            write!(f, "{separator}{key}")?;
        }
        write!(f, "){}", self.with)
    }
}

impl Display for ColumnDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.ty)?;
        if self.is_static {
            f.write_str(" STATIC")?;
        }
        self.mask.iter().try_for_each(|mask| write!(f, " MASKED WITH {mask}"))
    }
}

impl Display for Mask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.function, Separated(&self.arguments, ", "))
    }
}

impl Display for PrimaryKeyDef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PRIMARY KEY (({})", Separated(&self.partition, ", "))?;
        self.clustering.iter().try_for_each(|column| write!(f, ", {column}"))?;
        f.write_str(")")
    }
}

impl Display for TableProperties {
    /// Prints the clause with a leading space, or nothing if it is empty.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut word = "WITH";
        if self.compact_storage.is_some() {
            write!(f, " {word} COMPACT STORAGE")?;
            word = "AND";
        }
        if !self.clustering_order.is_empty() {
            write!(f, " {word} CLUSTERING ORDER BY ({})", Separated(&self.clustering_order, ", "))?;
            word = "AND";
        }
        for property in &self.properties {
            write!(f, " {word} {property}")?;
            word = "AND";
        }
        Ok(())
    }
}

impl Display for ClusteringOrder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.column, self.ordering)
    }
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TABLE {}{} {}", if_exists(self.if_exists), self.name, self.op)
    }
}

impl Display for AlterTableOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { if_not_exists: condition, columns } => {
                write!(f, "ADD {}({})", if_not_exists(*condition), Separated(columns, ", "))
            }
            Self::Drop { if_exists: condition, columns, timestamp } => {
                write!(f, "DROP {}({})", if_exists(*condition), Separated(columns, ", "))?;
                timestamp.iter().try_for_each(|timestamp| write!(f, " USING TIMESTAMP {timestamp}"))
            }
            Self::Rename { if_exists: condition, columns } => {
                write!(f, "RENAME {}", if_exists(*condition))?;
                write_renames(f, columns)
            }
            Self::AlterType { column, ty } => write!(f, "ALTER {column} TYPE {ty}"),
            Self::DropCompactStorage => f.write_str("DROP COMPACT STORAGE"),
            Self::Mask { if_exists: condition, column, mask: Some(mask) } => {
                write!(f, "ALTER {}{column} MASKED WITH {mask}", if_exists(*condition))
            }
            Self::Mask { if_exists: condition, column, mask: None } => {
                write!(f, "ALTER {}{column} DROP MASKED", if_exists(*condition))
            }
            Self::With(properties) => write!(f, "WITH {}", Separated(properties, " AND ")),
        }
    }
}

fn write_renames<T: Display>(f: &mut Formatter<'_>, renames: &[(T, T)]) -> fmt::Result {
    for (i, (from, to)) in renames.iter().enumerate() {
        let separator = if i > 0 { " AND " } else { "" };
        write!(f, "{separator}{from} TO {to}")?;
    }
    Ok(())
}

impl Display for DropTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP TABLE {}{}", if_exists(self.if_exists), self.name)
    }
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let condition = if_not_exists(self.if_not_exists);
        write!(f, "CREATE TYPE {condition}{} ({})", UserTypeName(&self.name), Entries(&self.fields, " "))
    }
}

impl Display for AlterType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TYPE {}{} ", if_exists(self.if_exists), UserTypeName(&self.name))?;
        match &self.op {
            AlterTypeOp::Add { if_not_exists: condition, field, ty } => {
                write!(f, "ADD {}{field} {ty}", if_not_exists(*condition))
            }
            AlterTypeOp::AlterField { field, ty } => write!(f, "ALTER {field} TYPE {ty}"),
            AlterTypeOp::Rename { if_exists: condition, fields } => {
                write!(f, "RENAME {}", if_exists(*condition))?;
                write_renames(f, fields)
            }
        }
    }
}

impl Display for DropType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP TYPE {}{}", if_exists(self.if_exists), UserTypeName(&self.name))
    }
}

impl Display for Describe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE {}", self.target)?;
        if self.with_internals {
            f.write_str(" WITH INTERNALS")?;
        }
        if self.with_passwords {
            f.write_str(" AND PASSWORDS")?;
        }
        Ok(())
    }
}

impl Display for DescribeTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("CLUSTER"),
            Self::Schema { full: false } => f.write_str("SCHEMA"),
            Self::Schema { full: true } => f.write_str("FULL SCHEMA"),
            Self::Keyspaces => f.write_str("KEYSPACES"),
            Self::Keyspace { name, only } => {
                f.write_str(if *only { "ONLY KEYSPACE" } else { "KEYSPACE" })?;
                name.iter().try_for_each(|name| write!(f, " {name}"))
            }
            Self::Tables => f.write_str("TABLES"),
            Self::Table(name) => write!(f, "TABLE {name}"),
            Self::Index(name) => write!(f, "INDEX {name}"),
            Self::MaterializedView(name) => write!(f, "MATERIALIZED VIEW {name}"),
            Self::Types => f.write_str("TYPES"),
            Self::Type(name) => write!(f, "TYPE {}", UserTypeName(name)),
            Self::Functions => f.write_str("FUNCTIONS"),
            Self::Function(name) => write!(f, "FUNCTION {}", FunctionName(name)),
            Self::Aggregates => f.write_str("AGGREGATES"),
            Self::Aggregate(name) => write!(f, "AGGREGATE {}", FunctionName(name)),
            Self::Any(name) => NoKeyword(name).fmt(f),
        }
    }
}
