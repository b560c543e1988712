//! Converts the relations of a WHERE to restrictions of columns, and merges several relations of a column.
//!
//! Source of rules and error messages: Cassandra 4.1 `cql3/SingleColumnRelation.java`,
//! `MultiColumnRelation.java` and `cql3/restrictions`.

use model::{CqlType, IndexKind, TableSchema};
use protocol::CqlError;
use smallvec::{SmallVec, smallvec};
use syntax::{CompareOp, Ident, InValues, Relation, RelationTarget, Term};

use super::ColumnRef;
use super::terms::{Bound, InTerms, Terms, tuple_type};
use crate::error::invalid;
use crate::term::{Expr, Planner, of_relation, of_term};

/// The columns of a restriction.
pub type Columns = SmallVec<[ColumnRef; 2]>;

/// The restriction of one column, or of several columns together.
#[derive(Clone, Debug)]
pub struct Restriction {
    pub columns: Columns,
    pub test: Test,
}

/// The test of a restriction.
#[derive(Clone, Debug)]
pub enum Test {
    Eq(Terms),
    In(InTerms),
    Slice(Slice),
    Contains(Expr),
    ContainsKey(Expr),
    /// LIKE, with its pattern.
    Like(Expr),
    /// `m[key] = value`
    Entry {
        key: Expr,
        value: Expr,
    },
}

/// A slice with at least one end. The ends of a slice of several columns may have values for only the first
/// of them.
#[derive(Clone, Debug)]
pub struct Slice {
    pub start: Option<Bound>,
    pub end: Option<Bound>,
}

impl Slice {
    /// Returns the slice of a comparison; `None` if the operator is not an inequality.
    pub fn of(op: CompareOp, terms: Terms) -> Option<Self> {
        let bound = |inclusive| Some(Bound { terms, inclusive });
        Some(match op {
            CompareOp::Greater => Self { start: bound(false), end: None },
            CompareOp::GreaterEq => Self { start: bound(true), end: None },
            CompareOp::Less => Self { start: None, end: bound(false) },
            CompareOp::LessEq => Self { start: None, end: bound(true) },
            _ => return None,
        })
    }

    /// Adds the end of another slice.
    ///
    /// # Errors
    /// Both slices have the same end. `name` describes the columns.
    pub fn merge(&mut self, other: Self, name: &str) -> Result<(), CqlError> {
        for (end, mine, theirs) in
            [("start", &mut self.start, other.start), ("end", &mut self.end, other.end)]
        {
            match (&mine, theirs) {
                (_, None) => {}
                (None, theirs) => *mine = theirs,
                (Some(_), Some(_)) => {
                    return invalid!("More than one restriction was found for the {end} bound on {name}");
                }
            }
        }
        Ok(())
    }
}

/// The restrictions of a WHERE. Restrictions of `token()` are separate.
#[derive(Clone, Debug, Default)]
pub struct Tests {
    pub restrictions: Vec<Restriction>,
    pub token: Option<Test>,
}

