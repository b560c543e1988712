//! CREATE and DROP of user-defined functions and aggregates.
//!
//! Rules and error messages are those of Cassandra 5.0 (`cql3/statements/schema/CreateFunctionStatement.java`
//! and its neighbours). The language is Lua, as in ScyllaDB; a body is compiled before its function is
//! created.

use std::sync::Arc;

use catalog::{Catalog, CatalogError, Changed, Permission, Resource, UserAggregate, UserFunction};
use model::CqlType;
use protocol::CqlError;
use syntax::ast::{
    CreateAggregate, CreateFunction, DropFunction, QualifiedName, Statement, TypeName, TypeNode,
};
use syntax::{Ident, Term};

use super::names::{keyspace_of, type_of, writable_keyspace};
use super::{SchemaContext, SchemaPlan, refuse, to_catalog_error, unchanged};
use crate::error::from_catalog;
use crate::function::DISABLED;
use crate::term::{Env, Planner, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    Aggregate,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Function => "Function",
            Self::Aggregate => "Aggregate",
        }
    }
}

pub(super) fn create(
    create: &CreateFunction,
    catalog: &Catalog,
    context: &SchemaContext<'_>,
) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&create.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    check_directives(create.or_replace, create.if_not_exists)?;
    let Some(scripts) = catalog.scripts() else { return refuse!("{DISABLED}") };
    if create.language.text != "lua" {
        return refuse!(
            "Currently only Lua user-defined functions are available, not functions in '{}'",
            create.language.text
        );
    }
    check_name(Kind::Function, &create.name)?;
    let names: Vec<&str> = create.arguments.iter().map(|(name, _)| name.as_str()).collect();
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        return refuse!(
            "Duplicate argument names for given function {} with argument names [{}]",
            create.name.name.text,
            names.join(", ")
        );
    }
    create.arguments.iter().try_for_each(|(_, ty)| check_not_frozen("Argument", ty))?;
    check_not_frozen("Return type", &create.returns)?;
    let function = definition(create, &keyspace, catalog).map_err(from_catalog)?;
    // The function in the catalog compiles its body again when it is first called.
    if let Err(error) = function.program(scripts) {
        return refuse!("Could not compile function '{keyspace}.{}' from Lua source: {error}", function.name);
    }
    let create = create.clone();
    Ok(SchemaPlan::new(move |catalog| {
        let function = definition(&create, &keyspace, catalog)?;
        if catalog.aggregate(&keyspace, &function.name, &function.argument_types).is_some() {
            return refuse!("Function '{}' cannot replace an aggregate", function.name);
        }
        if let Some(old) = catalog.function(&keyspace, &function.name, &function.argument_types) {
            if create.if_not_exists {
                return unchanged(catalog);
            }
            if !create.or_replace {
                return refuse!("Function '{}' already exists", function.name);
            }
            if create.called_on_null != old.called_on_null {
                let null = if create.called_on_null { "CALLED" } else { "RETURNS NULL" };
                return refuse!("Function '{}' must have {null} ON NULL INPUT directive", function.name);
            }
        }
        catalog.put_function(function)
    }))
}

fn definition(
    create: &CreateFunction,
    keyspace: &str,
    catalog: &Catalog,
) -> Result<UserFunction, CatalogError> {
    if catalog.keyspace(keyspace).is_none() {
        return refuse!("Keyspace '{keyspace}' doesn't exist");
    }
    let returns = type_of(catalog, keyspace, &create.returns)?;
    let mut function =
        UserFunction::new(keyspace, &create.name.name.text, returns, &create.language.text, &create.body)
            .called_on_null(create.called_on_null);
    for (name, ty) in &create.arguments {
        function = function.argument(&name.text, type_of(catalog, keyspace, ty)?);
    }
    Ok(function)
}

pub(super) fn create_aggregate(
    create: &CreateAggregate,
    catalog: &Catalog,
    context: &SchemaContext<'_>,
) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&create.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    check_directives(create.or_replace, create.if_not_exists)?;
    check_name(Kind::Aggregate, &create.name)?;
    create.arguments.iter().try_for_each(|ty| check_not_frozen("Argument", ty))?;
    check_not_frozen("State type", &create.state_type)?;
    // Errors of the definition come before those of its name.
    aggregate_of(create, &keyspace, catalog).map_err(from_catalog)?;
    let create = create.clone();
    Ok(SchemaPlan::new(move |catalog| {
        let aggregate = aggregate_of(&create, &keyspace, catalog)?;
        let name = &aggregate.name;
        if catalog.function(&keyspace, name, &aggregate.argument_types).is_some() {
            return refuse!("Aggregate '{name}' cannot replace a function");
        }
        if catalog.aggregate(&keyspace, name, &aggregate.argument_types).is_some() {
            if create.if_not_exists {
                return unchanged(catalog);
            }
            if !create.or_replace {
                return refuse!("Aggregate '{name}' already exists");
            }
        }
        catalog.put_aggregate(aggregate)
    }))
}

