//! IF: conditions on a partition's rows that must hold for a write to be applied.
//!
//! A [`Condition`] is prepared once. It is bound to the values of an execution as [`BoundCondition`], which
//! owns its data and is evaluated on a page. A missing value and null are the same. Rules and error messages
//! follow Cassandra 4.1 `cql3/conditions/ColumnCondition.java`.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::types::{CollectionIter, CqlType, MapIter, TupleIter};
use model::{Column, ColumnData, ColumnKind, Row, TableSchema};
use protocol::CqlError;
use reader::Page;
use syntax::{self, CompareOp, ConditionTest, Conditions, InValues, RelationTarget};

use super::existing;
use super::write::RowAt;
use crate::error::{invalid, undefined_column};
use crate::restriction::{self, LikePattern};
use crate::term::{Env, Expr, InList, Planner, Value};

/// A prepared IF.
#[derive(Clone, Debug)]
pub enum Condition {
    Exists,
    NotExists,
    /// Comparisons, which must all hold.
    Columns(Vec<ColumnCondition>),
}

/// A comparison of a column or of a part of it.
#[derive(Clone, Debug)]
pub struct ColumnCondition {
    pub column: Column,
    part: Part<Expr>,
    test: Test,
}

/// The part of the column's value that is compared.
#[derive(Clone, Debug)]
enum Part<K> {
    Whole,
    /// An element, by a map's key or a list's index.
    Element(K),
    Field(u16),
}

#[derive(Clone, Debug)]
enum Test {
    Compare(CompareOp, Expr),
    In(Vec<Expr>),
    /// A list bound to a marker.
    InList(Expr),
}

impl Condition {
    /// Prepares the conditions of an IF.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &TableSchema,
        conditions: &Conditions,
    ) -> Result<Self, CqlError> {
        let conditions = match conditions {
            Conditions::Exists => return Ok(Self::Exists),
            Conditions::All(conditions) => conditions,
        };
        let prepared = conditions.iter().map(|condition| one(planner, schema, condition));
        Ok(Self::Columns(prepared.collect::<Result<_, _>>()?))
    }

    /// The comparisons; empty for EXISTS and NOT EXISTS.
    pub fn columns(&self) -> &[ColumnCondition] {
        match self {
            Self::Columns(columns) => columns,
            Self::Exists | Self::NotExists => &[],
        }
    }

    /// Whether the condition has comparisons, and all of them are of static columns. Such a condition needs
    /// no row.
    pub fn is_only_static(&self) -> bool {
        !self.columns().is_empty() && !self.is_of(ColumnKind::Regular)
    }

    /// Whether a comparison tests a column of this kind.
    pub fn is_of(&self, kind: ColumnKind) -> bool {
        self.columns().iter().any(|condition| condition.column.kind == kind)
    }
}

fn one(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    condition: &syntax::Condition,
) -> Result<ColumnCondition, CqlError> {
    let name = match &condition.target {
        RelationTarget::Column(column)
        | RelationTarget::Element { column, .. }
        | RelationTarget::Field { column, .. } => &column.text,
        RelationTarget::Token { .. } | RelationTarget::Tuple { .. } => {
            return invalid!("IF conditions compare columns, elements and fields");
        }
    };
    let mut keys = schema.partition_key.iter().chain(schema.defined_clustering());
    if keys.any(|key| key.name == *name) {
        return invalid!("PRIMARY KEY column '{name}' cannot have IF conditions");
    }
    let Some(column) = schema.defined_column(name) else {
        return undefined_column(schema, name);
    };
    let (part, part_name, ty) = match &condition.target {
        RelationTarget::Element { key, .. } => match column.ty.without_reversed() {
            CqlType::Map { entry, .. } => (
                Part::Element(planner.term(key, &format!("key({name})"), &entry.0)?),
                format!("value({name})"),
                entry.1.clone(),
            ),
            CqlType::List { element, .. } => (
                Part::Element(planner.term(key, &format!("idx({name})"), &CqlType::Int)?),
                format!("value({name})"),
                (**element).clone(),
            ),
            CqlType::Set { .. } => return invalid!("Invalid element access syntax for set column {name}"),
            _ => return invalid!("Invalid element access syntax for non-collection column {name}"),
        },
        RelationTarget::Field { field, .. } => {
            let CqlType::Udt { user, .. } = column.ty.without_reversed() else {
                return invalid!("Invalid field access syntax for non-UDT column {name}");
            };
            let Some(number) = user.fields.iter().position(|known| known.name == field.text) else {
                return invalid!("Unknown field {} for column {name}", field.text);
            };
            let number = number as u16;
            let field_type = user.fields[usize::from(number)].field_type.clone();
            (Part::Field(number), format!("{name}.{}", field.text), field_type)
        }
        _ => (Part::Whole, name.clone(), column.ty.clone()),
    };
    let test = match &condition.test {
        ConditionTest::Compare(op, value) => {
            match op {
                CompareOp::Contains | CompareOp::ContainsKey => {
                    let (name, element) = contained(&part_name, &ty, *op)?;
                    let test = Test::Compare(*op, planner.term(value, &name, &element)?);
                    return Ok(ColumnCondition { column: column.clone(), part, test });
                }
                CompareOp::Like if !matches!(ty.without_reversed(), CqlType::Text | CqlType::Ascii) => {
                    return invalid!("LIKE is allowed only on string types, which {part_name} is not");
                }
                CompareOp::Like => {}
                CompareOp::Eq | CompareOp::NotEq => {}
                _ if ty.references_duration() => {
                    return invalid!(
                        "Slice conditions ( {op} ) are not supported on {}",
                        match ty.without_reversed() {
                            CqlType::Duration => "durations",
                            CqlType::Tuple(_) => "tuples containing durations",
                            CqlType::Udt { .. } => "UDTs containing durations",
                            _ => "collections containing durations",
                        }
                    );
                }
                _ => {}
            }
            Test::Compare(*op, planner.term(value, &part_name, &ty)?)
        }
        ConditionTest::In(InValues::List(values)) => {
            let values = values.iter().map(|value| planner.term(value, &part_name, &ty));
            Test::In(values.collect::<Result<_, _>>()?)
        }
        ConditionTest::In(InValues::Marker(marker)) => {
            let list = CqlType::list(ty.freeze()).freeze();
            Test::InList(planner.marker(marker, &format!("in({part_name})"), &list))
        }
    };
    Ok(ColumnCondition { column: column.clone(), part, test })
}

