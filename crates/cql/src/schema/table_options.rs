//! The options of a table: from the properties after WITH to the settings of the catalog.

use std::collections::BTreeMap;

use catalog::{OptionValue, TableSettings, compression_from_map, is_of_tables, table_option};
use model::TableOptions;
use protocol::CqlError;
use syntax::ast::Property;
use uuid::Uuid;

use super::properties::{self, boolean, count, double, map, text};
use crate::error::from_catalog;

/// The options of one statement.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenOptions {
    pub(super) id: Option<Uuid>,
    options: Vec<(String, OptionValue)>,
}

impl GivenOptions {
    /// Collects the options of a statement.
    ///
    /// # Errors
    /// An option is unknown, or a value is not valid for its option.
    pub(super) fn new(properties: &[Property]) -> Result<Self, CqlError> {
        let mut given = Self::default();
        for property in properties {
            let (name, value) = properties::of(property);
            if name == "id" {
                let id = text(&name, &value)?.parse();
                given.id = Some(id.map_err(|_| CqlError::Config("Invalid table id".to_string()))?);
            } else {
                given.options.push((name, value));
            }
        }
        given.alone()?;
        Ok(given)
    }

    /// Whether the statement sets the option.
    pub(super) fn sets(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    /// Replaces the options that the statement sets.
    pub(super) fn apply(
        &self,
        options: &mut TableOptions,
        settings: &mut TableSettings,
    ) -> Result<(), CqlError> {
        self.options.iter().try_for_each(|(name, value)| set(options, settings, name, value))
    }

    /// Returns the options of a new table, with settings in their stored form.
    fn alone(&self) -> Result<(TableOptions, TableSettings), CqlError> {
        let (mut options, mut settings) = (TableOptions::default(), TableSettings::default());
        self.apply(&mut options, &mut settings)?;
        let settings = settings.checked().map_err(from_catalog)?;
        settings.check_new(None).map_err(from_catalog)?;
        Ok((options, settings))
    }

    /// Warnings for the client: options that are stored without effect, and options that may not have the
    /// expected effect. With `is_new`, options that the statement does not set have their defaults; otherwise
    /// they stay unchanged.
    pub(super) fn warnings(&self, is_new: bool) -> Vec<String> {
        let Ok((options, settings)) = self.alone() else { return vec![] };
        let names = settings.without_effect(&options);
        let idle =
            (!names.is_empty()).then(|| format!("Stored, but without effect here: {}", names.join(", ")));
        let is_said = |option: &str| self.options.iter().any(|(name, _)| name == option);
        let ttl_s = (is_new || is_said("default_time_to_live")).then_some(options.default_ttl_s);
        idle.into_iter().chain(settings.warnings(ttl_s)).collect()
    }
}

fn set(
    options: &mut TableOptions,
    settings: &mut TableSettings,
    name: &str,
    value: &OptionValue,
) -> Result<(), CqlError> {
    match name {
        "additional_write_policy" => settings.additional_write_policy = text(name, value)?.to_string(),
        "bloom_filter_fp_chance" => options.bloom_filter_fp_chance = double(name, value)?,
        "caching" => settings.caching = caching(value)?,
        "cdc" => set_cdc(settings, value)?,
        "comment" => options.comment = text(name, value)?.to_string(),
        "compaction" => settings.compaction = map(name, value)?.clone(),
        "compression" => {
            (options.compression, settings.compression) =
                compression_from_map(map(name, value)?).map_err(from_catalog)?;
            // Before Cassandra 3.0 this option was part of `compression`.
            if let Some(chance) = settings.compression.remove("crc_check_chance") {
                options.crc_check_chance = chance.parse().expect("it was checked");
            }
        }
        "crc_check_chance" => options.crc_check_chance = double(name, value)?,
        "default_time_to_live" => options.default_ttl_s = count(name, value)?,
        "extensions" => settings.extensions = extensions(map(name, value)?)?,
        "gc_grace_seconds" => options.gc_grace_s = count(name, value)?,
        "max_index_interval" => options.max_index_interval = count(name, value)?,
        "memtable" => settings.memtable = memtable(text(name, value)?)?,
        "memtable_flush_period_in_ms" => options.memtable_flush_period_ms = count(name, value)?,
        "min_index_interval" => options.min_index_interval = count(name, value)?,
        "read_repair" => settings.read_repair = text(name, value)?.to_string(),
        "speculative_retry" => settings.speculative_retry = text(name, value)?.to_string(),
        // These two are stored only if they are not the default.
        "allow_auto_snapshot" | "incremental_backups" if boolean(name, value)? => {
            settings.others.remove(name);
        }
        _ if is_of_tables(name) => {
            settings.others.insert(name.to_string(), table_option(name, value).map_err(from_catalog)?);
        }
        _ => return properties::unknown(name),
    }
    Ok(())
}

/// The configurations of memtables in Cassandra's own configuration files; the node has one memtable.
fn memtable(name: &str) -> Result<String, CqlError> {
    match name {
        "default" | "skiplist" | "trie" => Ok(name.to_string()),
        _ => Err(CqlError::Config(format!("Memtable configuration \"{name}\" not found."))),
    }
}

/// Parses a map or, as before Cassandra 2.1, a word.
fn caching(value: &OptionValue) -> Result<BTreeMap<String, String>, CqlError> {
    let (keys, rows) = match value {
        OptionValue::Map(entries) => {
            let mut caching = TableSettings::default().caching;
            caching.extend(entries.clone());
            return Ok(caching);
        }
        OptionValue::Text(word) => match word.to_ascii_lowercase().as_str() {
            "all" => ("ALL", "ALL"),
            "keys_only" => ("ALL", "NONE"),
            "rows_only" => ("NONE", "ALL"),
            "none" => ("NONE", "NONE"),
            _ => return map("caching", value).cloned(),
        },
    };
    Ok([("keys", keys), ("rows_per_partition", rows)].map(|(k, v)| (k.to_string(), v.to_string())).into())
}

/// Sets `cdc`, which is a boolean in Cassandra and a map in ScyllaDB.
fn set_cdc(settings: &mut TableSettings, value: &OptionValue) -> Result<(), CqlError> {
    match value {
        OptionValue::Text(_) => {
            settings.cdc = boolean("cdc", value)?;
            settings.others.remove("cdc");
        }
        OptionValue::Map(entries) => {
            settings.others.insert("cdc".to_string(), table_option("cdc", value).map_err(from_catalog)?);
            settings.cdc = entries.get("enabled").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        }
    }
    Ok(())
}

/// Parses blobs by name.
fn extensions(entries: &BTreeMap<String, String>) -> Result<BTreeMap<String, Vec<u8>>, CqlError> {
    let bytes = |text: &str| {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pairs = digits.as_bytes().chunks(2);
        pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect::<Option<Vec<u8>>>()
    };
    let entry = |(name, text): (&String, &String)| match bytes(text) {
        Some(bytes) => Ok((name.clone(), bytes)),
        None => {
            Err(CqlError::Config(format!("Invalid value {text} for extension '{name}'; it must be a blob")))
        }
    };
    entries.iter().map(entry).collect()
}
