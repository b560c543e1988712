//! User-defined functions and aggregates, as overloads of their names.
//!
//! A function without `CALLED ON NULL INPUT` is null if an argument is null. Their results are not computed
//! when a statement is prepared, because their definitions can change. An error of a body is the protocol's
//! FUNCTION_FAILURE; its text has the shape of Cassandra's.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Scripts, UserAggregate, UserFunction, type_names};
use model::CqlType;
use protocol::CqlError;
use syntax::QualifiedName;

use super::resolve::Signature;
use crate::error::invalid;
use crate::term::{Env, Planner, UserCall};

/// Cassandra's error while functions are not allowed.
pub const DISABLED: &str = "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable";

/// Whether the statement's keyspace has a function or an aggregate of this name, and no other is built in.
pub fn is_defined(planner: &Planner<'_>, name: &str) -> bool {
    let (catalog, keyspace) = (planner.catalog, &*planner.keyspace);
    let is_user = catalog.functions(keyspace).any(|known| known.name == name)
        || catalog.aggregates(keyspace).any(|known| known.name == name);
    is_user && !super::is_built_in(planner, name)
}

/// The functions and aggregates of this name: of its keyspace, or of the statement's.
pub fn overloads(planner: &Planner<'_>, name: &QualifiedName) -> Vec<Signature> {
    let keyspace = name.keyspace.as_ref().map_or(&*planner.keyspace, |keyspace| &keyspace.text);
    let scripts = planner.catalog.scripts();
    let functions = planner.catalog.functions(keyspace).filter(|known| known.name == name.name.text);
    let aggregates = planner.catalog.aggregates(keyspace).filter(|known| known.name == name.name.text);
    functions
        .map(|function| of_function(function, scripts.cloned()))
        .chain(aggregates.map(of_aggregate))
        .collect()
}

fn of_function(function: &Arc<UserFunction>, scripts: Option<Scripts>) -> Signature {
    let called = function.clone();
    let run = move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| {
        let args: smallvec::SmallVec<[Option<&[u8]>; 4]> = args.iter().map(Option::as_deref).collect();
        call(&called, scripts.as_ref(), &args)
    };
    Signature {
        name: format!("{}.{}", function.keyspace, function.name).into(),
        args: function.argument_types.clone(),
        result: function.returns.clone(),
        is_pure: false,
        run: Arc::new(run),
        user: Some(UserCall::Function(function.clone())),
    }
}

fn of_aggregate(aggregate: &Arc<UserAggregate>) -> Signature {
    let run = |_: &Env<'_>, _: &[Option<Cow<'_, [u8]>>]| {
        Err(CqlError::Server("an aggregate was called as a function".to_string()))
    };
    Signature {
        name: format!("{}.{}", aggregate.keyspace, aggregate.name).into(),
        args: aggregate.argument_types.clone(),
        result: aggregate.returns().clone(),
        is_pure: false,
        run: Arc::new(run),
        user: Some(UserCall::Aggregate(aggregate.clone())),
    }
}

/// Calls a function; a null argument may make its result null.
fn call(
    function: &UserFunction,
    scripts: Option<&Scripts>,
    args: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>, CqlError> {
    let Some(scripts) = scripts else { return invalid!("{DISABLED}") };
    // The empty value of a number or of a time is null for a function.
    let args: smallvec::SmallVec<[Option<&[u8]>; 4]> = args
        .iter()
        .zip(&function.argument_types)
        .map(|(arg, ty)| arg.filter(|bytes| !bytes.is_empty() || !ty.is_empty_value_meaningless()))
        .collect();
    if !function.called_on_null && args.iter().any(Option::is_none) {
        return Ok(None);
    }
    match function.program(scripts) {
        Ok(program) => program.call(&args).map_err(|text| failure(function, &text)),
        Err(text) => invalid!(
            "Function '{}.{}' exists but hasn't been loaded successfully for the following reason: {text}",
            function.keyspace,
            function.name
        ),
    }
}

fn failure(function: &UserFunction, text: &str) -> CqlError {
    let UserFunction { keyspace, name, .. } = function;
    let arguments = type_names(&function.argument_types);
    CqlError::FunctionFailure {
        text: format!("execution of '{keyspace}.{name}[{}]' failed: {text}", arguments.join(", ")),
        keyspace: keyspace.clone(),
        function: name.clone(),
        arguments,
    }
}

/// An aggregate whose functions can be called.
#[derive(Clone, Debug)]
pub struct UserAggregation {
    aggregate: Arc<UserAggregate>,
    scripts: Option<Scripts>,
}

impl UserAggregation {
    pub fn new(aggregate: &Arc<UserAggregate>, scripts: Option<&Scripts>) -> Self {
        Self { aggregate: aggregate.clone(), scripts: scripts.cloned() }
    }

    pub fn result(&self) -> &CqlType {
        self.aggregate.returns()
    }

    /// The state before the first row.
    pub fn start(&self) -> Option<Vec<u8>> {
        self.aggregate.initial.clone()
    }

    /// The state after a row. A state function that is not called for null skips rows with null, and leaves
    /// a state that is null.
    pub fn next(&self, state: Option<Vec<u8>>, args: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, CqlError> {
        let function = &self.aggregate.state_function;
        if !function.called_on_null && args.iter().any(Option::is_none) {
            return Ok(state);
        }
        let args: smallvec::SmallVec<[Option<&[u8]>; 4]> =
            std::iter::once(state.as_deref()).chain(args.iter().copied()).collect();
        call(function, self.scripts.as_ref(), &args)
    }

    /// The result for the last state.
    pub fn finish(&self, state: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, CqlError> {
        match &self.aggregate.final_function {
            Some(function) => call(function, self.scripts.as_ref(), &[state.as_deref()]),
            None => Ok(state),
        }
    }
}
