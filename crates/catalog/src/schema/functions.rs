//! User-defined functions and aggregates: their definitions, their rules and their CQL.
//!
//! A function and an aggregate of a keyspace are found by name and argument types, and share their names. The
//! catalog keeps definitions only. What runs the bodies is a [`ScriptEngine`], which the server adds to the
//! catalog that clients see; without one, functions exist and cannot be called.
//!
//! A definition remembers its compiled body, so that statements and shards share it. A changed definition is
//! another value. Rules and error messages are those of Cassandra 5.0
//! (`cql3/statements/schema/CreateFunctionStatement.java` and its neighbours).

use std::fmt;
use std::sync::{Arc, OnceLock};

use model::CqlType;
use model::types::{UserType, push_identifier};

use crate::access::permission::Resource;
use crate::error::{CatalogError, invalid};
use crate::schema::user_types::{self, Types};

/// Runs the bodies of user-defined functions.
pub trait ScriptEngine: Send + Sync {
    /// Compiles the body of a function. The error describes the mistake in it.
    ///
    /// # Errors
    /// The language is not supported, or the body is not a program in it.
    fn compile(&self, function: &UserFunction) -> Result<Arc<dyn Program>, String>;
}

/// The compiled body of a function. Calls of several threads do not see each other.
pub trait Program: Send + Sync {
    /// Computes the result for serialized arguments; `None` is null. The result is a valid value of the
    /// function's type. The duration and the memory of a call are limited.
    ///
    /// # Errors
    /// The body fails, exceeds a limit, or returns a value of another type.
    fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, String>;
}

/// A shared [`ScriptEngine`].
#[derive(Clone)]
pub struct Scripts(pub Arc<dyn ScriptEngine>);

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripts")
    }
}

/// The definition of a function.
pub struct UserFunction {
    pub keyspace: String,
    pub name: String,
    pub argument_names: Vec<String>,
    /// As many as there are names.
    pub argument_types: Vec<CqlType>,
    pub returns: CqlType,
    /// Whether the function is called if an argument is null. Otherwise its result is null then.
    pub called_on_null: bool,
    pub language: String,
    pub body: String,
    program: OnceLock<Result<Arc<dyn Program>, String>>,
}

impl UserFunction {
    /// Creates a function without arguments, to which [`Self::argument`] adds them.
    pub fn new(keyspace: &str, name: &str, returns: CqlType, language: &str, body: &str) -> Self {
        Self {
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            argument_names: vec![],
            argument_types: vec![],
            returns,
            called_on_null: false,
            language: language.to_string(),
            body: body.to_string(),
            program: OnceLock::new(),
        }
    }

    #[must_use]
    pub fn argument(mut self, name: &str, ty: CqlType) -> Self {
        self.argument_names.push(name.to_string());
        self.argument_types.push(ty);
        self
    }

    #[must_use]
    pub fn called_on_null(mut self, called: bool) -> Self {
        self.called_on_null = called;
        self
    }

    /// The compiled body. It is compiled once.
    ///
    /// # Errors
    /// As [`ScriptEngine::compile`].
    pub fn program(&self, scripts: &Scripts) -> Result<&Arc<dyn Program>, &str> {
        self.program.get_or_init(|| scripts.0.compile(self)).as_ref().map_err(String::as_str)
    }

    pub fn resource(&self) -> Resource {
        resource(&self.keyspace, &self.name, &self.argument_types)
    }

    /// Whether a function is found by these types.
    pub fn has_arguments(&self, types: &[CqlType]) -> bool {
        same_types(&self.argument_types, types)
    }

    fn uses_type(&self, name: &str) -> bool {
        self.argument_types.iter().chain([&self.returns]).any(|ty| user_types::uses(ty, name))
    }

    fn with_user_type(&self, new: &Arc<UserType>) -> Self {
        Self {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            argument_names: self.argument_names.clone(),
            argument_types: with_user_type(&self.argument_types, new),
            returns: user_types::with_user_type(&self.returns, new),
            called_on_null: self.called_on_null,
            language: self.language.clone(),
            body: self.body.clone(),
            program: OnceLock::new(),
        }
    }
}

impl fmt::Debug for UserFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", describe_function(self))
    }
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &Self) -> bool {
        self.keyspace == other.keyspace
            && self.name == other.name
            && self.argument_names == other.argument_names
            && self.argument_types == other.argument_types
            && self.returns == other.returns
            && self.called_on_null == other.called_on_null
            && self.language == other.language
            && self.body == other.body
    }
}

impl Eq for UserFunction {}

