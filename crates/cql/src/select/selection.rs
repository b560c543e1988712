//! The selection of a SELECT, prepared as the computation for each row.
//!
//! Plain columns are copied from the row into the result. Every other selector is a term over inputs: values
//! of columns, and the write times and TTLs of columns. Results of aggregates are inputs as well; they have
//! no value until the last row has been read.

mod literals;

use std::borrow::Cow;
use std::sync::Arc;

use model::types::{CollectionBuilder, CollectionIter, CqlType, MapIter, TupleIter, push_json_string};
use model::{ColumnId, TableSchema};
use protocol::{ColumnSpec, CqlError};
use syntax::{CellTime, QualifiedName, SelectItem, Selection as Selectors, Selector, Term};

use self::literals::{constant, constant_map, is_bare};
use super::qualified::qualified;
use crate::error::invalid;
use crate::function::{self, Aggregate, Arg, Called, Masker};
use crate::restriction::ColumnRef;
use crate::term::{Expr, Planner, SELECTION, is_assignable};

/// A prepared selection.
#[derive(Clone, Debug)]
pub struct Selection {
    pub columns: Vec<ColumnSpec>,
    pub computation: RowComputation,
}

/// The computation for each row.
#[derive(Clone, Debug)]
pub enum RowComputation {
    /// Columns copied without change.
    Plain(Vec<ColumnRef>),
    Computed(Computed),
}

/// Selectors that are evaluated for each row.
#[derive(Clone, Debug)]
pub struct Computed {
    pub inputs: Vec<Input>,
    pub outputs: Vec<Expr>,
    pub aggregates: Vec<AggregateCall>,
    /// With SELECT JSON: the outputs are the fields of an object, which is the only column of the result.
    pub json: Option<Vec<JsonField>>,
}

/// A field of the object that SELECT JSON returns.
#[derive(Clone, Debug)]
pub struct JsonField {
    /// The name as it appears in the JSON text, including its quotes.
    pub name: String,
    pub ty: CqlType,
}

/// An input of a term that is evaluated for each row.
#[derive(Clone, Debug)]
pub enum Input {
    Value(ColumnRef),
    /// The masked value of a column.
    Masked(ColumnRef, Masker),
    /// Write time or TTL of the cells of a static or regular column.
    Time {
        what: CellTime,
        column: ColumnRef,
        id: ColumnId,
        of: CellsOf,
    },
    /// The result of an aggregate, by its index.
    Aggregate(usize),
}

/// The selected cells of a column: [`super::value::Cells`] with keys that are not evaluated yet.
#[derive(Clone, Debug)]
pub enum CellsOf {
    All,
    One(Expr),
    Between(Option<Expr>, Option<Expr>),
}

/// A call of an aggregate in a selection.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub aggregate: Aggregate,
    /// An aggregate that counts rows has a constant as its argument.
    pub args: Vec<Expr>,
}

