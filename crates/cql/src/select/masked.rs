//! The selection as users without the permission UNMASK get it: values of masked columns are replaced where
//! they leave the row, so that functions and aggregates never see them.
//!
//! Restrictions, order and groups use the values themselves. A user without SELECT_MASKED may therefore not
//! restrict masked columns.

use std::sync::Arc;

use catalog::TableSettings;
use model::TableSchema;
use syntax::{Relation, RelationTarget};

use super::SelectPlan;
use super::selection::{Computed, Input, RowComputation, Selection};
use crate::function::Masker;
use crate::restriction::ColumnRef;
use crate::term::Expr;

/// The variant of a plan for users who see masked values.
#[derive(Clone, Debug)]
pub struct MaskedPlan {
    pub plan: SelectPlan,
    /// Masked columns in WHERE.
    pub restricted: Vec<String>,
}

impl MaskedPlan {
    /// `None` if no column of the table is masked.
    pub(super) fn new(
        plan: &SelectPlan,
        settings: &TableSettings,
        relations: &[Relation],
    ) -> Option<Arc<Self>> {
        if settings.masks.is_empty() {
            return None;
        }
        let schema = &plan.schema;
        let masker = |column: ColumnRef| {
            let mask = settings.masks.get(column.name(schema))?;
            Some(Masker::new(mask, column.ty(schema)))
        };
        let selection = plan.selection.masked(&masker);
        let nearest = plan.nearest.as_ref().map(|nearest| nearest.column().name(schema));
        let names: Vec<&str> = relations.iter().flat_map(names_of).chain(nearest).collect();
        let all = ColumnRef::all(schema).into_iter().map(|column| column.name(schema));
        let restricted = all.filter(|name| settings.masks.contains_key(*name) && names.contains(name));
        Some(Arc::new(Self {
            restricted: restricted.map(str::to_string).collect(),
            plan: SelectPlan { selection, masked: None, ..plan.clone() },
        }))
    }

    /// The table that is read.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.plan.schema
    }
}

/// The columns that a relation names.
pub(super) fn names_of(relation: &Relation) -> Vec<&str> {
    let target = match relation {
        Relation::Compare { target, .. } | Relation::In { target, .. } => target,
        Relation::IsNotNull { column, .. } => return vec![column.as_str()],
        Relation::IndexExpression { .. } => return vec![],
    };
    match target {
        RelationTarget::Column(column)
        | RelationTarget::Element { column, .. }
        | RelationTarget::Field { column, .. } => vec![column.as_str()],
        RelationTarget::Token { columns, .. } | RelationTarget::Tuple { columns, .. } => {
            columns.iter().map(|column| column.as_str()).collect()
        }
    }
}

impl Selection {
    /// The selection with masked values; `masker` returns the mask of a column, if it has one.
    fn masked(&self, masker: &dyn Fn(ColumnRef) -> Option<Masker>) -> Self {
        let input = |column: ColumnRef| match masker(column) {
            Some(masker) => Input::Masked(column, masker),
            None => Input::Value(column),
        };
        let computation = match &self.computation {
            RowComputation::Plain(columns) if columns.iter().all(|column| masker(*column).is_none()) => {
                self.computation.clone()
            }
            RowComputation::Plain(columns) => RowComputation::Computed(Computed {
                outputs: (0..columns.len()).map(Expr::Input).collect(),
                inputs: columns.iter().map(|column| input(*column)).collect(),
                aggregates: vec![],
                json: None,
            }),
            RowComputation::Computed(computed) => {
                let inputs = computed.inputs.iter().map(|one| match one {
                    Input::Value(column) => input(*column),
                    other => other.clone(),
                });
                RowComputation::Computed(Computed { inputs: inputs.collect(), ..computed.clone() })
            }
        };
        let mut masked = self.clone();
        masked.computation = computation;
        masked
    }
}