/// The definition of an aggregate. Its functions are of the same keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAggregate {
    pub keyspace: String,
    pub name: String,
    pub argument_types: Vec<CqlType>,
    /// Its arguments are the state and the aggregate's arguments, its result is the next state.
    pub state_function: Arc<UserFunction>,
    /// Computes the result from the last state.
    pub final_function: Option<Arc<UserFunction>>,
    /// The serialized first state; `None` is null.
    pub initial: Option<Vec<u8>>,
}

impl UserAggregate {
    pub fn state_type(&self) -> &CqlType {
        &self.state_function.returns
    }

    pub fn returns(&self) -> &CqlType {
        &self.final_function.as_ref().unwrap_or(&self.state_function).returns
    }

    /// The first state as a CQL literal.
    pub fn initial_literal(&self) -> Option<String> {
        self.initial.as_ref().map(|bytes| self.state_type().text_of(bytes))
    }

    pub fn resource(&self) -> Resource {
        resource(&self.keyspace, &self.name, &self.argument_types)
    }

    pub fn has_arguments(&self, types: &[CqlType]) -> bool {
        same_types(&self.argument_types, types)
    }

    fn uses_type(&self, name: &str) -> bool {
        self.argument_types.iter().any(|ty| user_types::uses(ty, name))
            || self.functions().any(|function| function.uses_type(name))
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Arc<UserFunction>> {
        std::iter::once(&self.state_function).chain(&self.final_function)
    }
}

fn with_user_type(types: &[CqlType], new: &Arc<UserType>) -> Vec<CqlType> {
    types.iter().map(|ty| user_types::with_user_type(ty, new)).collect()
}

fn resource(keyspace: &str, name: &str, types: &[CqlType]) -> Resource {
    Resource::Function {
        keyspace: keyspace.to_string(),
        name: name.to_string(),
        arguments: type_names(types),
    }
}

/// The types as CQL, as `system_schema` and permissions store them.
pub fn type_names(types: &[CqlType]) -> Vec<String> {
    types.iter().map(CqlType::to_cql).collect()
}

/// Overloads differ in the CQL of their types. `frozen` makes no difference: it is implied.
fn same_types(a: &[CqlType], b: &[CqlType]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.freeze() == b.freeze())
}

/// The functions and aggregates of a keyspace, sorted by name and argument types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Functions {
    pub(crate) functions: Vec<Arc<UserFunction>>,
    pub(crate) aggregates: Vec<Arc<UserAggregate>>,
}

impl Functions {
    pub(crate) fn function(&self, name: &str, types: &[CqlType]) -> Option<&Arc<UserFunction>> {
        self.functions.iter().find(|known| known.name == name && known.has_arguments(types))
    }

    pub(crate) fn aggregate(&self, name: &str, types: &[CqlType]) -> Option<&Arc<UserAggregate>> {
        self.aggregates.iter().find(|known| known.name == name && known.has_arguments(types))
    }

    /// Adds a function, in place of the one with the same name and types. Aggregates use the new one.
    pub(crate) fn put(&mut self, function: Arc<UserFunction>) {
        for aggregate in &mut self.aggregates {
            let replaces = |old: &Arc<UserFunction>| {
                old.name == function.name && old.has_arguments(&function.argument_types)
            };
            if aggregate.functions().any(replaces) {
                let aggregate = Arc::make_mut(aggregate);
                if replaces(&aggregate.state_function) {
                    aggregate.state_function = function.clone();
                }
                if let Some(last) = aggregate.final_function.as_mut().filter(|last| replaces(last)) {
                    *last = function.clone();
                }
            }
        }
        let key = |known: &UserFunction| (known.name.clone(), type_names(&known.argument_types));
        self.functions
            .retain(|old| old.name != function.name || !old.has_arguments(&function.argument_types));
        self.functions.push(function);
        self.functions.sort_by_cached_key(|known| key(known));
    }

    /// Adds an aggregate, in place of the one with the same name and types.
    pub(crate) fn put_aggregate(&mut self, aggregate: Arc<UserAggregate>) {
        let key = |known: &UserAggregate| (known.name.clone(), type_names(&known.argument_types));
        self.aggregates
            .retain(|old| old.name != aggregate.name || !old.has_arguments(&aggregate.argument_types));
        self.aggregates.push(aggregate);
        self.aggregates.sort_by_cached_key(|known| key(known));
    }

    /// The names, with the keyspace, of the functions and aggregates that use a user type.
    pub(crate) fn using_type(&self, name: &str) -> Vec<String> {
        let functions = self.functions.iter().filter(|known| known.uses_type(name));
        let aggregates = self.aggregates.iter().filter(|known| known.uses_type(name));
        functions
            .map(|known| full_name(&known.keyspace, &known.name))
            .chain(aggregates.map(|known| full_name(&known.keyspace, &known.name)))
            .collect()
    }