impl Selection {
    /// Prepares a selection.
    ///
    /// # Errors
    /// A column or function is unknown, or types do not fit.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        selectors: &Selectors,
    ) -> Result<Self, CqlError> {
        match selectors {
            Selectors::All => {
                let all = ColumnRef::all(schema);
                let columns =
                    all.iter().map(|column| planner.spec(column.name(schema), column.ty(schema))).collect();
                Ok(Self { columns, computation: RowComputation::Plain(all) })
            }
            Selectors::Items(items) => {
                let items = qualified(planner, items);
                Self::of_items(planner, schema, &items)
            }
        }
    }

    fn of_items(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        items: &[SelectItem],
    ) -> Result<Self, CqlError> {
        let plain: Option<Vec<&syntax::Ident>> = items
            .iter()
            .map(|item| match &item.selector {
                Selector::Column(column) => Some(column),
                _ => None,
            })
            .collect();
        let mut columns = Vec::with_capacity(items.len());
        if let Some(plain) = plain {
            let refs = plain.iter().map(|column| ColumnRef::named(schema, column.as_str()));
            let refs = refs.collect::<Result<Vec<_>, _>>()?;
            for (item, column) in items.iter().zip(&refs) {
                columns.push(planner.spec(&item.column_name(), column.ty(schema)));
            }
            return Ok(Self { columns, computation: RowComputation::Plain(refs) });
        }
        let mut builder =
            Builder { planner, schema, inputs: vec![], aggregates: vec![], introspection: false };
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            let selected = builder.select(&item.selector)?;
            if is_untyped(&selected) {
                // The constant has a natural type, but Cassandra and ScyllaDB require an explicit type here.
                return cannot_infer(&item.selector);
            }
            let (expr, ty) = builder.typed(selected, &item.selector)?;
            let name = match &item.selector {
                // A cast that does not change the type does not change the column's name either.
                Selector::Cast { of, .. } if item.alias.is_none() && matches!(expr, Expr::Input(_)) => {
                    of.column_name()
                }
                _ => item.column_name(),
            };
            columns.push(builder.planner.spec(&name, &ty));
            outputs.push(expr);
        }
        let Builder { inputs, aggregates, .. } = builder;
        let computed = Computed { inputs, outputs, aggregates, json: None };
        Ok(Self { columns, computation: RowComputation::Computed(computed) })
    }

    /// Converts the selection to that of SELECT JSON, with a single text column.
    pub fn into_json(self, planner: &Planner<'_>) -> Self {
        let mut computed = match self.computation {
            RowComputation::Computed(computed) => computed,
            RowComputation::Plain(columns) => Computed {
                outputs: (0..columns.len()).map(Expr::Input).collect(),
                inputs: columns.into_iter().map(Input::Value).collect(),
                aggregates: vec![],
                json: None,
            },
        };
        let field = |column: ColumnSpec| {
            // A name that needs quotes in CQL keeps them inside the JSON string.
            let is_plain = column.name == column.name.to_lowercase();
            let quoted = if is_plain { column.name } else { format!("\"{}\"", column.name) };
            let mut name = String::new();
            push_json_string(&mut name, &quoted);
            let ty = match column.column_type {
                CqlType::Counter => CqlType::BigInt,
                other => other,
            };
            JsonField { name, ty }
        };
        computed.json = Some(self.columns.into_iter().map(field).collect());
        Self {
            columns: vec![planner.spec("[json]", &CqlType::Text)],
            computation: RowComputation::Computed(computed),
        }
    }

    /// Prepares one selector as a term. Its inputs are the values of the returned columns, in this order.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn term(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        selector: &Selector,
    ) -> Result<(Expr, Vec<ColumnRef>), CqlError> {
        let mut builder =
            Builder { planner, schema, inputs: vec![], aggregates: vec![], introspection: true };
        let (expr, _) = builder.output(selector)?;
        let columns = builder.inputs.iter().map(|input| match input {
            Input::Value(column) => Ok(*column),
            _ => invalid!("{} cannot be computed from columns alone", selector.column_name()),
        });
        Ok((expr, columns.collect::<Result<_, _>>()?))
    }

    pub fn is_aggregate(&self) -> bool {
        matches!(&self.computation, RowComputation::Computed(computed) if !computed.aggregates.is_empty())
    }

    /// The columns that the selection reads.
    pub fn reads(&self) -> Vec<ColumnRef> {
        match &self.computation {
            RowComputation::Plain(columns) => columns.clone(),
            RowComputation::Computed(computed) => computed
                .inputs
                .iter()
                .filter_map(|input| match input {
                    Input::Value(column) | Input::Masked(column, _) | Input::Time { column, .. } => {
                        Some(*column)
                    }
                    Input::Aggregate(_) => None,
                })
                .collect(),
        }
    }
}

struct Builder<'b, 'c> {
    planner: &'b mut Planner<'c>,
    schema: &'b Arc<TableSchema>,
    inputs: Vec<Input>,
    aggregates: Vec<AggregateCall>,
    /// Whether the builder is inside the argument of an aggregate.
    introspection: bool,
}

type Selected = Arg<'static>;

fn cannot_infer<T>(selector: &Selector) -> Result<T, CqlError> {
    invalid!(
        "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
        selector.column_name()
    )
}

/// Whether the selector is a constant without a type hint.
fn is_untyped(selected: &Selected) -> bool {
    matches!(selected, Arg::Term(term) if !matches!(**term, Term::Hint { .. }))
}

impl Builder<'_, '_> {
    fn output(&mut self, selector: &Selector) -> Result<(Expr, CqlType), CqlError> {
        let selected = self.select(selector)?;
        self.typed(selected, selector)
    }