impl Tests {
    /// Prepares the relations of a WHERE.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &TableSchema,
        relations: &[Relation],
    ) -> Result<Self, CqlError> {
        let mut tests = Self::default();
        for relation in relations {
            tests.add(planner, schema, relation)?;
        }
        Ok(tests)
    }

    /// The clustering columns with which restrictions begin, in order, and whether these are slices.
    pub fn clustering(&self) -> Vec<(usize, bool)> {
        let begins = |restriction: &Restriction| match restriction.columns[0] {
            ColumnRef::Clustering(at) => Some((at, matches!(restriction.test, Test::Slice(_)))),
            _ => None,
        };
        let mut found: Vec<_> = self.restrictions.iter().filter_map(begins).collect();
        found.sort_unstable();
        found
    }

    /// The clustering column with which the restriction of a relation begins, and whether that is a slice.
    pub fn clustering_of(schema: &TableSchema, relation: &Relation) -> Option<(usize, bool)> {
        let (Relation::Compare { target, .. } | Relation::In { target, .. }) = relation else { return None };
        let name = match target {
            RelationTarget::Column(column) | RelationTarget::Element { column, .. } => column,
            RelationTarget::Tuple { columns, .. } => columns.first()?,
            RelationTarget::Field { .. } | RelationTarget::Token { .. } => return None,
        };
        let at = schema.clustering.iter().position(|column| column.name == name.text)?;
        let is_slice = matches!(relation, Relation::Compare { op, .. }
            if matches!(op, CompareOp::Less | CompareOp::LessEq | CompareOp::Greater | CompareOp::GreaterEq));
        Some((at, is_slice))
    }

    /// Prepares a relation, and joins it with those of the same columns.
    pub fn add(
        &mut self,
        planner: &mut Planner<'_>,
        schema: &TableSchema,
        relation: &Relation,
    ) -> Result<(), CqlError> {
        match relation {
            Relation::Compare { target, op, value, .. } => match target {
                RelationTarget::Column(column) => {
                    let column = ColumnRef::named(schema, column.as_str())?;
                    let test = single(planner, schema, column, *op, value)?;
                    self.merge(schema, Restriction { columns: smallvec![column], test })
                }
                RelationTarget::Element { column, key } => {
                    let column = ColumnRef::named(schema, column.as_str())?;
                    let test = entry(planner, schema, column, key, *op, value)?;
                    self.merge(schema, Restriction { columns: smallvec![column], test })
                }
                RelationTarget::Field { column, field } => {
                    invalid!("Field {}.{} cannot be used in WHERE", column.as_str(), field.as_str())
                }
                RelationTarget::Tuple { columns, .. } => {
                    let columns = clustering_columns(schema, columns, relation)?;
                    let terms = tuple(planner, schema, &columns, value)?;
                    let test = match op {
                        CompareOp::Eq => Test::Eq(terms),
                        op => match Slice::of(*op, terms) {
                            Some(slice) => Test::Slice(slice),
                            None => {
                                return invalid!("{} cannot be used for multi-column relations", symbol(*op));
                            }
                        },
                    };
                    self.merge(schema, Restriction { columns, test })
                }
                RelationTarget::Token { columns, .. } => {
                    check_token_columns(schema, columns)?;
                    let terms = Terms::one(planner.term(value, "partition key token", &CqlType::BigInt)?);
                    let test = match op {
                        CompareOp::Eq => Test::Eq(terms),
                        op => match Slice::of(*op, terms) {
                            Some(slice) => Test::Slice(slice),
                            None => {
                                return invalid!("{} cannot be used with the token function", symbol(*op));
                            }
                        },
                    };
                    self.add_token(schema, test)
                }
            },
            Relation::In { target, values, .. } => {
                let is_tuple = matches!(target, RelationTarget::Tuple { .. });
                let columns: Columns = match target {
                    RelationTarget::Column(column) => smallvec![ColumnRef::named(schema, column.as_str())?],
                    RelationTarget::Tuple { columns, .. } => clustering_columns(schema, columns, relation)?,
                    RelationTarget::Token { .. } => {
                        return invalid!("IN cannot be used with the token function");
                    }
                    RelationTarget::Element { .. } | RelationTarget::Field { .. } => {
                        return invalid!("IN cannot be used with elements and fields in WHERE");
                    }
                };
                let test = in_test(planner, schema, &columns, is_tuple, values)?;
                self.merge(schema, Restriction { columns, test })
            }
            Relation::IsNotNull { column, .. } => {
                ColumnRef::named(schema, column.as_str())?;
                invalid!("Unsupported restriction: {} IS NOT NULL", column.as_str())
            }
            Relation::IndexExpression { index, .. } => {
                let name = index.as_str();
                match schema.indexes.iter().find(|known| known.name == name).map(|known| known.kind) {
                    None => invalid!(
                        "Invalid index expression, index {name} not found for {}",
                        schema.full_name()
                    ),
                    Some(IndexKind::StorageAttached) => {
                        invalid!("Index {name} does not support custom expressions")
                    }
                    Some(IndexKind::Secondary | IndexKind::Local) => invalid!(
                        "Only CUSTOM indexes may be used in custom index expressions, {name} is not valid"
                    ),
                }
            }
        }
    }

    fn add_token(&mut self, schema: &TableSchema, test: Test) -> Result<(), CqlError> {
        let names: Vec<&str> = schema.partition_key.iter().map(|column| column.name.as_str()).collect();
        match (&mut self.token, test) {
            (None, test) => self.token = Some(test),
            (Some(Test::Slice(slice)), Test::Slice(other)) => {
                slice.merge(other, &names.join(", "))?;
            }
            (Some(_), _) => {
                return invalid!(
                    "{} cannot be restricted by more than one relation if it includes an Equal",
                    names.join(", ")
                );
            }
        }
        Ok(())
    }

    fn merge(&mut self, schema: &TableSchema, new: Restriction) -> Result<(), CqlError> {
        let is_contains =
            |test: &Test| matches!(test, Test::Contains(_) | Test::ContainsKey(_) | Test::Entry { .. });
        let common =
            |old: &Restriction| old.columns.iter().find(|column| new.columns.contains(column)).copied();
        let found = self
            .restrictions
            .iter_mut()
            // LIKE filters beside all other relations.
            .filter(|old| !matches!(old.test, Test::Like(_)) && !matches!(new.test, Test::Like(_)))
            .find_map(|old| common(old).map(|column| (old, column)));
        let Some((old, column)) = found else {
            self.restrictions.push(new);
            return Ok(());
        };
        let name = column.name(schema);
        match (&mut old.test, new.test) {
            (Test::Eq(_), _) => {
                invalid!("{name} cannot be restricted by more than one relation if it includes an Equal")
            }
            (Test::In(_), _) => {
                invalid!("{name} cannot be restricted by more than one relation if it includes a IN")
            }
            (Test::Slice(slice), Test::Slice(other)) => {
                if old.columns[0] != new.columns[0] {
                    return invalid!(
                        "Column \"{name}\" cannot be restricted by two inequalities not starting with the same column"
                    );
                }
                // Joined as Cassandra joins the columns that both slices have.
                let common = old.columns.iter().zip(&new.columns).map(|(column, _)| column.name(schema));
                slice.merge(other, &common.collect::<Vec<_>>().join(" ,"))?;
                if new.columns.len() > old.columns.len() {
                    old.columns = new.columns;
                }
                Ok(())
            }
            (Test::Contains(_) | Test::ContainsKey(_) | Test::Entry { .. }, test) if is_contains(&test) => {
                self.restrictions.push(Restriction { columns: new.columns, test });
                Ok(())
            }
            (Test::Contains(_) | Test::ContainsKey(_) | Test::Entry { .. }, _) => invalid!(
                "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            ),
            _ => invalid!(
                "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
            ),
        }
    }
}

