//! Prints statements on user-defined functions and aggregates as CQL text.

use std::fmt::{self, Display, Formatter};

use super::ast::{CreateAggregate, CreateFunction, DropFunction, Ident, QualifiedName};
use super::print::{FunctionName, Quoted, Separated};
use super::print_schema::{if_exists, if_not_exists};

fn or_replace(or_replace: bool) -> &'static str {
    if or_replace { "OR REPLACE " } else { "" }
}

impl Display for CreateFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        let null = if self.called_on_null { "CALLED" } else { "RETURNS NULL" };
        write!(
            f,
            "CREATE {}FUNCTION {}{} ({}) {null} ON NULL INPUT RETURNS {} LANGUAGE {} AS {}",
            or_replace(self.or_replace),
            if_not_exists(self.if_not_exists),
            FunctionName(&self.name),
            Separated(&arguments, ", "),
            self.returns,
            self.language,
            Quoted(&self.body)
        )
    }
}

impl Display for CreateAggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = |name: &Ident| QualifiedName { keyspace: None, name: name.clone() };
        write!(
            f,
            "CREATE {}AGGREGATE {}{} ({}) SFUNC {} STYPE {}",
            or_replace(self.or_replace),
            if_not_exists(self.if_not_exists),
            FunctionName(&self.name),
            Separated(&self.arguments, ", "),
            FunctionName(&own(&self.state_function)),
            self.state_type
        )?;
        if let Some(name) = &self.final_function {
            write!(f, " FINALFUNC {}", FunctionName(&own(name)))?;
        }
        self.initial.iter().try_for_each(|initial| write!(f, " INITCOND {initial}"))
    }
}

/// Prints what follows DROP FUNCTION or DROP AGGREGATE.
impl Display for DropFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if_exists(self.if_exists), FunctionName(&self.name))?;
        self.arguments.iter().try_for_each(|arguments| write!(f, " ({})", Separated(arguments, ", ")))
    }
}