    /// Returns the expression and its type. A term without a type gets its natural type.
    fn typed(&mut self, selected: Selected, selector: &Selector) -> Result<(Expr, CqlType), CqlError> {
        match selected {
            Arg::Typed(expr, ty) => Ok((expr, ty)),
            Arg::Term(term) => match self.planner.natural_type(&term)? {
                Some(ty) => Ok((self.planner.term(&term, SELECTION, &ty)?, ty)),
                None => cannot_infer(selector),
            },
        }
    }

    fn input(&mut self, input: Input) -> Expr {
        if let Input::Value(wanted) = &input
            && let Some(at) =
                self.inputs.iter().position(|known| matches!(known, Input::Value(known) if known == wanted))
        {
            return Expr::Input(at);
        }
        self.inputs.push(input);
        Expr::Input(self.inputs.len() - 1)
    }

    fn aggregate(&mut self, aggregate: Aggregate, args: Vec<Expr>) -> Selected {
        let ty = aggregate.result.clone();
        self.aggregates.push(AggregateCall { aggregate, args });
        let number = self.aggregates.len() - 1;
        Arg::Typed(self.input(Input::Aggregate(number)), ty)
    }

    fn select(&mut self, selector: &Selector) -> Result<Selected, CqlError> {
        let term = |term: Term| Ok(Arg::Term(Cow::Owned(term)));
        match selector {
            Selector::Column(name) => {
                let column = ColumnRef::named(self.schema, name.as_str())?;
                let ty = column.ty(self.schema).clone();
                Ok(Arg::Typed(self.input(Input::Value(column)), ty))
            }
            Selector::Literal(literal) => term(Term::Literal(literal.clone())),
            Selector::Null(span) => term(Term::Null(*span)),
            Selector::Marker(marker) => term(Term::Marker(marker.clone())),
            Selector::CountRows(_) => {
                self.check_not_inside()?;
                Ok(self.aggregate(Aggregate::count_rows(), vec![Expr::constant(&[])]))
            }
            Selector::CellTime { what, of, .. } => self.cell_time(*what, of),
            Selector::Call { name, args, .. } => self.call(name, args),
            Selector::Cast { of, ty, .. } => {
                let arg = self.select(of)?;
                if is_untyped(&arg) {
                    return cannot_infer(of);
                }
                let is_descending =
                    matches!(&**of, Selector::Column(name) if self.is_descending(name.as_str()));
                let (expr, ty) = function::cast(self.planner, arg, ty, is_descending, &of.column_name())?;
                Ok(Arg::Typed(expr, ty))
            }
            Selector::Hint { ty, of, span } => {
                let hinted = self.planner.resolve_type(ty)?;
                match constant(of, &hinted) {
                    Some(inner) => term(Term::Hint { ty: ty.clone(), term: Box::new(inner), span: *span }),
                    None => Ok(Arg::Typed(self.select_as(of, &hinted)?, hinted)),
                }
            }
            Selector::Field { of, field } => {
                let (expr, ty) = self.output(of)?;
                self.field(expr, &ty, of, field.as_str())
            }
            Selector::Element { of, key, .. } => {
                let (expr, ty) = self.output(of)?;
                self.element(expr, &ty, of, key)
            }
            Selector::Slice { of, from, to, .. } => {
                let (expr, ty) = self.output(of)?;
                self.slice(expr, &ty, of, from.as_ref(), to.as_ref())
            }
            Selector::Tuple { elements, span } => {
                if let [only] = &elements[..] {
                    return self.select(only);
                }
                match self.all(elements)? {
                    Ok(elements) => term(Term::Tuple { elements, span: *span }),
                    // Each element must have a type of its own.
                    Err(_) if elements.iter().any(is_bare) => cannot_infer(selector),
                    Err(typed) => {
                        let (elements, types): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
                        let ty = CqlType::tuple(types);
                        Ok(Arg::Typed(Expr::Sequence { ty: ty.clone(), elements }, ty))
                    }
                }
            }
            Selector::List { elements, span } => match self.all(elements)? {
                Ok(elements) => term(Term::List { elements, span: *span }),
                Err(typed) => self.sequence(typed, CqlType::list, "list"),
            },
            Selector::Set { elements, span } => match self.all(elements)? {
                Ok(elements) => term(Term::Set { elements, span: *span }),
                Err(typed) => self.sequence(typed, CqlType::set, "set"),
            },
            // The literal may also be a value of a user type.
            Selector::MapOrUdt { .. } => match constant_map(selector) {
                Some(map) => term(map),
                None => cannot_infer(selector),
            },
            Selector::Arithmetic { op, left, right } => {
                let args = [self.select(left)?, self.select(right)?];
                let names = [left.column_name(), right.column_name()];
                let (expr, ty) = function::arithmetic(self.planner, *op, args, [&names[0], &names[1]])?;
                Ok(Arg::Typed(expr, ty))
            }
            Selector::Negate { of, .. } => {
                let arg = self.select(of)?;
                let (expr, ty) = function::negate(self.planner, arg, None)?;
                Ok(Arg::Typed(expr, ty))
            }
        }
    }