fn aggregate_of(
    create: &CreateAggregate,
    keyspace: &str,
    catalog: &Catalog,
) -> Result<UserAggregate, CatalogError> {
    if catalog.keyspace(keyspace).is_none() {
        return refuse!("Keyspace '{keyspace}' doesn't exist");
    }
    let argument_types = types_of(&create.arguments, keyspace, catalog)?;
    let state_type = type_of(catalog, keyspace, &create.state_type)?;
    let find = |what: &str, name: &Ident, written: &[&TypeName], types: &[CqlType]| {
        let called = || {
            let types: Vec<String> = written.iter().map(ToString::to_string).collect();
            format!("{what} function {keyspace}.{}({})", name.text, types.join(", "))
        };
        match catalog.function(keyspace, &name.text, types) {
            Some(function) => Ok(function.clone()),
            None if catalog.aggregate(keyspace, &name.text, types).is_some() => {
                refuse!("{} isn't a scalar function", called())
            }
            None => refuse!("{} doesn't exist", called()),
        }
    };
    let written: Vec<&TypeName> = std::iter::once(&create.state_type).chain(&create.arguments).collect();
    let mut types = vec![state_type.clone()];
    types.extend_from_slice(&argument_types);
    let state_function = find("State", &create.state_function, &written, &types)?;
    if state_function.returns.freeze() != state_type.freeze() {
        let written: Vec<String> = written.iter().map(ToString::to_string).collect();
        return refuse!(
            "State function {keyspace}.{}({}) return type must be the same as the first argument type - check STYPE, argument and return types",
            state_function.name,
            written.join(", ")
        );
    }
    let final_function = match &create.final_function {
        Some(name) => Some(find("Final", name, &[&create.state_type], &types[..1])?),
        None => None,
    };
    let initial = match &create.initial {
        Some(term) => initial(term, keyspace, catalog, &state_type).map_err(to_catalog_error)?,
        None => None,
    };
    if !state_function.called_on_null && initial.is_none() {
        return refuse!(
            "Cannot create aggregate '{}' without INITCOND because state function {keyspace}.{} does not accept 'null' arguments",
            create.name.name.text,
            state_function.name
        );
    }
    Ok(UserAggregate {
        keyspace: keyspace.to_string(),
        name: create.name.name.text.clone(),
        argument_types,
        state_function,
        final_function,
        initial,
    })
}

/// The first state, from the term after INITCOND.
fn initial(
    term: &Term,
    keyspace: &str,
    catalog: &Catalog,
    state_type: &CqlType,
) -> Result<Option<Vec<u8>>, CqlError> {
    let mut planner = Planner::new(catalog, keyspace, "", 0);
    let expr = planner.term(term, "--dummy--", state_type)?;
    if !expr.is_constant() {
        return refuse!("INITCOND must be a constant");
    }
    let value = match expr.evaluate(&Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 })? {
        Value::Bytes(bytes) => Some(bytes.into_owned()),
        Value::Null | Value::Unset => None,
    };
    let is_empty =
        value.as_ref().is_none_or(|value| value.is_empty() && state_type.is_empty_value_meaningless());
    if is_empty && !matches!(term, Term::Null(_)) {
        return refuse!("INITCOND must not be empty for all types except TEXT, ASCII, BLOB");
    }
    Ok(value)
}

pub(super) fn drop(
    drop: &DropFunction,
    kind: Kind,
    context: &SchemaContext<'_>,
) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&drop.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let drop = drop.clone();
    Ok(SchemaPlan::new(move |catalog| dropped(&drop, kind, &keyspace, catalog)))
}

fn dropped(drop: &DropFunction, kind: Kind, keyspace: &str, catalog: &Catalog) -> Changed {
    let name = &drop.name.name.text;
    let written = match &drop.arguments {
        Some(arguments) => {
            let types: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            format!("{keyspace}.{name}({})", types.join(", "))
        }
        None => format!("{keyspace}.{name}"),
    };
    let missing = || match drop.if_exists {
        true => unchanged(catalog),
        false => refuse!("{} '{written}' doesn't exist", kind.name()),
    };
    if catalog.keyspace(keyspace).is_none() {
        return missing();
    }
    let functions: Vec<_> = catalog.functions(keyspace).filter(|known| known.name == *name).collect();
    let aggregates: Vec<_> = catalog.aggregates(keyspace).filter(|known| known.name == *name).collect();
    if drop.arguments.is_none() && functions.len() + aggregates.len() > 1 {
        let what = kind.name().to_uppercase();
        return refuse!(
            "'DROP {what} {name}' matches multiple function definitions; specify the argument types by issuing a statement like 'DROP {what} {name} (type, type, ...)'. You can use cqlsh 'DESCRIBE {what} {name}' command to find all overloads"
        );
    }
    let arguments = drop.arguments.as_deref().unwrap_or_default();
    let check = arguments.iter().try_for_each(|ty| check_not_frozen("Argument", ty));
    check.map_err(to_catalog_error)?;
    let types = types_of(arguments, keyspace, catalog)?;
    let is_any = drop.arguments.is_none();
    match kind {
        Kind::Function => match functions.iter().find(|known| is_any || known.has_arguments(&types)) {
            Some(function) => catalog.drop_function(function, &written),
            None => missing(),
        },
        Kind::Aggregate => match aggregates.iter().find(|known| is_any || known.has_arguments(&types)) {
            Some(aggregate) => catalog.drop_aggregate(aggregate, &written),
            None => missing(),
        },
    }
}

