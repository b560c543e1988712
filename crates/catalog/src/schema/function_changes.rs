//! The catalog's user-defined functions: how they are found, and how they change.

use std::sync::Arc;

use model::CqlType;

use crate::error::invalid;
use crate::schema::catalog::{Catalog, Changed, event, refuse_system};
use crate::schema::change::{ChangeKind, Target};
use crate::schema::functions::{
    Scripts, UserAggregate, UserFunction, check_function_name, check_types, full_name, type_names,
};

impl Catalog {
    /// What runs the bodies of functions; `None` if functions cannot be called.
    pub fn scripts(&self) -> Option<&Scripts> {
        self.scripts.as_ref()
    }

    /// The same catalog with what runs the bodies of functions. Catalogs are compared without it.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Option<Scripts>) -> Self {
        self.scripts = scripts;
        self
    }

    /// The functions of a keyspace, sorted by name and argument types.
    pub fn functions(&self, keyspace: &str) -> impl Iterator<Item = &Arc<UserFunction>> {
        self.entry(keyspace).into_iter().flat_map(|entry| &entry.functions.functions)
    }

    /// The aggregates of a keyspace, sorted by name and argument types.
    pub fn aggregates(&self, keyspace: &str) -> impl Iterator<Item = &Arc<UserAggregate>> {
        self.entry(keyspace).into_iter().flat_map(|entry| &entry.functions.aggregates)
    }

    pub fn function(&self, keyspace: &str, name: &str, types: &[CqlType]) -> Option<&Arc<UserFunction>> {
        self.entry(keyspace)?.functions.function(name, types)
    }

    pub fn aggregate(&self, keyspace: &str, name: &str, types: &[CqlType]) -> Option<&Arc<UserAggregate>> {
        self.entry(keyspace)?.functions.aggregate(name, types)
    }

    /// Creates a function, or replaces the one of the same name and types.
    pub fn put_function(&self, function: UserFunction) -> Changed {
        refuse_system(&function.keyspace)?;
        let mut entry = self.expect_keyspace(&function.keyspace)?.clone();
        check_function_name("Function", &function.name)?;
        if self.aggregate(&function.keyspace, &function.name, &function.argument_types).is_some() {
            return invalid!("Function '{}' cannot replace an aggregate", function.name);
        }
        let used = function.argument_types.iter().chain([&function.returns]);
        check_types(&entry.types, &function.keyspace, used)?;
        let old = entry.functions.function(&function.name, &function.argument_types);
        if let Some(old) = old
            && !can_replace(&function.returns, &old.returns)
        {
            return invalid!(
                "Cannot replace function '{}', the new return type {} is not compatible with the return type {} of existing function",
                function.name,
                function.returns.to_cql(),
                old.returns.to_cql()
            );
        }
        let kind = if old.is_some() { ChangeKind::Updated } else { ChangeKind::Created };
        let target =
            Target::Function { name: function.name.clone(), arguments: type_names(&function.argument_types) };
        let keyspace = function.keyspace.clone();
        entry.functions.put(Arc::new(function));
        self.with(&keyspace, entry, vec![event(kind, &keyspace, target)])
    }

    /// Creates an aggregate, or replaces the one of the same name and types.
    pub fn put_aggregate(&self, aggregate: UserAggregate) -> Changed {
        refuse_system(&aggregate.keyspace)?;
        let mut entry = self.expect_keyspace(&aggregate.keyspace)?.clone();
        check_function_name("Aggregate", &aggregate.name)?;
        if self.function(&aggregate.keyspace, &aggregate.name, &aggregate.argument_types).is_some() {
            return invalid!("Aggregate '{}' cannot replace a function", aggregate.name);
        }
        for used in aggregate.functions() {
            let known = entry.functions.function(&used.name, &used.argument_types);
            if !known.is_some_and(|known| Arc::ptr_eq(known, used)) {
                return invalid!("Function {} has changed; repeat the statement", used.name);
            }
        }
        check_types(&entry.types, &aggregate.keyspace, &aggregate.argument_types)?;
        let old = entry.functions.aggregate(&aggregate.name, &aggregate.argument_types);
        if let Some(old) = old
            && !can_replace(aggregate.returns(), old.returns())
        {
            return invalid!(
                "Cannot replace aggregate '{}', the new return type {} isn't compatible with the return type {} of existing function",
                aggregate.name,
                aggregate.returns().to_cql(),
                old.returns().to_cql()
            );
        }
        let kind = if old.is_some() { ChangeKind::Updated } else { ChangeKind::Created };
        let target = Target::Aggregate {
            name: aggregate.name.clone(),
            arguments: type_names(&aggregate.argument_types),
        };
        let keyspace = aggregate.keyspace.clone();
        entry.functions.put_aggregate(Arc::new(aggregate));
        self.with(&keyspace, entry, vec![event(kind, &keyspace, target)])
    }

    /// Drops a function. `written` is its name as the statement has it, for errors.
    pub fn drop_function(&self, function: &UserFunction, written: &str) -> Changed {
        refuse_system(&function.keyspace)?;
        let mut entry = self.expect_keyspace(&function.keyspace)?.clone();
        let is_it = |known: &UserFunction| {
            known.name == function.name && known.has_arguments(&function.argument_types)
        };
        let users: Vec<String> = entry
            .functions
            .aggregates
            .iter()
            .filter(|aggregate| aggregate.functions().any(|used| is_it(used)))
            .map(|aggregate| full_name(&aggregate.keyspace, &aggregate.name))
            .collect();
        if !users.is_empty() {
            return invalid!("Function '{written}' is still referenced by aggregates {}", users.join(", "));
        }
        let count = entry.functions.functions.len();
        entry.functions.functions.retain(|known| !is_it(known));
        if entry.functions.functions.len() == count {
            return invalid!("Function '{written}' doesn't exist");
        }
        let target =
            Target::Function { name: function.name.clone(), arguments: type_names(&function.argument_types) };
        self.without_resource(&function.keyspace, entry, &function.resource().name(), target)
    }

    /// Drops an aggregate. `written` is its name as the statement has it, for errors.
    pub fn drop_aggregate(&self, aggregate: &UserAggregate, written: &str) -> Changed {
        refuse_system(&aggregate.keyspace)?;
        let mut entry = self.expect_keyspace(&aggregate.keyspace)?.clone();
        let count = entry.functions.aggregates.len();
        entry
            .functions
            .aggregates
            .retain(|known| known.name != aggregate.name || !known.has_arguments(&aggregate.argument_types));
        if entry.functions.aggregates.len() == count {
            return invalid!("Aggregate '{written}' doesn't exist");
        }
        let target = Target::Aggregate {
            name: aggregate.name.clone(),
            arguments: type_names(&aggregate.argument_types),
        };
        self.without_resource(&aggregate.keyspace, entry, &aggregate.resource().name(), target)
    }
}

/// Whether a function may be replaced by one with another type of result. Only a type that can hold every old
/// value is compatible.
fn can_replace(new: &CqlType, old: &CqlType) -> bool {
    let (new, old) = (new.freeze(), old.freeze());
    new == old
        || matches!(
            (&new, &old),
            (CqlType::Blob, _) | (CqlType::Text, CqlType::Ascii) | (CqlType::Uuid, CqlType::TimeUuid)
        )
        || matches!((&new, &old), (CqlType::Varint, CqlType::Int | CqlType::BigInt))
}
