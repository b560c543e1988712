//! Types inside types: the user types used by a type, and the replacement of a user type that has changed.
//!
//! A [`CqlType`] contains the fields of its user types, so that it can be used without the catalog. The
//! catalog keeps all copies equal: when a user type changes, all types that use it are changed too.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::CqlType;
use model::types::{MAX_DEPTH, UdtField, UserType};

use crate::error::{CatalogError, invalid};

/// Maximum number of types in a type, with all its user types expanded. Without a limit, two dozen small
/// types that each use the previous one twice would have a name of several gigabytes.
const MAX_PARTS: usize = 65_536;

pub(crate) type Types = BTreeMap<String, Arc<UserType>>;

/// Finds a user type for [`CqlType::from_cql`].
pub(crate) fn resolve(types: &Types, keyspace: &str, name: &str) -> Option<CqlType> {
    let in_keyspace = || types.get(name.strip_prefix(keyspace)?.strip_prefix('.')?);
    let user = types.get(name).or_else(in_keyspace)?;
    Some(CqlType::Udt { user: user.clone(), multi_cell: true })
}

pub(crate) fn uses(ty: &CqlType, name: &str) -> bool {
    ty.any(&|inner| matches!(inner, CqlType::Udt { user, .. } if user.name == name))
}

pub(crate) fn is_non_frozen_udt(ty: &CqlType) -> bool {
    ty.is_multi_cell() && matches!(ty, CqlType::Udt { .. })
}

/// The same type with the user type of that name replaced by `new`; frozen where the old one was frozen.
pub(crate) fn with_user_type(ty: &CqlType, new: &Arc<UserType>) -> CqlType {
    if !uses(ty, &new.name) {
        return ty.clone();
    }
    rebuild(ty, &|user, multi_cell| {
        if user.name == new.name {
            let new = CqlType::Udt { user: new.clone(), multi_cell: true };
            return if multi_cell { new } else { new.freeze() };
        }
        CqlType::Udt { user: Arc::new(user_with(user, new)), multi_cell }
    })
}

/// The same user type, with `new` replaced in the types of its fields.
pub(crate) fn user_with(user: &UserType, new: &Arc<UserType>) -> UserType {
    let field =
        |f: &UdtField| UdtField { name: f.name.clone(), field_type: with_user_type(&f.field_type, new) };
    UserType {
        keyspace: user.keyspace.clone(),
        name: user.name.clone(),
        fields: user.fields.iter().map(field).collect(),
    }
}

/// A type with the same serialization but without user types: they are replaced by tuples. For dropped
/// columns.
pub(crate) fn expand(ty: &CqlType) -> CqlType {
    rebuild(ty, &|user, _| CqlType::tuple(user.fields.iter().map(|field| expand(&field.field_type))))
}

/// Replaces each outermost user type by the result of `udt`.
fn rebuild(ty: &CqlType, udt: &dyn Fn(&Arc<UserType>, bool) -> CqlType) -> CqlType {
    match ty {
        CqlType::Udt { user, multi_cell } => udt(user, *multi_cell),
        CqlType::List { element, multi_cell } => {
            CqlType::List { element: Arc::new(rebuild(element, udt)), multi_cell: *multi_cell }
        }
        CqlType::Set { element, multi_cell } => {
            CqlType::Set { element: Arc::new(rebuild(element, udt)), multi_cell: *multi_cell }
        }
        CqlType::Map { entry, multi_cell } => {
            let entry = Arc::new((rebuild(&entry.0, udt), rebuild(&entry.1, udt)));
            CqlType::Map { entry, multi_cell: *multi_cell }
        }
        CqlType::Tuple(components) => {
            CqlType::Tuple(components.iter().map(|inner| rebuild(inner, udt)).collect())
        }
        CqlType::Vector { element, dimension } => {
            CqlType::Vector { element: Arc::new(rebuild(element, udt)), dimension: *dimension }
        }
        CqlType::Composite(components) => {
            CqlType::Composite(components.iter().map(|inner| rebuild(inner, udt)).collect())
        }
        CqlType::Reversed(base) => CqlType::reversed(rebuild(base, udt)),
        native => native.clone(),
    }
}

/// Checks whether a column or field of `keyspace` may have the type. Its size must be within the limits, and
/// its user types must exist in the keyspace. Its CQL name must parse as the same type, because the catalog
/// stores this name.
pub(crate) fn check(types: &Types, keyspace: &str, ty: &CqlType) -> Result<(), CatalogError> {
    let mut parts_left = MAX_PARTS;
    if !is_within(ty, MAX_DEPTH, &mut parts_left) {
        return invalid!(
            "A type is made of more than {MAX_PARTS} types or nests more than {MAX_DEPTH} levels, with the \
             fields of its user types"
        );
    }
    let base = ty.without_reversed();
    let name = base.to_cql();
    if base.any(&|inner| matches!(inner, CqlType::Udt { user, .. } if user.keyspace != keyspace)) {
        return invalid!(
            "Statement on keyspace {keyspace} cannot refer to a user type in another keyspace ({name}); user \
             types can only be used in the keyspace they are defined in"
        );
    }
    if let Some(user) = first_unknown(types, base) {
        return invalid!("Unknown type {keyspace}.{user}");
    }
    match CqlType::from_cql(&name, &|name| resolve(types, keyspace, name)) {
        Ok(again) if again == *base => Ok(()),
        Ok(_) => {
            invalid!("Type {name} is not the one that keyspace {keyspace} has by that name; read it anew")
        }
        Err(error) => invalid!("{error}"),
    }
}

/// The name of a user type in `ty` that does not exist in the keyspace.
fn first_unknown(types: &Types, ty: &CqlType) -> Option<String> {
    let found = std::cell::RefCell::new(None);
    ty.any(&|inner| match inner {
        CqlType::Udt { user, .. } if !types.contains_key(&user.name) => {
            found.replace(Some(user.name.clone()));
            true
        }
        _ => false,
    });
    found.into_inner()
}

/// Checks the limits without walking further than they allow.
fn is_within(ty: &CqlType, levels_left: usize, parts_left: &mut usize) -> bool {
    if levels_left == 0 || *parts_left == 0 {
        return false;
    }
    *parts_left -= 1;
    let mut inner = |ty: &CqlType| is_within(ty, levels_left - 1, parts_left);
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            inner(element)
        }
        CqlType::Map { entry, .. } => inner(&entry.0) && inner(&entry.1),
        CqlType::Tuple(components) | CqlType::Composite(components) => components.iter().all(inner),
        CqlType::Udt { user, .. } => user.fields.iter().all(|field| inner(&field.field_type)),
        CqlType::Reversed(base) => inner(base),
        _ => true,
    }
}