fn collection_kind(ty: &CqlType) -> Option<&'static str> {
    match ty {
        CqlType::List { .. } => Some("list"),
        CqlType::Set { .. } => Some("set"),
        CqlType::Map { .. } => Some("map"),
        _ => None,
    }
}

/// Returns the name and the type of the operand of CONTAINS or CONTAINS KEY.
fn contained(name: &str, ty: &CqlType, op: CompareOp) -> Result<(String, CqlType), CqlError> {
    match (op, ty.without_reversed()) {
        (CompareOp::ContainsKey, CqlType::Map { entry, .. }) => Ok((format!("key({name})"), entry.0.clone())),
        (CompareOp::ContainsKey, _) => invalid!("Cannot use CONTAINS KEY on non-map column {name}"),
        (_, CqlType::Map { entry, .. }) => Ok((format!("value({name})"), entry.1.clone())),
        (_, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
            Ok((format!("value({name})"), (**element).clone()))
        }
        _ => invalid!("Cannot use CONTAINS on non-collection column {name}"),
    }
}

/// A condition on one row, with its values.
#[derive(Clone, Debug)]
pub struct BoundCondition {
    /// The row of EXISTS, NOT EXISTS, and conditions on columns that are not static.
    pub at: RowAt,
    requirement: Requirement,
}

#[derive(Clone, Debug)]
enum Requirement {
    Exists,
    NotExists,
    Columns(Vec<Comparison>),
}

#[derive(Clone, Debug)]
struct Comparison {
    column: Column,
    /// For a list: the index as four bytes.
    part: Part<Vec<u8>>,
    /// Type of the compared values.
    ty: CqlType,
    op: CompareOp,
    /// For IN, the alternatives; otherwise a single value. `None` is null.
    values: Vec<Option<Vec<u8>>>,
    /// Why the comparison cannot be made. It is an error only if the comparison is reached.
    fault: Option<String>,
}

