//! SELECT, INSERT, UPDATE, DELETE, BATCH, TRUNCATE as CQL text.

use std::fmt::{self, Display, Formatter};

use super::ast::{
    Assignment, AssignmentOp, Batch, BatchKind, CompareOp, Condition, ConditionTest, Conditions, Delete,
    DeleteTarget, InValues, Insert, InsertValues, Modification, OrderBy, Ordering, Relation, RelationTarget,
    Select, SelectItem, Selection, Truncate, Update, Using,
};
use super::print::Separated;

/// Prints ` word value`, or nothing if there is no value.
fn clause<T: Display>(f: &mut Formatter<'_>, word: &str, value: &Option<T>) -> fmt::Result {
    value.iter().try_for_each(|value| write!(f, " {word} {value}"))
}

/// Prints ` word item separator item`, or nothing if there are no items.
fn clauses<T: Display>(
    f: &mut Formatter<'_>,
    word: &str,
    items: &[T],
    separator: &'static str,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, " {word} {}", Separated(items, separator))
}

fn flag(f: &mut Formatter<'_>, words: &str, is_set: bool) -> fmt::Result {
    if is_set { write!(f, " {words}") } else { Ok(()) }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT")?;
        flag(f, "JSON", self.json)?;
        flag(f, "DISTINCT", self.distinct)?;
        match &self.selection {
            Selection::All => f.write_str(" *")?,
            Selection::Items(items) => write!(f, " {}", Separated(items, ", "))?,
        }
        write!(f, " FROM {}", self.table)?;
        clauses(f, "WHERE", &self.relations, " AND ")?;
        clauses(f, "GROUP BY", &self.group_by, ", ")?;
        clauses(f, "ORDER BY", &self.order_by, ", ")?;
        clause(f, "PER PARTITION LIMIT", &self.per_partition_limit)?;
        clause(f, "LIMIT", &self.limit)?;
        flag(f, "ALLOW FILTERING", self.allow_filtering)?;
        flag(f, "BYPASS CACHE", self.bypass_cache)?;
        self.using.fmt(f)
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.selector.fmt(f)?;
        clause(f, "AS", &self.alias)
    }
}

impl Display for OrderBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.column.fmt(f)?;
        clause(f, "ANN OF", &self.ann_of)?;
        flag(f, "DESC", self.ordering == Ordering::Descending)
    }
}

impl Display for Ordering {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ascending => "ASC",
            Self::Descending => "DESC",
        })
    }
}

impl Display for Using {
    /// Prints the clause with a leading space, or nothing if it is empty.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut word = "USING";
        for (name, value) in [("TTL", &self.ttl), ("TIMESTAMP", &self.timestamp), ("TIMEOUT", &self.timeout)]
        {
            if let Some(value) = value {
                write!(f, " {word} {name} {value}")?;
                word = "AND";
            }
        }
        if let Some(level) = &self.service_level {
            write!(f, " {word} SERVICE LEVEL {level}")?;
        }
        Ok(())
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { target, op, value, .. } => write!(f, "{target} {op} {value}"),
            Self::In { target, values, .. } => write!(f, "{target} IN {values}"),
            Self::IsNotNull { column, .. } => write!(f, "{column} IS NOT NULL"),
            Self::IndexExpression { index, value, .. } => write!(f, "expr({index}, {value})"),
        }
    }
}

impl Display for RelationTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => column.fmt(f),
            Self::Element { column, key } => write!(f, "{column}[{key}]"),
            Self::Field { column, field } => write!(f, "{column}.{field}"),
            Self::Token { columns, .. } => write!(f, "token({})", Separated(columns, ", ")),
            Self::Tuple { columns, .. } => write!(f, "({})", Separated(columns, ", ")),
        }
    }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "=",
            Self::NotEq => "!=",
            Self::Less => "<",
            Self::LessEq => "<=",
            Self::Greater => ">",
            Self::GreaterEq => ">=",
            Self::Contains => "CONTAINS",
            Self::ContainsKey => "CONTAINS KEY",
            Self::Like => "LIKE",
        })
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(terms) => write!(f, "({})", Separated(terms, ", ")),
            Self::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for Modification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert(insert) => insert.fmt(f),
            Self::Update(update) => update.fmt(f),
            Self::Delete(delete) => delete.fmt(f),
        }
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "INSERT INTO {} ", self.table)?;
        match &self.values {
            InsertValues::Columns { columns, values } => {
                write!(f, "({}) VALUES ({})", Separated(columns, ", "), Separated(values, ", "))?;
            }
            InsertValues::Json { value, default_unset } => {
                write!(f, "JSON {value}")?;
                flag(f, "DEFAULT UNSET", *default_unset)?;
            }
        }
        flag(f, "IF NOT EXISTS", self.if_not_exists)?;
        self.using.fmt(f)
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "UPDATE {}{}", self.table, self.using)?;
        clauses(f, "SET", &self.assignments, ", ")?;
        clauses(f, "WHERE", &self.relations, " AND ")?;
        clause(f, "IF", &self.conditions)
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match &self.op {
            AssignmentOp::Set(value) => write!(f, "{column} = {value}"),
            AssignmentOp::Add(value) => write!(f, "{column} = {column} + {value}"),
            AssignmentOp::Prepend(value) => write!(f, "{column} = {value} + {column}"),
            AssignmentOp::Subtract(value) => write!(f, "{column} = {column} - {value}"),
            AssignmentOp::SetElement { key, value } => write!(f, "{column}[{key}] = {value}"),
            AssignmentOp::SetField { field, value } => write!(f, "{column}.{field} = {value}"),
        }
    }
}

impl Display for Conditions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("EXISTS"),
            Self::All(conditions) => Separated(conditions, " AND ").fmt(f),
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.test {
            ConditionTest::Compare(op, value) => write!(f, "{} {op} {value}", self.target),
            ConditionTest::In(values) => write!(f, "{} IN {values}", self.target),
        }
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DELETE")?;
        clauses(f, "", &self.targets, ", ")?;
        write!(f, " FROM {}{}", self.table, self.using)?;
        clauses(f, "WHERE", &self.relations, " AND ")?;
        clause(f, "IF", &self.conditions)
    }
}

impl Display for DeleteTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => column.fmt(f),
            Self::Element { column, key } => write!(f, "{column}[{key}]"),
            Self::Field { column, field } => write!(f, "{column}.{field}"),
        }
    }
}

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{}", self.using)?;
        self.modifications.iter().try_for_each(|modification| write!(f, " {modification};"))?;
        f.write_str(" APPLY BATCH")
    }
}

impl Display for Truncate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TRUNCATE TABLE {}{}", self.table, self.using)
    }
}