    /// Selects all elements. Returns terms if all elements are untyped terms, otherwise expressions with
    /// their types.
    #[allow(clippy::type_complexity, reason = "both sides are plain lists")]
    fn all(&mut self, selectors: &[Selector]) -> Result<Result<Vec<Term>, Vec<(Expr, CqlType)>>, CqlError> {
        let selected = selectors.iter().map(|selector| self.select(selector));
        let selected = selected.collect::<Result<Vec<_>, _>>()?;
        if selected.iter().all(|arg| matches!(arg, Arg::Term(_))) {
            let terms = selected.into_iter().filter_map(|arg| match arg {
                Arg::Term(term) => Some(term.into_owned()),
                Arg::Typed(..) => None,
            });
            return Ok(Ok(terms.collect()));
        }
        let typed = selected.into_iter().zip(selectors).map(|(arg, selector)| self.typed(arg, selector));
        Ok(Err(typed.collect::<Result<_, _>>()?))
    }

    fn sequence(
        &mut self,
        typed: Vec<(Expr, CqlType)>,
        of: fn(CqlType) -> CqlType,
        what: &str,
    ) -> Result<Selected, CqlError> {
        let element = typed[0].1.clone();
        if typed.iter().any(|(_, ty)| !is_assignable(&element, ty)) {
            return invalid!("The elements of a {what} have to be of one type");
        }
        let ty = of(element).freeze();
        let elements = typed.into_iter().map(|(expr, _)| expr).collect();
        Ok(Arg::Typed(Expr::Sequence { ty: ty.clone(), elements }, ty))
    }

    /// Whether the name is that of a clustering column in descending order.
    fn is_descending(&self, name: &str) -> bool {
        self.schema.clustering.iter().any(|column| column.name == name && column.ty.is_reversed())
    }

    fn check_not_inside(&self) -> Result<(), CqlError> {
        if self.introspection {
            return invalid!("aggregate functions cannot be used as arguments of aggregate functions");
        }
        Ok(())
    }

    fn call(&mut self, name: &QualifiedName, args: &[Selector]) -> Result<Selected, CqlError> {
        let own = name.keyspace.as_ref().is_none_or(|keyspace| keyspace.text == "system");
        let is_user = |name: &QualifiedName| {
            let keyspace = name.keyspace.as_ref().map_or(&*self.planner.keyspace, |keyspace| &keyspace.text);
            let catalog = self.planner.catalog;
            catalog.functions(keyspace).any(|known| known.name == name.name.text)
                || catalog.aggregates(keyspace).any(|known| known.name == name.name.text)
        };
        if own && Aggregate::is_name(&name.name.text) && !is_user(name) {
            return self.aggregate_call(&name.name.text, args);
        }
        let aggregates = self.aggregates.len();
        let names: Vec<String> = args.iter().map(Selector::column_name).collect();
        let args = args.iter().map(|arg| self.select(arg)).collect::<Result<Vec<_>, _>>()?;
        match function::call(self.planner, name, args, &names)? {
            Called::Value(expr, ty) => Ok(Arg::Typed(expr, ty)),
            Called::Aggregate(aggregate, args) => {
                self.check_not_inside()?;
                if self.aggregates.len() > aggregates {
                    return invalid!(
                        "aggregate functions cannot be used as arguments of aggregate functions"
                    );
                }
                Ok(self.aggregate(aggregate, args))
            }
        }
    }