impl BoundCondition {
    /// Evaluates the values of a condition on the row `at`.
    pub fn bind(condition: &Condition, at: RowAt, env: &Env<'_>) -> Result<Self, CqlError> {
        let requirement = match condition {
            Condition::Exists => Requirement::Exists,
            Condition::NotExists => Requirement::NotExists,
            Condition::Columns(columns) => {
                let bound = columns.iter().map(|condition| Comparison::bind(condition, env));
                Requirement::Columns(bound.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { at, requirement })
    }

    /// Whether this condition and `other` are on the same row. Comparisons of static columns are on the
    /// static row.
    pub fn shares_row(&self, other: &Self) -> bool {
        let both_on = |row| self.is_on(row) && other.is_on(row);
        both_on(&self.at) || both_on(&RowAt::Static)
    }

    fn is_on(&self, row: &RowAt) -> bool {
        match &self.requirement {
            Requirement::Exists | Requirement::NotExists => self.at == *row,
            Requirement::Columns(comparisons) => {
                comparisons.iter().any(|comparison| match comparison.column.kind {
                    ColumnKind::Static => *row == RowAt::Static,
                    ColumnKind::Regular => *row == self.at,
                })
            }
        }
    }

    /// Checks whether a batch may have this condition and `other`, which is on the same row.
    pub fn agrees_with(&self, other: &Self) -> Result<(), CqlError> {
        // The text depends on the order of both, as in Cassandra.
        const MIXED: &str = "Cannot mix IF conditions and IF NOT EXISTS for the same row";
        match (&self.requirement, &other.requirement) {
            (Requirement::Exists, Requirement::NotExists) | (Requirement::NotExists, Requirement::Exists) => {
                invalid!("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
            }
            (Requirement::Columns(_), Requirement::Exists) => {
                invalid!("Cannot mix IF conditions and IF EXISTS for the same row")
            }
            (Requirement::Columns(_), Requirement::NotExists)
            | (Requirement::NotExists | Requirement::Exists, Requirement::Columns(_)) => invalid!("{MIXED}"),
            _ => Ok(()),
        }
    }

    /// Whether the condition holds for the page that was read from its partition.
    ///
    /// # Errors
    /// A comparison that is reached cannot be made with its values. As in Cassandra, comparisons of static
    /// columns are made first, and none after one that does not hold.
    fn holds(&self, schema: &TableSchema, page: &Page) -> Result<bool, CqlError> {
        let row = self.at.find(schema, page);
        match &self.requirement {
            Requirement::Exists => Ok(row.is_some()),
            Requirement::NotExists => Ok(row.is_none()),
            Requirement::Columns(comparisons) => {
                for kind in [ColumnKind::Static, ColumnKind::Regular] {
                    for comparison in comparisons.iter().filter(|comparison| comparison.column.kind == kind) {
                        let row = match kind {
                            ColumnKind::Static => RowAt::Static.find(schema, page),
                            ColumnKind::Regular => row,
                        };
                        if !comparison.holds(row)? {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
        }
    }
}

/// Whether all conditions hold for the page that was read from their partition.
///
/// # Errors
/// A comparison that is reached cannot be made with its values.
pub fn all_hold(conditions: &[BoundCondition], schema: &TableSchema, page: &Page) -> Result<bool, CqlError> {
    for condition in conditions {
        if !condition.holds(schema, page)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn operand(expr: &Expr, env: &Env<'_>) -> Result<Option<Vec<u8>>, CqlError> {
    match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(Some(bytes.into_owned())),
        Value::Null => Ok(None),
        Value::Unset => invalid!("Invalid 'unset' value in condition"),
    }
}

impl Comparison {
    fn bind(condition: &ColumnCondition, env: &Env<'_>) -> Result<Self, CqlError> {
        let mut fault = None;
        let whole = condition.column.ty.without_reversed();
        let (part, ty) = match (&condition.part, whole) {
            (Part::Element(key), CqlType::Map { entry, .. }) => {
                (element_key(key, env, "map", &mut fault)?, entry.1.clone())
            }
            (Part::Element(key), CqlType::List { element, .. }) => {
                let part = element_key(key, env, "list", &mut fault)?;
                if let Part::Element(index) = &part
                    && let Ok(index) = <[u8; 4]>::try_from(&index[..]).map(i32::from_be_bytes)
                    && index < 0
                {
                    fault = Some(format!("Invalid negative list index {index}"));
                }
                (part, (**element).clone())
            }
            (Part::Field(number), CqlType::Udt { user, .. }) => {
                (Part::Field(*number), user.fields[usize::from(*number)].field_type.clone())
            }
            _ => (Part::Whole, whole.clone()),
        };
        let (op, values) = match &condition.test {
            Test::Compare(op, expr) => {
                let value = operand(expr, env)?;
                if value.is_none() && !matches!(op, CompareOp::Eq | CompareOp::NotEq) {
                    fault
                        .get_or_insert_with(|| format!("Invalid comparison with null for operator \"{op}\""));
                }
                if ty.is_multi_cell()
                    && matches!(
                        op,
                        CompareOp::Less | CompareOp::LessEq | CompareOp::Greater | CompareOp::GreaterEq
                    )
                    && let Some(kind) = collection_kind(&ty)
                    && value.as_ref().is_some_and(|bytes| bytes.len() <= 4)
                {
                    fault.get_or_insert_with(|| {
                        format!("Invalid comparison with an empty {kind} for operator \"{op}\"")
                    });
                }
                if let (CompareOp::Like, Some(pattern)) = (op, &value) {
                    LikePattern::new(pattern)?;
                }
                (*op, vec![value])
            }
            Test::In(exprs) => {
                // Unset values are not part of the list.
                let values = exprs.iter().filter_map(|expr| match expr.evaluate(env) {
                    Ok(Value::Bytes(bytes)) => Some(Ok(Some(bytes.into_owned()))),
                    Ok(Value::Null) => Some(Ok(None)),
                    Ok(Value::Unset) => None,
                    Err(error) => Some(Err(error)),
                });
                (CompareOp::Eq, values.collect::<Result<_, CqlError>>()?)
            }
            Test::InList(expr) => {
                let values = match expr.evaluate_in(env)? {
                    InList::Values(values) => values,
                    InList::Null => return invalid!("Invalid null list in IN condition"),
                    InList::Unset => return invalid!("Invalid 'unset' value in condition"),
                };
                (CompareOp::Eq, values.into_iter().map(|value| value.map(Cow::into_owned)).collect())
            }
        };
        Ok(Self { column: condition.column.clone(), part, ty, op, values, fault })
    }

    fn holds(&self, row: Option<&Row>) -> Result<bool, CqlError> {
        if let Some(fault) = &self.fault {
            return invalid!("{fault}");
        }
        let existing = self.existing(row);
        let existing = existing.as_deref();
        Ok(self.values.iter().any(|wanted| self.compares(existing, wanted.as_deref())))
    }

    fn compares(&self, existing: Option<&[u8]>, wanted: Option<&[u8]>) -> bool {
        match (self.op, existing, wanted) {
            (CompareOp::Contains, Some(existing), Some(wanted)) => {
                return restriction::contains(&self.ty, existing, wanted);
            }
            (CompareOp::ContainsKey, Some(existing), Some(wanted)) => {
                return restriction::contains_key(&self.ty, existing, wanted);
            }
            (CompareOp::Like, Some(existing), Some(wanted)) => {
                return LikePattern::new(wanted).is_ok_and(|pattern| pattern.matches(existing));
            }
            (CompareOp::Contains | CompareOp::ContainsKey | CompareOp::Like, ..) => return false,
            _ => {}
        }
        // A collection of many cells without any cell is null, and equals the empty collection.
        let is_collection = self.ty.is_multi_cell() && self.ty.is_collection();
        let wanted = if is_collection { wanted.filter(|bytes| bytes.len() > 4) } else { wanted };
        let (existing, wanted) = match (existing, wanted) {
            (None, None) => {
                return matches!(self.op, CompareOp::Eq | CompareOp::LessEq | CompareOp::GreaterEq);
            }
            (Some(existing), Some(wanted)) => (existing, wanted),
            (None, Some(_)) | (Some(_), None) => return self.op == CompareOp::NotEq,
        };
        let order = self.ty.compare(existing, wanted);
        match self.op {
            CompareOp::Eq => order == Ordering::Equal,
            CompareOp::NotEq => order != Ordering::Equal,
            CompareOp::Less => order.is_lt(),
            CompareOp::LessEq => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterEq => order.is_ge(),
            CompareOp::Contains | CompareOp::ContainsKey | CompareOp::Like => false,
        }
    }

    /// Returns the stored value of the column, or of its part.
    fn existing<'r>(&self, row: Option<&'r Row>) -> Option<Cow<'r, [u8]>> {
        let data = row?.cell(self.column.id)?;
        match (&self.part, data) {
            (Part::Whole, _) => existing::value(&self.column, row),
            (Part::Element(key), ColumnData::Complex(complex)) => match &self.column.ty {
                CqlType::Map { entry, .. } => {
                    let mut cells = complex.cells.iter();
                    let found = cells.find(|element| entry.0.compare(&element.path, key).is_eq())?;
                    Some(Cow::Borrowed(&found.cell.value))
                }
                _ => complex.cells.get(list_index(key)?).map(|element| Cow::Borrowed(&*element.cell.value)),
            },
            (Part::Field(number), ColumnData::Complex(complex)) => {
                existing::element(complex, &number.to_be_bytes()).map(|value| Cow::Borrowed(&**value))
            }
            (Part::Element(key), ColumnData::Simple(cell)) => match self.column.ty.without_reversed() {
                CqlType::Map { entry, .. } => MapIter::new(&cell.value)
                    .ok()?
                    .flatten()
                    .find_map(|(k, v)| entry.0.compare(k?, key).is_eq().then_some(Cow::Borrowed(v?))),
                _ => CollectionIter::new(&cell.value).ok()?.nth(list_index(key)?)?.ok()?.map(Cow::Borrowed),
            },
            (Part::Field(number), ColumnData::Simple(cell)) => {
                TupleIter::new(&cell.value).nth(usize::from(*number))?.ok()?.map(Cow::Borrowed)
            }
        }
    }
}

fn element_key(
    key: &Expr,
    env: &Env<'_>,
    what: &str,
    fault: &mut Option<String>,
) -> Result<Part<Vec<u8>>, CqlError> {
    let key = operand(key, env)?;
    if key.is_none() {
        *fault = Some(format!("Invalid null value for {what} element access"));
    }
    Ok(Part::Element(key.unwrap_or_default()))
}

fn list_index(key: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_be_bytes(key.try_into().ok()?)).ok()
}
