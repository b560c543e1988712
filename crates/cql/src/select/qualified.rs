//! The selectors of a statement, with the keyspace added to the names of user-defined functions. Columns of
//! results have these names.

use std::borrow::Cow;

use syntax::{Ident, SelectItem, Selector};

use crate::function::is_defined;
use crate::term::Planner;

/// Adds keyspaces to names; borrows if the keyspace has no functions.
pub fn qualified<'i>(planner: &Planner<'_>, items: &'i [SelectItem]) -> Cow<'i, [SelectItem]> {
    let (catalog, keyspace) = (planner.catalog, &*planner.keyspace);
    let has_any =
        catalog.functions(keyspace).next().is_some() || catalog.aggregates(keyspace).next().is_some();
    if !has_any {
        return Cow::Borrowed(items);
    }
    let mut items = items.to_vec();
    items.iter_mut().for_each(|item| qualify(planner, &mut item.selector));
    Cow::Owned(items)
}

fn qualify(planner: &Planner<'_>, selector: &mut Selector) {
    let all = |elements: &mut [Selector]| elements.iter_mut().for_each(|each| qualify(planner, each));
    match selector {
        Selector::Call { name, args, .. } => {
            all(args);
            // A name that is also built in keeps its built-in overloads.
            if name.keyspace.is_none() && is_defined(planner, &name.name.text) {
                name.keyspace = Some(Ident { text: planner.keyspace.to_string(), span: name.name.span });
            }
        }
        Selector::Tuple { elements, .. }
        | Selector::List { elements, .. }
        | Selector::Set { elements, .. } => {
            all(elements);
        }
        Selector::MapOrUdt { entries, .. } => {
            entries.iter_mut().for_each(|(key, value)| {
                qualify(planner, key);
                qualify(planner, value);
            });
        }
        Selector::Arithmetic { left, right, .. } => {
            qualify(planner, left);
            qualify(planner, right);
        }
        Selector::Cast { of, .. }
        | Selector::Hint { of, .. }
        | Selector::Field { of, .. }
        | Selector::Element { of, .. }
        | Selector::Slice { of, .. }
        | Selector::Negate { of, .. }
        | Selector::CellTime { of, .. } => qualify(planner, of),
        Selector::Column(_)
        | Selector::Literal(_)
        | Selector::Null(_)
        | Selector::Marker(_)
        | Selector::CountRows(_) => {}
    }
}