    fn aggregate_call(&mut self, name: &str, args: &[Selector]) -> Result<Selected, CqlError> {
        self.check_not_inside()?;
        let [arg] = args else {
            return invalid!(
                "Invalid number of arguments in call to function system.{name}: 1 required but {} provided",
                args.len()
            );
        };
        self.introspection = true;
        let prepared = self.output(arg);
        self.introspection = false;
        let (expr, ty) = prepared?;
        match Aggregate::named(name, Some(&ty)) {
            Some(aggregate) => Ok(self.aggregate(aggregate, vec![expr])),
            None if *ty.without_reversed() == CqlType::Timestamp => invalid!(
                "Ambiguous call to function {name} (can be matched by following signatures: system.{name} : \
                 (varint) -> varint, system.{name} : (bigint) -> bigint): use type casts to disambiguate"
            ),
            None => {
                let numbers = [
                    "smallint", "varint", "counter", "tinyint", "double", "decimal", "bigint", "float", "int",
                ];
                let signatures: Vec<_> =
                    numbers.iter().map(|of| format!("system.{name} : ({of}) -> {of}")).collect();
                invalid!(
                    "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
                    signatures.join(", ")
                )
            }
        }
    }

    fn cell_time(&mut self, what: CellTime, of: &Selector) -> Result<Selected, CqlError> {
        let (name, within) = match of {
            Selector::Column(name) => (name, None),
            Selector::Field { of: inner, .. }
            | Selector::Element { of: inner, .. }
            | Selector::Slice { of: inner, .. } => match &**inner {
                Selector::Column(name) => (name, Some(of)),
                _ => return invalid!("{} takes a column, or elements or a field of one", what.name()),
            },
            _ => return invalid!("{} takes a column, or elements or a field of one", what.name()),
        };
        let column = ColumnRef::named(self.schema, name.as_str())?;
        let (ColumnRef::Static(id) | ColumnRef::Regular(id)) = column else {
            return invalid!(
                "Cannot use selection function {} on PRIMARY KEY part {}",
                match what {
                    CellTime::WriteTime => "writetime",
                    CellTime::MaxWriteTime => "maxwritetime",
                    CellTime::Ttl => "ttl",
                },
                name.as_str()
            );
        };
        let ty = column.ty(self.schema).clone();
        let one = if what == CellTime::Ttl { CqlType::Int } else { CqlType::BigInt };
        let (of, is_list) = match within {
            None => (CellsOf::All, ty.is_multi_cell()),
            // A frozen value is a single cell, so the times of its parts are those of the cell.
            Some(Selector::Field { .. } | Selector::Slice { .. }) if !ty.is_multi_cell() => {
                (CellsOf::All, false)
            }
            Some(Selector::Field { field, .. }) => {
                let at = field_at(&ty, field.as_str(), name.as_str())?;
                (CellsOf::One(Expr::constant(&(at as i16).to_be_bytes())), false)
            }
            Some(Selector::Element { key, .. }) => {
                let (key_type, _) = element_types("Element", &ty, name.as_str())?;
                (CellsOf::One(self.planner.term(key, &format!("key({})", name.as_str()), &key_type)?), false)
            }
            Some(Selector::Slice { from, to, .. }) => {
                let (key_type, _) = element_types("Element", &ty, name.as_str())?;
                let mut end = |end: &Option<Term>| {
                    let name = format!("key({})", name.as_str());
                    end.as_ref().map(|end| self.planner.term(end, &name, &key_type)).transpose()
                };
                (CellsOf::Between(end(from)?, end(to)?), true)
            }
            Some(_) => return invalid!("{} takes a column, or elements or a field of one", what.name()),
        };
        let ty = if is_list && what != CellTime::MaxWriteTime { CqlType::list(one).freeze() } else { one };
        Ok(Arg::Typed(self.input(Input::Time { what, column, id, of }), ty))
    }

    fn field(&mut self, expr: Expr, ty: &CqlType, of: &Selector, field: &str) -> Result<Selected, CqlError> {
        let CqlType::Udt { user, .. } = ty else {
            return invalid!(
                "Invalid field selection: {} of type {} is not a user type",
                of.column_name(),
                ty.to_cql()
            );
        };
        let at = field_at(ty, field, &of.column_name())?;
        let field_type = user.fields[at].field_type.clone();
        let taken =
            function::built_in("field", vec![expr], move |args| match TupleIter::new(args[0]).nth(at) {
                Some(field) => Ok(field?.map(<[u8]>::to_vec)),
                None => Ok(None),
            });
        Ok(Arg::Typed(taken, field_type))
    }

