//! The WHERE of UPDATE and DELETE: from relations to the keys they name.
//!
//! Texts of errors follow Cassandra 4.1 `cql3/restrictions/StatementRestrictions.java`.

use model::types::CqlType;
use model::{KeyColumn, TableSchema};

use super::target::{Bound, KeyPart, Keys, Ranges, Rows};
use crate::CqlError;
use crate::error::invalid;
use crate::syntax::{CompareOp, Ident, InValues, Relation, RelationTarget, Term};
use crate::term::{Expr, Planner};

/// What WHERE says of one run of neighbouring clustering columns, or of one partition key column.
enum Said {
    Values(KeyPart),
    Bounds { lower: Option<Bound>, upper: Option<Bound>, width: usize },
}

/// Where a key column stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Partition(usize),
    Clustering(usize),
}

/// What the relations come to. `statement` is its name in errors; `ranges`: whether it takes ranges of rows.
pub fn prepare(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    relations: &[Relation],
    statement: &str,
    ranges: bool,
) -> Result<(Keys, Rows), CqlError> {
    let mut partition: Vec<Option<KeyPart>> = schema.partition_key.iter().map(|_| None).collect();
    let mut clustering: Vec<Option<Said>> = schema.clustering.iter().map(|_| None).collect();
    let mut others: Vec<&str> = Vec::new();
    for relation in relations {
        let columns = columns_of(relation, statement)?;
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            match place_of(schema, &column.text)? {
                Some(place) => places.push((column, place)),
                None => others.push(&column.text),
            }
        }
        let (Some((first, place)), true) = (places.first().copied(), places.len() == columns.len()) else {
            continue;
        };
        match place {
            Place::Partition(at) => {
                if places.len() > 1 {
                    return invalid!(
                        "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                        first.text
                    );
                }
                let said = one_relation(planner, schema, relation, &schema.partition_key[at..=at])?;
                let Said::Values(part) = said else {
                    return invalid!(
                        "Only EQ and IN relation are supported on the partition key (unless you use the token() \
                         function) for {statement} statements"
                    );
                };
                if partition[at].replace(part).is_some() {
                    return more_than_once(&first.text);
                }
            }
            Place::Clustering(at) => {
                let follow = places.iter().zip(at..).all(|((_, place), at)| *place == Place::Clustering(at));
                if !follow {
                    return invalid!(
                        "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: ({})",
                        columns.iter().map(|column| column.text.as_str()).collect::<Vec<_>>().join(", ")
                    );
                }
                let run = &schema.clustering[at..at + places.len()];
                let said = one_relation(planner, schema, relation, run)?;
                if matches!(said, Said::Bounds { .. }) && !ranges {
                    return invalid!(
                        "Slice restrictions are not supported on the clustering columns in {statement} statements"
                    );
                }
                add(&mut clustering, at, said, &first.text)?;
            }
        }
    }
    if !others.is_empty() {
        return invalid!("Non PRIMARY KEY columns found in where clause: {}", others.join(", "));
    }
    let partition = whole(&schema.partition_key, partition)?;
    Ok((Keys::new(partition), rows(schema, clustering, statement, ranges)?))
}

/// The parts of a key of which every column is needed.
fn whole(columns: &[KeyColumn], parts: Vec<Option<KeyPart>>) -> Result<Vec<KeyPart>, CqlError> {
    let missing: Vec<&str> =
        columns.iter().zip(&parts).filter(|(_, part)| part.is_none()).map(|(c, _)| c.name.as_str()).collect();
    if !missing.is_empty() {
        return invalid!("Some partition key parts are missing: {}", missing.join(", "));
    }
    Ok(parts.into_iter().flatten().collect())
}

fn more_than_once<T>(column: &str) -> Result<T, CqlError> {
    invalid!("{column} cannot be restricted by more than one relation if it includes an Equal")
}