/// The operator as written in CQL.
pub fn symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::NotEq => "!=",
        CompareOp::Less => "<",
        CompareOp::LessEq => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterEq => ">=",
        CompareOp::Contains => "CONTAINS",
        CompareOp::ContainsKey => "CONTAINS KEY",
        CompareOp::Like => "LIKE",
    }
}

fn single(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    column: ColumnRef,
    op: CompareOp,
    value: &Term,
) -> Result<Test, CqlError> {
    let (name, ty) = (column.name(schema), column.ty(schema));
    match op {
        CompareOp::Contains => {
            let element = match ty {
                CqlType::List { element, .. } | CqlType::Set { element, .. } => element,
                CqlType::Map { entry, .. } => &entry.1,
                _ => return invalid!("Cannot use CONTAINS on non-collection column {name}"),
            };
            Ok(Test::Contains(planner.term(value, &format!("value({name})"), element)?))
        }
        CompareOp::ContainsKey => {
            let CqlType::Map { entry, .. } = ty else {
                return invalid!("Cannot use CONTAINS KEY on non-map column {name}");
            };
            Ok(Test::ContainsKey(planner.term(value, &format!("key({name})"), &entry.0)?))
        }
        CompareOp::Like => {
            let pattern = planner.term(value, name, ty)?;
            if !matches!(ty.without_reversed(), CqlType::Text | CqlType::Ascii) {
                return invalid!("LIKE is allowed only on string types, which {name} is not");
            }
            Ok(Test::Like(pattern))
        }
        _ => {
            check_comparable(name, ty, symbol(op))?;
            if op != CompareOp::Eq && ty.references_duration() {
                return invalid!("Slice restrictions are not supported on {}", of_durations(ty));
            }
            let terms = Terms::one(planner.term(value, name, ty)?);
            match op {
                CompareOp::Eq => Ok(Test::Eq(terms)),
                op => match Slice::of(op, terms) {
                    Some(slice) => Ok(Test::Slice(slice)),
                    None => invalid!("Unsupported \"{}\" relation on {name}", symbol(op)),
                },
            }
        }
    }
}

fn of_durations(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::Duration => "duration columns",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::Udt { .. } => "UDTs containing durations",
        _ => "collections containing durations",
    }
}

fn check_comparable(name: &str, ty: &CqlType, symbol: &str) -> Result<(), CqlError> {
    if ty.is_multi_cell() && ty.is_collection() {
        return invalid!(
            "Collection column '{name}' ({}) cannot be restricted by a '{symbol}' relation",
            ty.to_cql()
        );
    }
    if ty.is_multi_cell() {
        return invalid!(
            "Non-frozen UDT column '{name}' ({}) cannot be restricted by any relation",
            ty.to_cql()
        );
    }
    Ok(())
}

fn entry(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    column: ColumnRef,
    key: &Term,
    op: CompareOp,
    value: &Term,
) -> Result<Test, CqlError> {
    let (name, ty) = (column.name(schema), column.ty(schema));
    if matches!(ty, CqlType::List { .. }) {
        return invalid!("Indexes on list entries ({name}[index] = value) are not currently supported.");
    }
    let CqlType::Map { entry, multi_cell } = ty else {
        return invalid!("Column {name} cannot be used as a map");
    };
    if !multi_cell {
        return invalid!("Map-entry equality predicates on frozen map column {name} are not supported");
    }
    if op != CompareOp::Eq {
        return invalid!("Only EQ relations are supported on map entries");
    }
    Ok(Test::Entry {
        key: planner.term(key, &format!("key({name})"), &entry.0)?,
        value: planner.term(value, &format!("value({name})"), &entry.1)?,
    })
}

