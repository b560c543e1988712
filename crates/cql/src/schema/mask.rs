//! `MASKED WITH` in CREATE and ALTER TABLE.
//!
//! Source: Cassandra 5.0 `cql3/functions/masking/ColumnMask.java`.

use catalog::{Catalog, CatalogError, ColumnMask, TableSettings};
use model::CqlType;
use protocol::CqlError;
use syntax::ast::{ColumnDef, Mask};

use super::{SchemaContext, refuse, to_catalog_error};
use crate::function;
use crate::term::Planner;

const DISABLED: &str = "Cannot mask columns because dynamic data masking is not enabled. You can enable it with the \
                        dynamic_data_masking_enabled property on cassandra.yaml";

/// Refuses masks while masking is off.
pub(super) fn check_enabled<'m>(
    masks: impl IntoIterator<Item = &'m Mask>,
    context: &SchemaContext<'_>,
) -> Result<(), CqlError> {
    if !context.masks_columns && masks.into_iter().next().is_some() {
        return refuse!("{DISABLED}");
    }
    Ok(())
}

/// Adds the mask of a column to the settings of its table.
pub(super) fn add(
    catalog: &Catalog,
    settings: &mut TableSettings,
    table: (&str, &str),
    column: &ColumnDef,
    ty: &CqlType,
) -> Result<(), CatalogError> {
    if let Some(mask) = &column.mask {
        let mask = prepare(catalog, table, &column.name.text, ty, mask).map_err(to_catalog_error)?;
        settings.masks.insert(column.name.text.clone(), mask);
    }
    Ok(())
}

/// Interprets a mask of a column of this type.
pub(super) fn prepare(
    catalog: &Catalog,
    (keyspace, table): (&str, &str),
    column: &str,
    ty: &CqlType,
    mask: &Mask,
) -> Result<ColumnMask, CqlError> {
    let name = &mask.function.name.text;
    if mask.function.keyspace.as_ref().is_none_or(|keyspace| keyspace.text == "system")
        && function::Aggregate::is_name(name)
    {
        return refuse!("Aggregate function {mask} cannot be used for masking table columns");
    }
    let mut planner = Planner::new(catalog, keyspace, table, 0);
    let prepared = match function::column_mask(&mut planner, &mask.function, ty, &mask.arguments) {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return refuse!("Not-masking function {mask} cannot be used for masking table columns"),
        Err(error) if error.to_string().starts_with("Unknown function") => {
            return refuse!(
                "Unable to find masking function for {column}, no declared function matches the signature {mask}"
            );
        }
        Err(error) => return Err(error),
    };
    let (column_mask, result) = prepared;
    if result.without_reversed().freeze() != ty.without_reversed().freeze() {
        return refuse!(
            "Masking function {mask} return type is {}. This is different to the type of the masked column {column} of type \
             {}. Masking functions can only be attached to table columns if they return the same data type as the masked \
             column.",
            result.to_cql(),
            ty.without_reversed().to_cql()
        );
    }
    Ok(column_mask)
}
