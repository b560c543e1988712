//! CREATE, ALTER and DROP KEYSPACE.

use std::collections::BTreeMap;

use catalog::{Keyspace, OptionValue, is_of_keyspaces, keyspace_option};
use protocol::CqlError;
use syntax::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property};

use super::names::writable_keyspace;
use super::properties::{self, boolean, map};
use super::{SchemaContext, SchemaPlan, refuse, unchanged};
use crate::error::from_catalog;

const REPLICATION_FACTOR: &str = "replication_factor";

/// The options of one statement on a keyspace.
#[derive(Default)]
struct Given {
    replication: Option<BTreeMap<String, String>>,
    durable_writes: Option<bool>,
    others: BTreeMap<String, String>,
}

impl Given {
    fn new(properties: &[Property], keyspace: &str, context: &SchemaContext<'_>) -> Result<Self, CqlError> {
        let mut given = Self::default();
        for property in properties {
            let (name, value) = properties::of(property);
            match name.as_str() {
                "replication" => given.replication = Some(replication(&value, keyspace, context)?),
                "durable_writes" => given.durable_writes = Some(boolean(&name, &value)?),
                _ if is_of_keyspaces(&name) => {
                    let value = keyspace_option(&name, &value).map_err(from_catalog)?;
                    given.others.insert(name, value);
                }
                _ => return properties::unknown(&name),
            }
        }
        Ok(given)
    }

    fn warnings(&self, keyspace: &str) -> Vec<String> {
        let factors = self.replication.iter().flatten().filter(|(name, _)| *name != "class");
        let factors = factors.filter_map(|(name, factor)| Some((name, factor.parse::<u32>().ok()?)));
        let mut warnings = vec![];
        if let Some((name, most)) = factors.max_by_key(|(_, factor)| *factor).filter(|(_, most)| *most > 1) {
            let place = match name.as_str() {
                REPLICATION_FACTOR => String::new(),
                data_center => format!(" for datacenter {data_center}"),
            };
            warnings.push(format!(
                "Your replication factor {most} for keyspace {keyspace} is higher than the number of nodes 1{place}"
            ));
        }
        if !self.others.is_empty() {
            let names: Vec<_> = self.others.keys().map(String::as_str).collect();
            warnings.push(format!("Stored, but without effect here: {}", names.join(", ")));
        }
        warnings
    }
}

/// Parses the replication options. With `NetworkTopologyStrategy`, `replication_factor` applies to every data
/// center, and the cluster has only one.
///
/// # Errors
/// The options name another data center, which has no node for the replicas, and the node does not count as
/// all replicas.
fn replication(
    value: &OptionValue,
    keyspace: &str,
    context: &SchemaContext<'_>,
) -> Result<BTreeMap<String, String>, CqlError> {
    let data_center = context.data_center;
    let mut options = map("replication", value)?.clone();
    let is_network = options.get("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    if !is_network || data_center.is_empty() {
        return Ok(options);
    }
    if let Some(factor) = options.remove(REPLICATION_FACTOR) {
        options.entry(data_center.to_string()).or_insert(factor);
    }
    let is_unknown = |name: &&String| *name != "class" && *name != data_center;
    if let Some(other) = options.keys().find(is_unknown).filter(|_| !context.counts_as_all_replicas) {
        return Err(CqlError::Config(format!(
            "Unrecognized strategy option {{{other}}} passed to NetworkTopologyStrategy for keyspace {keyspace}"
        )));
    }
    Ok(options)
}

/// Adds Cassandra's `default_keyspace_rf` to a new keyspace that has no replication factor.
fn add_default_factor(replication: &mut BTreeMap<String, String>, data_center: &str) {
    let class = replication.get("class").map_or("", String::as_str);
    let name = match class.rsplit('.').next() {
        Some("SimpleStrategy") => REPLICATION_FACTOR,
        Some("NetworkTopologyStrategy") if !data_center.is_empty() => data_center,
        _ => return,
    };
    if replication.len() == 1 {
        replication.insert(name.to_string(), "1".to_string());
    }
}

pub(super) fn create(create: &CreateKeyspace, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let name = create.name.text.clone();
    writable_keyspace(&name)?;
    let mut given = Given::new(&create.properties, &name, context)?;
    if let Some(replication) = &mut given.replication {
        add_default_factor(replication, context.data_center);
    }
    let warnings = given.warnings(&name);
    let Given { replication: Some(replication), durable_writes, others } = given else {
        return refuse!("Missing mandatory option 'replication'");
    };
    let keyspace =
        Keyspace::new(name.clone(), replication, durable_writes.unwrap_or(true)).map_err(from_catalog)?;
    let keyspace = Keyspace { others, ..keyspace };
    let if_not_exists = create.if_not_exists;
    let plan = SchemaPlan::new(move |catalog| match catalog.keyspace(&name) {
        Some(_) if if_not_exists => unchanged(catalog),
        _ => catalog.create_keyspace(keyspace),
    });
    Ok(plan.with_warnings(warnings))
}

pub(super) fn alter(alter: &AlterKeyspace, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let name = alter.name.text.clone();
    writable_keyspace(&name)?;
    let given = Given::new(&alter.properties, &name, context)?;
    let warnings = given.warnings(&name);
    let if_exists = alter.if_exists;
    let plan = SchemaPlan::new(move |catalog| {
        let Some(old) = catalog.keyspace(&name) else {
            return if if_exists { unchanged(catalog) } else { refuse!("Keyspace '{name}' doesn't exist") };
        };
        let mut keyspace = old.clone();
        // Without a strategy, the old replication is kept.
        if let Some(replication) = given.replication.filter(|options| options.contains_key("class")) {
            keyspace.replication = replication;
        }
        keyspace.durable_writes = given.durable_writes.unwrap_or(old.durable_writes);
        keyspace.others.extend(given.others);
        if keyspace == *old {
            return unchanged(catalog);
        }
        catalog.alter_keyspace(keyspace)
    });
    Ok(plan.with_warnings(warnings))
}

pub(super) fn drop(drop: &DropKeyspace) -> Result<SchemaPlan, CqlError> {
    let (name, if_exists) = (drop.name.text.clone(), drop.if_exists);
    writable_keyspace(&name)?;
    Ok(SchemaPlan::new(move |catalog| match catalog.keyspace(&name) {
        None if if_exists => unchanged(catalog),
        _ => catalog.drop_keyspace(&name),
    }))
}