fn add(clustering: &mut [Option<Said>], at: usize, said: Said, name: &str) -> Result<(), CqlError> {
    match (&mut clustering[at], said) {
        (empty @ None, said) => *empty = Some(said),
        (
            Some(Said::Bounds { lower, upper, width }),
            Said::Bounds { lower: more_lower, upper: more_upper, width: more_width },
        ) if *width == more_width => {
            if lower.is_some() && more_lower.is_some() {
                return invalid!("More than one restriction was found for the start bound on {name}");
            }
            if upper.is_some() && more_upper.is_some() {
                return invalid!("More than one restriction was found for the end bound on {name}");
            }
            *lower = lower.take().or(more_lower);
            *upper = upper.take().or(more_upper);
        }
        (Some(_), _) => return more_than_once(name),
    }
    Ok(())
}

/// Puts what was said of the clustering columns together.
fn rows(
    schema: &TableSchema,
    said: Vec<Option<Said>>,
    statement: &str,
    ranges: bool,
) -> Result<Rows, CqlError> {
    if schema.clustering.is_empty() {
        return Ok(Rows::Keys(Keys::One(vec![])));
    }
    if said.iter().all(Option::is_none) {
        return Ok(Rows::Unnamed);
    }
    let mut prefix = Vec::new();
    let mut bounds = None;
    let mut covered = 0;
    for (at, said) in said.into_iter().enumerate() {
        if at < covered {
            match said {
                Some(_) => return more_than_once(&schema.clustering[at].name),
                None => continue,
            }
        }
        let Some(said) = said else { continue };
        let name = &schema.clustering[at].name;
        if at > covered {
            let missing = &schema.clustering[covered].name;
            if !ranges {
                return invalid!("Some clustering keys are missing: {missing}");
            }
            return invalid!(
                "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{missing}\" is not \
                 restricted"
            );
        }
        if bounds.is_some() {
            return invalid!(
                "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is restricted by a \
                 non-EQ relation)",
                schema.clustering[covered.saturating_sub(1)].name
            );
        }
        match said {
            Said::Values(part) => {
                covered += part.width();
                prefix.push(part);
            }
            Said::Bounds { lower, upper, width } => {
                let run = &schema.clustering[at..at + width];
                let descending = run[0].ty.is_reversed();
                if run.iter().any(|column| column.ty.is_reversed() != descending) {
                    return invalid!(
                        "{statement} by bounds on several columns needs columns of one clustering order"
                    );
                }
                covered += width;
                bounds = Some((lower, upper, descending));
            }
        }
    }
    let prefix = Keys::new(prefix);
    match bounds {
        Some((lower, upper, descending)) => Ok(Rows::Ranges(Ranges { prefix, lower, upper, descending })),
        None if covered == schema.clustering.len() => Ok(Rows::Keys(prefix)),
        None if ranges => Ok(Rows::Ranges(Ranges { prefix, lower: None, upper: None, descending: false })),
        None => {
            let missing: Vec<&str> = schema.clustering[covered..].iter().map(|c| c.name.as_str()).collect();
            invalid!("Some clustering keys are missing: {}", missing.join(", "))
        }
    }
}

fn place_of(schema: &TableSchema, name: &str) -> Result<Option<Place>, CqlError> {
    let find = |columns: &[KeyColumn]| columns.iter().position(|column| column.name == name);
    if let Some(at) = find(&schema.partition_key) {
        return Ok(Some(Place::Partition(at)));
    }
    if let Some(at) = find(&schema.clustering) {
        return Ok(Some(Place::Clustering(at)));
    }
    match schema.column_named(name) {
        Some(_) => Ok(None),
        None => invalid!("Undefined column name {name} in table {}", schema.full_name()),
    }
}

fn columns_of<'a>(relation: &'a Relation, statement: &str) -> Result<&'a [Ident], CqlError> {
    let target = match relation {
        Relation::Compare { target, .. } | Relation::In { target, .. } => target,
        Relation::IsNotNull { column, .. } => {
            return invalid!("Unsupported restriction: {column} IS NOT NULL");
        }
        Relation::IndexExpression { .. } => {
            return invalid!(
                "Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements"
            );
        }
    };
    Ok(match target {
        RelationTarget::Column(column)
        | RelationTarget::Element { column, .. }
        | RelationTarget::Field { column, .. } => std::slice::from_ref(column),
        RelationTarget::Tuple { columns, .. } => columns,
        RelationTarget::Token { .. } => {
            return invalid!("The token function cannot be used in WHERE clauses for {statement} statements");
        }
    })
}