    fn element(&mut self, expr: Expr, ty: &CqlType, of: &Selector, key: &Term) -> Result<Selected, CqlError> {
        let (key_type, value_type) = element_types("Element", ty, &of.column_name())?;
        let key = self.planner.term(key, &format!("key({})", of.column_name()), &key_type)?;
        let is_map = matches!(ty, CqlType::Map { .. });
        let use_of = format!("element selection on {}", of.column_name());
        let taken = function::built_in_by_key("element", expr, vec![key], use_of, move |args| {
            let equal = |key: &[u8]| key_type.compare(key, args[1]).is_eq();
            if is_map {
                for entry in MapIter::new(args[0])? {
                    if let (Some(key), Some(value)) = entry?
                        && equal(key)
                    {
                        return Ok(Some(value.to_vec()));
                    }
                }
            } else {
                for element in CollectionIter::new(args[0])? {
                    if let Some(element) = element?
                        && equal(element)
                    {
                        return Ok(Some(element.to_vec()));
                    }
                }
            }
            Ok(None)
        });
        Ok(Arg::Typed(taken, value_type))
    }

    fn slice(
        &mut self,
        expr: Expr,
        ty: &CqlType,
        of: &Selector,
        from: Option<&Term>,
        to: Option<&Term>,
    ) -> Result<Selected, CqlError> {
        let (key_type, _) = element_types("Slice", ty, &of.column_name())?;
        let name = format!("key({})", of.column_name());
        let mut ends = vec![];
        for end in [from, to].into_iter().flatten() {
            ends.push(self.planner.term(end, &name, &key_type)?);
        }
        let (has_from, has_to) = (from.is_some(), to.is_some());
        let is_map = matches!(ty, CqlType::Map { .. });
        let use_of = format!("slice selection on {}", of.column_name());
        // A frozen collection may be empty, so its slice may be empty too. An empty slice of any other
        // collection is null.
        let is_frozen = !ty.is_multi_cell();
        let taken = function::built_in_by_key("slice", expr, ends, use_of, move |args| {
            let from = has_from.then(|| args[1]);
            let to = has_to.then(|| args[args.len() - 1]);
            let introspection = |key: &[u8]| {
                from.is_none_or(|from| key_type.compare(key, from).is_ge())
                    && to.is_none_or(|to| key_type.compare(key, to).is_le())
            };
            let mut out = CollectionBuilder::new();
            let mut any = is_frozen;
            if is_map {
                for entry in MapIter::new(args[0])? {
                    if let (Some(key), Some(value)) = entry?
                        && introspection(key)
                    {
                        any = true;
                        out.push(key);
                        out.push(value);
                    }
                }
                return Ok(any.then(|| out.finish_map()));
            }
            for element in CollectionIter::new(args[0])? {
                if let Some(element) = element?
                    && introspection(element)
                {
                    any = true;
                    out.push(element);
                }
            }
            Ok(any.then(|| out.finish()))
        });
        Ok(Arg::Typed(taken, ty.clone()))
    }
}

/// Returns the type of the key that selects an element, and the type of the element.
fn element_types(what: &str, ty: &CqlType, name: &str) -> Result<(CqlType, CqlType), CqlError> {
    match ty {
        CqlType::Map { entry, .. } => Ok((entry.0.clone(), entry.1.clone())),
        CqlType::Set { element, .. } => Ok(((**element).clone(), (**element).clone())),
        CqlType::List { .. } => {
            invalid!("{what} selection is only allowed on sets and maps, but {name} is a list")
        }
        other => {
            invalid!("Invalid element selection: {name} is of type {} is not a collection", other.to_cql())
        }
    }
}

fn field_at(ty: &CqlType, field: &str, name: &str) -> Result<usize, CqlError> {
    let CqlType::Udt { user, .. } = ty else {
        return invalid!("Invalid field selection: {name} of type {} is not a user type", ty.to_cql());
    };
    match user.fields.iter().position(|known| known.name == field) {
        Some(at) => Ok(at),
        None => invalid!("{name} of type {} has no field {field}", ty.without_reversed().to_cql()),
    }
}