fn names<'s>(schema: &'s TableSchema, columns: &[ColumnRef]) -> Vec<&'s str> {
    columns.iter().map(|column| column.name(schema)).collect()
}

/// Returns the columns of `(a, b)`, which must be adjacent clustering columns in the order of the key.
fn clustering_columns(
    schema: &TableSchema,
    idents: &[Ident],
    relation: &Relation,
) -> Result<Columns, CqlError> {
    let mut columns = Columns::new();
    for ident in idents {
        let column = ColumnRef::named(schema, ident.as_str())?;
        let ColumnRef::Clustering(at) = column else {
            return invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                ident.as_str()
            );
        };
        if columns.contains(&column) {
            return invalid!(
                "Column \"{}\" appeared twice in a relation: {}",
                ident.as_str(),
                of_relation(relation)
            );
        }
        if let Some(ColumnRef::Clustering(last)) = columns.last()
            && *last + 1 != at
        {
            return invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                of_relation(relation)
            );
        }
        columns.push(column);
    }
    Ok(columns)
}

fn check_token_columns(schema: &TableSchema, idents: &[Ident]) -> Result<(), CqlError> {
    for ident in idents {
        ColumnRef::named(schema, ident.as_str())?;
    }
    let given: Vec<&str> = idents.iter().map(Ident::as_str).collect();
    let expected: Vec<&str> = schema.partition_key.iter().map(|column| column.name.as_str()).collect();
    if expected.iter().any(|column| !given.contains(column)) {
        return invalid!(
            "The token() function must be applied to all partition key components or none of them"
        );
    }
    if (1..given.len()).any(|at| given[..at].contains(&given[at])) {
        return invalid!("The token() function contains duplicate partition key components");
    }
    if given.iter().any(|column| !expected.contains(column)) {
        return invalid!("The token() function must contains only partition key components");
    }
    if given != expected {
        return invalid!(
            "The token function arguments must be in the partition key order: {}",
            expected.join(", ")
        );
    }
    Ok(())
}

/// Prepares a tuple with one value for each column.
fn tuple(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    columns: &[ColumnRef],
    value: &Term,
) -> Result<Terms, CqlError> {
    let ty = tuple_type(columns.iter().map(|column| column.ty(schema)));
    if let Term::Tuple { elements, .. } = value {
        if elements.len() != columns.len() {
            return invalid!(
                "Expected {} elements in value tuple, but got {}: {}",
                columns.len(),
                elements.len(),
                of_term(value)
            );
        }
        let terms = elements
            .iter()
            .zip(columns)
            .map(|(element, column)| planner.term(element, column.name(schema), column.ty(schema)));
        let elements = terms.collect::<Result<_, _>>()?;
        let tuple = Expr::Sequence { ty, elements }.folded()?;
        return Ok(Terms::Tuple { tuple, columns: columns.len() });
    }
    let name = format!("({})", names(schema, columns).join(","));
    Ok(Terms::Tuple { tuple: planner.term(value, &name, &ty)?, columns: columns.len() })
}

/// Prepares IN. `is_tuple` is true if the columns and their values are in parentheses, even for a single
/// column.
fn in_test(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    columns: &[ColumnRef],
    is_tuple: bool,
    values: &InValues,
) -> Result<Test, CqlError> {
    let names = names(schema, columns);
    let (name, ty) = (names[0], columns[0].ty(schema));
    if !is_tuple {
        check_comparable(name, ty, "IN")?;
    }
    match values {
        InValues::List(list) => {
            let each = |term: &Term| match is_tuple {
                true => tuple(planner, schema, columns, term),
                false => Ok(Terms::one(planner.term(term, name, ty)?)),
            };
            let mut terms = list.iter().map(each).collect::<Result<Vec<_>, CqlError>>()?;
            // A single value is an equality, which is allowed in more places than IN.
            Ok(if terms.len() == 1 { Test::Eq(terms.remove(0)) } else { Test::In(InTerms::List(terms)) })
        }
        InValues::Marker(marker) if is_tuple => {
            let tuple = tuple_type(columns.iter().map(|column| column.ty(schema)));
            let name = format!("in({})", names.join(","));
            Ok(Test::In(InTerms::Tuples(planner.marker(marker, &name, &CqlType::list(tuple)))))
        }
        InValues::Marker(marker) => {
            let list = planner.marker(marker, &format!("in({name})"), &CqlType::list(ty.freeze()));
            Ok(Test::In(InTerms::Values(list)))
        }
    }
}