/// What one relation says of `columns`, its key columns.
fn one_relation(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    relation: &Relation,
    columns: &[KeyColumn],
) -> Result<Said, CqlError> {
    let names = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(",");
    match relation {
        Relation::Compare { target, op, value, .. } => {
            let part = match target {
                RelationTarget::Column(_) => {
                    KeyPart::Exactly(vec![planner.term(value, &columns[0].name, &columns[0].ty)?])
                }
                RelationTarget::Tuple { .. } => tuple(planner, value, columns, &names)?,
                _ => return not_on_keys(&columns[0].name),
            };
            let width = columns.len();
            let bound = |inclusive| Some(Bound { values: part.clone(), inclusive });
            Ok(match op {
                CompareOp::Eq => Said::Values(part),
                CompareOp::Less => Said::Bounds { lower: None, upper: bound(false), width },
                CompareOp::LessEq => Said::Bounds { lower: None, upper: bound(true), width },
                CompareOp::Greater => Said::Bounds { lower: bound(false), upper: None, width },
                CompareOp::GreaterEq => Said::Bounds { lower: bound(true), upper: None, width },
                CompareOp::NotEq | CompareOp::Contains | CompareOp::ContainsKey | CompareOp::Like => {
                    return invalid!("Unsupported relation on {names} of table {}", schema.full_name());
                }
            })
        }
        Relation::In { target, values, .. } => {
            let is_tuple = match target {
                RelationTarget::Column(_) => false,
                RelationTarget::Tuple { .. } => true,
                _ => return not_on_keys(&columns[0].name),
            };
            Ok(Said::Values(match values {
                InValues::List(values) => {
                    KeyPart::AnyOf(in_list(planner, values, columns, &names, is_tuple)?)
                }
                InValues::Marker(marker) => {
                    let element = if is_tuple { tuple_type(columns) } else { columns[0].ty.clone() };
                    let element = element.without_reversed().freeze();
                    let name =
                        if is_tuple { format!("in({names})") } else { format!("in({})", columns[0].name) };
                    let expr = planner.marker(marker, &name, &CqlType::list(element).freeze());
                    KeyPart::AnyOfList { expr, width: columns.len() }
                }
            }))
        }
        Relation::IsNotNull { .. } | Relation::IndexExpression { .. } => not_on_keys(&columns[0].name),
    }
}

fn not_on_keys<T>(name: &str) -> Result<T, CqlError> {
    invalid!("Only whole columns of the primary key can be restricted, not a part of {name}")
}

fn tuple_type(columns: &[KeyColumn]) -> CqlType {
    CqlType::tuple(columns.iter().map(|column| column.ty.without_reversed().clone()))
}

fn in_list(
    planner: &mut Planner<'_>,
    values: &[Term],
    columns: &[KeyColumn],
    names: &str,
    is_tuple: bool,
) -> Result<Vec<Vec<Expr>>, CqlError> {
    let mut out = Vec::with_capacity(values.len());
    for value in values {
        if !is_tuple {
            out.push(vec![planner.term(value, &columns[0].name, &columns[0].ty)?]);
            continue;
        }
        match tuple(planner, value, columns, names)? {
            KeyPart::Exactly(exprs) => out.push(exprs),
            _ => return invalid!("IN on ({names}) takes tuples, or one marker for all of them"),
        }
    }
    Ok(out)
}

/// A tuple's fields as values of the columns.
fn tuple(
    planner: &mut Planner<'_>,
    value: &Term,
    columns: &[KeyColumn],
    names: &str,
) -> Result<KeyPart, CqlError> {
    match value {
        Term::Tuple { elements, .. } => {
            if elements.len() != columns.len() {
                return invalid!(
                    "Expected {} elements in value tuple, but got {}",
                    columns.len(),
                    elements.len()
                );
            }
            let exprs = elements.iter().zip(columns);
            let exprs = exprs.map(|(element, column)| planner.term(element, &column.name, &column.ty));
            Ok(KeyPart::Exactly(exprs.collect::<Result<_, _>>()?))
        }
        other => {
            let expr = planner.term(other, &format!("({names})"), &tuple_type(columns))?;
            Ok(KeyPart::Tuple { expr, width: columns.len() })
        }
    }
}