fn types_of(types: &[TypeName], keyspace: &str, catalog: &Catalog) -> Result<Vec<CqlType>, CatalogError> {
    types.iter().map(|ty| type_of(catalog, keyspace, ty)).collect()
}

fn check_directives(or_replace: bool, if_not_exists: bool) -> Result<(), CqlError> {
    if or_replace && if_not_exists {
        return refuse!("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives");
    }
    Ok(())
}

fn check_name(kind: Kind, name: &QualifiedName) -> Result<(), CqlError> {
    match name.name.text.contains(['/', '[', ']']) {
        true => refuse!("{} name '{}' is invalid", kind.name(), name.name.text),
        false => Ok(()),
    }
}

/// Arguments and results are values, which are frozen anyway; the word is allowed where it changes nothing.
fn check_not_frozen(what: &str, ty: &TypeName) -> Result<(), CqlError> {
    match &ty.node {
        TypeNode::Frozen(inner) if !matches!(inner.node, TypeNode::Tuple(_) | TypeNode::Vector(..)) => {
            refuse!("{what} '{ty}' cannot be frozen; remove frozen<> modifier from '{ty}'")
        }
        _ => Ok(()),
    }
}

/// The permissions that a statement on functions needs. Names and types that do not exist need none: the
/// statement is refused anyway.
pub(crate) fn permissions(
    statement: &Statement,
    in_use: Option<&str>,
    catalog: &Catalog,
) -> Vec<(Permission, Resource)> {
    let (name, or_replace) = match statement {
        Statement::CreateFunction(create) => (&create.name, create.or_replace),
        Statement::CreateAggregate(create) => (&create.name, create.or_replace),
        Statement::DropFunction(drop) | Statement::DropAggregate(drop) => (&drop.name, false),
        _ => return vec![],
    };
    let Ok(keyspace) = keyspace_of(name, in_use) else { return vec![] };
    let resource = |name: &str, types: &[&TypeName]| {
        let types = types.iter().map(|ty| type_of(catalog, keyspace, ty)).collect::<Result<Vec<_>, _>>();
        let arguments = types.ok()?.iter().map(CqlType::to_cql).collect();
        Some(Resource::Function { keyspace: keyspace.to_string(), name: name.to_string(), arguments })
    };
    let exists = |resource: &Resource| {
        catalog.functions(keyspace).any(|known| known.resource() == *resource)
            || catalog.aggregates(keyspace).any(|known| known.resource() == *resource)
    };
    let created = |types: &[&TypeName]| {
        let known = resource(&name.name.text, types).filter(|known| or_replace && exists(known));
        match known {
            Some(known) => (Permission::Alter, known),
            None => (Permission::Create, Resource::Functions(keyspace.to_string())),
        }
    };
    match statement {
        Statement::CreateFunction(create) => {
            let types: Vec<&TypeName> = create.arguments.iter().map(|(_, ty)| ty).collect();
            vec![created(&types)]
        }
        Statement::CreateAggregate(create) => {
            let types: Vec<&TypeName> = create.arguments.iter().collect();
            let of_state: Vec<&TypeName> = std::iter::once(&create.state_type).chain(types.clone()).collect();
            let state = resource(&create.state_function.text, &of_state);
            let last = create.final_function.as_ref();
            let last = last.and_then(|last| resource(&last.text, &[&create.state_type]));
            let executed = state.into_iter().chain(last);
            let executed = executed.map(|resource| (Permission::Execute, resource));
            std::iter::once(created(&types)).chain(executed).collect()
        }
        Statement::DropFunction(drop) | Statement::DropAggregate(drop) => {
            let types = drop.arguments.as_ref().map(|types| {
                types.iter().map(|ty| type_of(catalog, keyspace, ty)).collect::<Result<Vec<_>, _>>()
            });
            let is_meant = |known: &str, has: &dyn Fn(&[CqlType]) -> bool| {
                known == name.name.text
                    && match &types {
                        None => true,
                        Some(Ok(types)) => has(types),
                        Some(Err(_)) => false,
                    }
            };
            let functions = catalog
                .functions(keyspace)
                .filter(|known| is_meant(&known.name, &|types| known.has_arguments(types)))
                .map(|known: &Arc<UserFunction>| known.resource());
            let aggregates = catalog
                .aggregates(keyspace)
                .filter(|known| is_meant(&known.name, &|types| known.has_arguments(types)))
                .map(|known: &Arc<UserAggregate>| known.resource());
            functions.chain(aggregates).map(|resource| (Permission::Drop, resource)).collect()
        }
        _ => vec![],
    }
}
