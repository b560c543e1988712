//! Secondary indexes as rows of `system_schema.indexes` and as CQL.
//!
//! | kind | `kind` | `options` |
//! |---|---|---|
//! | [`IndexKind::Secondary`] | `COMPOSITES` | `target` |
//! | [`IndexKind::StorageAttached`] | `CUSTOM` | `class_name` as written, `target`, the options of the statement |
//! | [`IndexKind::Local`] | `COMPOSITES` | `target` in ScyllaDB's form: `{"pk":["p"],"ck":["c"]}` |
//!
//! [`IndexDefinition::options`] has the options of the row, sorted by name. Column, part and analysis follow
//! from them. Names of indexes are unique in a keyspace. Source: Cassandra 5.0 `schema/IndexMetadata.java`,
//! `index/TargetParser.java`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::types::push_identifier;
use model::{CqlType, IndexDefinition, IndexKind, IndexPart, TableSchema, TermAnalysis};
use uuid::Uuid;

use crate::options::other_options::{map_literal, quoted};

/// The option with the indexed column.
pub const TARGET: &str = "target";
/// The option with the class of a custom index, as the statement has it.
pub const CLASS_NAME: &str = "class_name";
pub const CASE_SENSITIVE: &str = "case_sensitive";
pub const NORMALIZE: &str = "normalize";
pub const ASCII: &str = "ascii";

/// The class of storage-attached indexes.
pub const STORAGE_ATTACHED_CLASS: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";

/// Whether a class in USING means a storage-attached index: its full name, its simple name, or `sai`.
pub fn is_storage_attached(class: &str) -> bool {
    class == STORAGE_ATTACHED_CLASS
        || ["sai", "storageattachedindex"].contains(&class.to_ascii_lowercase().as_str())
}

/// The word of a part in a target; empty for a whole value.
pub fn part_word(part: IndexPart) -> &'static str {
    match part {
        IndexPart::Value => "",
        IndexPart::Keys => "keys",
        IndexPart::Values => "values",
        IndexPart::Entries => "entries",
        IndexPart::Full => "full",
    }
}

/// `column` or `part(column)`
pub fn target_text(part: IndexPart, column: &str) -> String {
    let mut name = String::new();
    push_identifier(&mut name, column);
    match part_word(part) {
        "" => name,
        word => format!("{word}({name})"),
    }
}

/// The target of a local index, as ScyllaDB stores it.
pub fn local_target_text(partition_key: &[&str], column: &str) -> String {
    let text = |name: &str| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    let keys: Vec<String> = partition_key.iter().map(|name| text(name)).collect();
    format!("{{\"pk\":[{}],\"ck\":[{}]}}", keys.join(","), text(column))
}

/// Parses [`target_text`]. A name without quotes is taken as it is.
fn parse_target(text: &str) -> Option<(IndexPart, String)> {
    let parts = [IndexPart::Keys, IndexPart::Values, IndexPart::Entries, IndexPart::Full];
    let inner = |part: IndexPart| Some((part, text.strip_prefix(part_word(part))?.strip_prefix('(')?));
    let (part, name) = match parts.into_iter().find_map(inner) {
        Some((part, inner)) => (part, inner.strip_suffix(')')?),
        None => (IndexPart::Value, text),
    };
    let name = match name.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?.replace("\"\"", "\""),
        None => name.to_string(),
    };
    Some((part, name)).filter(|(_, name)| !name.is_empty())
}

