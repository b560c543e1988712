//! The WHERE of a materialized view: restrictions as values that the storage evaluates for each base row.

use model::{TableSchema, ViewCondition, ViewTest};
use protocol::CqlError;
use syntax::Relation;

use super::ColumnRef;
use super::relation::{Restriction, Test, Tests};
use super::terms::{Bound, required};
use crate::error::invalid;
use crate::term::{Env, Planner};

/// Prepares the relations of a view's WHERE, without `IS NOT NULL`. Returns all restricted columns, and the
/// conditions on columns of the primary key.
///
/// # Errors
/// A column is unknown, a term has the wrong type, or a value is null.
pub fn view_conditions(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    relations: &[Relation],
    env: &Env<'_>,
) -> Result<(Vec<ColumnRef>, Vec<ViewCondition>), CqlError> {
    let tests = Tests::prepare(planner, schema, relations)?;
    let mut columns: Vec<ColumnRef> = vec![];
    let mut conditions = vec![];
    for restriction in &tests.restrictions {
        columns.extend(
            restriction
                .columns
                .iter()
                .filter(|column| !columns.contains(column))
                .copied()
                .collect::<Vec<_>>(),
        );
        if restriction.columns.iter().all(|column| column.is_key()) {
            conditions.push(condition(schema, restriction, env)?);
        }
    }
    Ok((columns, conditions))
}

fn condition(
    schema: &TableSchema,
    restriction: &Restriction,
    env: &Env<'_>,
) -> Result<ViewCondition, CqlError> {
    let names: Vec<&str> = restriction.columns.iter().map(|column| column.name(schema)).collect();
    let owned = |values: Vec<super::terms::Bytes<'_>>| -> Vec<Vec<u8>> {
        values.into_iter().map(|value| value.into_owned()).collect()
    };
    let end = |bound: &Option<Bound>| {
        let values =
            |bound: &Bound| Ok::<_, CqlError>((owned(bound.terms.evaluate(env, &names)?), bound.inclusive));
        bound.as_ref().map(values).transpose()
    };
    let test = match &restriction.test {
        Test::Eq(terms) => ViewTest::In(vec![owned(terms.evaluate(env, &names)?)]),
        Test::In(terms) => ViewTest::In(terms.evaluate(env, &names)?.into_iter().map(owned).collect()),
        Test::Slice(slice) => ViewTest::Slice { start: end(&slice.start)?, end: end(&slice.end)? },
        Test::Contains(expr) => ViewTest::Contains(required(expr, env, names[0])?.into_owned()),
        Test::ContainsKey(expr) => ViewTest::ContainsKey(required(expr, env, names[0])?.into_owned()),
        Test::Like(_) | Test::Entry { .. } => {
            return invalid!("The restriction of {} cannot be part of a materialized view", names[0]);
        }
    };
    Ok(ViewCondition { columns: names.into_iter().map(str::to_string).collect(), test })
}
