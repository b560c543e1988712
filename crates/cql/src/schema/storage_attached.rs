//! Rules of storage-attached indexes: their options, and the types that they index.
//!
//! Source of the rules and of the error messages: Cassandra 5.0 `index/sai/StorageAttachedIndex.java`,
//! `index/sai/analyzer/NonTokenizingOptions.java`, `AbstractAnalyzer.java`, `IndexWriterConfig.java`.

use std::collections::BTreeMap;

use catalog::CatalogError;
use catalog::indexes::{ASCII, CASE_SENSITIVE, NORMALIZE, index_options, is_text};
use model::{CqlType, IndexDefinition, IndexKind, IndexTerms, TableSchema};

use super::refuse;
use crate::function::Similarity;
use crate::restriction::ColumnRef;

const ANALYSIS_OPTIONS: [&str; 3] = [ASCII, CASE_SENSITIVE, NORMALIZE];
const VECTOR_OPTIONS: [&str; 4] =
    ["construction_beam_width", "maximum_node_connections", "optimize_for", "similarity_function"];

/// Checks the names of the options in the statement.
pub(super) fn check_options(options: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    let is_known = |name: &str| ANALYSIS_OPTIONS.contains(&name) || VECTOR_OPTIONS.contains(&name);
    let unknown: Vec<&str> = options.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        let text = format!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        );
        return Err(CatalogError::Configuration(text));
    }
    Ok(())
}

/// Checks a new index against the other indexes of its table, its options and its column.
pub(super) fn check(schema: &TableSchema, index: &IndexDefinition) -> Result<(), CatalogError> {
    let is_other = |known: &IndexDefinition| {
        known.kind == IndexKind::StorageAttached && known.column == index.column && known.part == index.part
    };
    if schema.indexes.iter().any(|known| is_other(known)) {
        return refuse!(
            "Cannot create more than one storage-attached index on the same column: {}",
            index.column
        );
    }
    let options = index_options(index);
    let analysis: Vec<(&String, &String)> =
        options.iter().filter(|(name, _)| ANALYSIS_OPTIONS.contains(&name.as_str())).collect();
    let column =
        ColumnRef::named(schema, &index.column).map_err(|error| CatalogError::Invalid(error.to_string()))?;
    if column.is_key() && !analysis.is_empty() {
        let each: Vec<String> = analysis.iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
        return refuse!(
            "Analysis options are not supported on primary key columns, but found {{{}}}",
            each.join(", ")
        );
    }
    let terms = IndexTerms::new(schema, &index.clone().into())
        .map_err(|error| CatalogError::Invalid(error.to_string()))?;
    let ty = terms.term_type().without_reversed();
    if !analysis.is_empty() && !is_text(ty) {
        return refuse!("CQL type {} cannot be analyzed.", ty.to_cql());
    }
    for (name, value) in analysis {
        check_boolean(name, value)?;
    }
    if let CqlType::Vector { element, dimension } = ty {
        return check_vector(index, &options, element, *dimension);
    }
    if VECTOR_OPTIONS.iter().any(|name| options.contains_key(*name)) {
        return refuse!("CQL type {} cannot have vector options", ty.to_cql());
    }
    let is_entry = index.part == model::IndexPart::Entries;
    let types = match ty {
        CqlType::Tuple(parts) if is_entry => parts.iter().collect(),
        ty => vec![ty],
    };
    match types.into_iter().find(|ty| !is_supported(ty)) {
        Some(ty) => refuse!("Unsupported type: {}", ty.to_cql()),
        None => Ok(()),
    }
}

/// Checks an index of vectors.
fn check_vector(
    index: &IndexDefinition,
    options: &BTreeMap<String, String>,
    element: &CqlType,
    dimension: u32,
) -> Result<(), CatalogError> {
    for (option, what) in [
        ("maximum_node_connections", "Maximum node connections"),
        ("construction_beam_width", "Construction beam width"),
    ] {
        if options.contains_key(option) {
            return refuse!("{what} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS");
        }
    }
    let function = options.get("similarity_function").map_or("COSINE", String::as_str).to_uppercase();
    let Some(similarity) = Similarity::named(&function) else {
        return refuse!(
            "Similarity function {function} was not recognized for index {}. Valid values are: EUCLIDEAN, DOT_PRODUCT, COSINE",
            index.name
        );
    };
    if let Some(goal) = options.get("optimize_for").map(|goal| goal.to_uppercase())
        && !matches!(goal.as_str(), "LATENCY" | "RECALL")
    {
        return refuse!(
            "optimize_for '{goal}' was not recognized for index {}. Valid values are: LATENCY, RECALL",
            index.name
        );
    }
    if *element != CqlType::Float {
        return refuse!("SAI ANN indexes are only allowed on vector columns with float elements");
    }
    if dimension == 1 && similarity == Similarity::Cosine {
        return refuse!("Cosine similarity is not supported for single-dimension vectors");
    }
    Ok(())
}

fn check_boolean(name: &str, value: &str) -> Result<(), CatalogError> {
    if value.is_empty() {
        return refuse!("Empty value for boolean option '{name}'");
    }
    if !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") {
        return refuse!("Illegal value for boolean option '{name}': {value}");
    }
    Ok(())
}

/// Scalars with an order of their own, and frozen values, which are compared as a whole.
fn is_supported(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Ascii
            | CqlType::BigInt
            | CqlType::Boolean
            | CqlType::Date
            | CqlType::Decimal
            | CqlType::Double
            | CqlType::Float
            | CqlType::Inet
            | CqlType::Int
            | CqlType::SmallInt
            | CqlType::Text
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::TimeUuid
            | CqlType::TinyInt
            | CqlType::Uuid
            | CqlType::Varint
            | CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Vector { .. }
    )
}