/// Parses the column of [`local_target_text`].
fn parse_local_target(text: &str) -> Option<String> {
    let column = text.rsplit_once("\"ck\":[\"")?.1.strip_suffix("\"]}")?;
    Some(column.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// The value of `kind` in `system_schema.indexes`.
pub(crate) fn kind_name(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Secondary | IndexKind::Local => "COMPOSITES",
        IndexKind::StorageAttached => "CUSTOM",
    }
}

/// Builds an index from its row in `system_schema.indexes`.
///
/// # Errors
/// The row is invalid; the text states why.
pub fn index_from_options(
    id: Uuid,
    name: &str,
    kind: &str,
    options: BTreeMap<String, String>,
) -> Result<IndexDefinition, String> {
    let target = options.get(TARGET).ok_or("the option target is missing")?;
    let is_custom = match kind {
        "COMPOSITES" => false,
        "CUSTOM" => true,
        _ => return Err(format!("the kind of an index cannot be '{kind}'")),
    };
    let class = options.get(CLASS_NAME);
    if is_custom && !class.is_some_and(|class| is_storage_attached(class)) {
        return Err(format!(
            "indexes of the class {} are not supported",
            class.map_or("null", |class| class)
        ));
    }
    let unknown = || format!("the target of an index cannot be '{target}'");
    let (kind, part, column) = match (is_custom, target.starts_with('{')) {
        (false, true) => (IndexKind::Local, None, parse_local_target(target).ok_or_else(unknown)?),
        (is_custom, _) => {
            let (part, column) = parse_target(target).ok_or_else(unknown)?;
            let kind = if is_custom { IndexKind::StorageAttached } else { IndexKind::Secondary };
            (kind, Some(part), column)
        }
    };
    let is = |option: &str| options.get(option).map(|value| value.eq_ignore_ascii_case("true"));
    let analysis = TermAnalysis {
        case_sensitive: is(CASE_SENSITIVE).unwrap_or(true),
        normalize: is(NORMALIZE).unwrap_or(false),
        ascii: is(ASCII).unwrap_or(false),
    };
    Ok(IndexDefinition {
        id,
        name: name.to_string(),
        kind,
        column,
        part: part.unwrap_or(IndexPart::Value),
        analysis,
        options: options.into_iter().collect(),
    })
}

/// The options of an index, by name.
pub fn index_options(index: &IndexDefinition) -> BTreeMap<String, String> {
    index.options.iter().cloned().collect()
}

/// `CREATE INDEX … ;`
pub fn describe_index(schema: &TableSchema, index: &IndexDefinition) -> String {
    let mut table = String::new();
    push_identifier(&mut table, &schema.keyspace);
    table.push('.');
    push_identifier(&mut table, &schema.name);
    let mut name = String::new();
    push_identifier(&mut name, &index.name);
    let mut options = index_options(index);
    let target = match index.kind {
        IndexKind::Local => {
            let identifiers = schema.partition_key.iter().map(|key| target_text(IndexPart::Value, &key.name));
            let keys: Vec<String> = identifiers.collect();
            format!("({}), {}", keys.join(", "), target_text(index.part, &index.column))
        }
        IndexKind::Secondary | IndexKind::StorageAttached => {
            options.get(TARGET).cloned().unwrap_or_else(|| target_text(index.part, &index.column))
        }
    };
    options.remove(TARGET);
    let Some(class) = options.remove(CLASS_NAME) else {
        return format!("CREATE INDEX {name} ON {table} ({target});");
    };
    let with = match options.is_empty() {
        true => String::new(),
        false => format!(" WITH OPTIONS = {}", map_literal(&options)),
    };
    format!("CREATE CUSTOM INDEX {name} ON {table} ({target}) USING {}{with};", quoted(&class))
}

/// The same schema with its indexes sorted by name, as they are loaded.
pub(crate) fn sorted(schema: Arc<TableSchema>) -> Arc<TableSchema> {
    if schema.indexes.is_sorted_by(|a, b| a.name <= b.name) {
        return schema;
    }
    let mut schema = TableSchema::clone(&schema);
    schema.indexes.sort_by(|a, b| a.name.cmp(&b.name));
    Arc::new(schema)
}

/// Whether the terms of an index are texts, which analysis may change.
pub fn is_text(ty: &CqlType) -> bool {
    matches!(ty.without_reversed(), CqlType::Text | CqlType::Ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let parts =
            [IndexPart::Value, IndexPart::Keys, IndexPart::Values, IndexPart::Entries, IndexPart::Full];
        for part in parts {
            for column in ["c", "keys", "Mixed", "it's \"q\"", "a)b("] {
                let text = target_text(part, column);
                assert_eq!(parse_target(&text), Some((part, column.to_string())), "{text}");
                let local = local_target_text(&["p", "Q\"r"], column);
                assert_eq!(parse_local_target(&local).as_deref(), Some(column), "{local}");
            }
        }
        assert_eq!(target_text(IndexPart::Keys, "M"), "keys(\"M\")");
        assert_eq!(local_target_text(&["p"], "c"), r#"{"pk":["p"],"ck":["c"]}"#);
        for wrong in ["", "keys(", "\"a", "keys()"] {
            assert_eq!(parse_target(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rows_that_are_no_index_are_refused() {
        let row = |kind: &str, options: &[(&str, &str)]| {
            let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            index_from_options(Uuid::nil(), "i", kind, options).map(|index| (index.kind, index.column))
        };
        assert_eq!(row("COMPOSITES", &[("target", "v")]), Ok((IndexKind::Secondary, "v".into())));
        assert_eq!(
            row("CUSTOM", &[("target", "values(v)"), ("class_name", "SAI")]),
            Ok((IndexKind::StorageAttached, "v".into()))
        );
        assert_eq!(row("COMPOSITES", &[]), Err("the option target is missing".to_string()));
        assert_eq!(
            row("CUSTOM", &[("target", "v"), ("class_name", "org.x")]),
            Err("indexes of the class org.x are not supported".to_string())
        );
        assert_eq!(row("KEYS", &[("target", "v")]), Err("the kind of an index cannot be 'KEYS'".to_string()));
    }
}