    /// An aggregate with a first state of a type that uses this user type.
    pub(crate) fn with_initial_of(&self, name: &str) -> Option<&Arc<UserAggregate>> {
        let is_of = |aggregate: &&Arc<UserAggregate>| {
            aggregate.initial.is_some() && user_types::uses(aggregate.state_type(), name)
        };
        self.aggregates.iter().find(is_of)
    }

    /// Replaces a user type in all definitions.
    pub(crate) fn replace_user_type(&mut self, new: &Arc<UserType>) {
        let uses = |known: &&mut Arc<UserFunction>| known.uses_type(&new.name);
        for function in self.functions.iter_mut().filter(uses) {
            let changed = Arc::new(function.with_user_type(new));
            let old = std::mem::replace(function, changed.clone());
            for aggregate in &mut self.aggregates {
                if aggregate.functions().any(|used| Arc::ptr_eq(used, &old)) {
                    let aggregate = Arc::make_mut(aggregate);
                    let last = aggregate.final_function.as_mut();
                    let both = std::iter::once(&mut aggregate.state_function).chain(last);
                    both.filter(|used| Arc::ptr_eq(used, &old)).for_each(|used| *used = changed.clone());
                }
            }
        }
        for aggregate in &mut self.aggregates {
            if aggregate.uses_type(&new.name) {
                let aggregate = Arc::make_mut(aggregate);
                aggregate.argument_types = with_user_type(&aggregate.argument_types, new);
                // As it is read back from the system tables: with the new fields, which are null.
                let literal = aggregate.initial_literal();
                let again = literal.and_then(|literal| aggregate.state_type().bytes_of(&literal).ok());
                aggregate.initial = again.or(aggregate.initial.take());
            }
        }
    }
}

/// `keyspace.name`, as error messages call a function.
pub fn full_name(keyspace: &str, name: &str) -> String {
    format!("{keyspace}.{name}")
}

/// Checks the types of a definition.
pub(crate) fn check_types<'a>(
    types: &Types,
    keyspace: &str,
    used: impl IntoIterator<Item = &'a CqlType>,
) -> Result<(), CatalogError> {
    used.into_iter().try_for_each(|ty| user_types::check(types, keyspace, ty))
}

/// Refuses names that the names of permissions' resources cannot contain.
pub(crate) fn check_function_name(what: &str, name: &str) -> Result<(), CatalogError> {
    if name.contains(['/', '[', ']']) {
        return invalid!("{what} name '{name}' is invalid");
    }
    Ok(())
}

fn identifier(name: &str) -> String {
    let mut out = String::new();
    push_identifier(&mut out, name);
    out
}

/// Types as they may be written in a definition.
pub fn described_types(types: &[CqlType]) -> String {
    types.iter().map(described_type).collect::<Vec<_>>().join(", ")
}

/// A tuple as it may be written in a definition, without the `frozen` that it implies.
fn described_type(ty: &CqlType) -> String {
    let name = ty.to_cql();
    let inner = name.strip_prefix("frozen<").and_then(|name| name.strip_suffix('>'));
    match (ty, inner) {
        (CqlType::Tuple(_), Some(inner)) => inner.to_string(),
        _ => name,
    }
}

/// `CREATE FUNCTION … ;`
pub fn describe_function(function: &UserFunction) -> String {
    let arguments: Vec<String> = function
        .argument_names
        .iter()
        .zip(&function.argument_types)
        .map(|(name, ty)| format!("{} {}", identifier(name), described_type(ty)))
        .collect();
    let null = if function.called_on_null { "CALLED" } else { "RETURNS NULL" };
    // A body with `$$` can only be written as a string.
    let body = match function.body.contains("$$") || function.body.ends_with('$') {
        true => format!("'{}'", function.body.replace('\'', "''")),
        false => format!("$${}$$", function.body),
    };
    format!(
        "CREATE FUNCTION {}.{}({})\n    {null} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE {}\n    AS {body};",
        identifier(&function.keyspace),
        identifier(&function.name),
        arguments.join(", "),
        described_type(&function.returns),
        identifier(&function.language)
    )
}

/// `CREATE AGGREGATE … ;`
pub fn describe_aggregate(aggregate: &UserAggregate) -> String {
    let mut out = format!(
        "CREATE AGGREGATE {}.{}({})\n    SFUNC {}\n    STYPE {}",
        identifier(&aggregate.keyspace),
        identifier(&aggregate.name),
        described_types(&aggregate.argument_types),
        identifier(&aggregate.state_function.name),
        described_type(aggregate.state_type())
    );
    if let Some(last) = &aggregate.final_function {
        out.push_str("\n    FINALFUNC ");
        push_identifier(&mut out, &last.name);
    }
    if let Some(initial) = aggregate.initial_literal() {
        out.push_str("\n    INITCOND ");
        out.push_str(&initial);
    }
    out.push(';');
    out
}
