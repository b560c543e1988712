//! A keyspace: a namespace of tables and types with the same replication.

use std::collections::BTreeMap;

use crate::error::{CatalogError, configuration, invalid};
use crate::options::other_options::is_of_keyspaces;

/// Maximum length of the names of keyspaces and tables, since they are part of paths. Source: Cassandra 4.1
/// `SchemaConstants.NAME_LENGTH`.
pub(crate) const NAME_BYTES: usize = 48;
/// Maximum length of a table's name: with `-` and 32 digits it is the name of a directory.
const TABLE_NAME_BYTES: usize = 222;

const LOCATOR: &str = "org.apache.cassandra.locator.";
const REPLICATION_FACTOR: &str = "replication_factor";

/// The definition of a keyspace. Its tables and types are in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    pub name: String,
    /// `class`, with its full Java name, and its options. Use [`Keyspace::new`], which checks them.
    pub replication: BTreeMap<String, String>,
    /// False: writes may skip the commit log.
    pub durable_writes: bool,
    /// Options of other versions and of ScyllaDB, each as the CQL of its value.
    pub others: BTreeMap<String, String>,
}

/// The number of replicas of a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// In the data center of the node that asks; without data centers, all replicas.
    pub local: u32,
    /// In all other data centers together.
    pub elsewhere: u32,
    /// In the other data center with the most replicas.
    pub elsewhere_most: u32,
}

impl Factors {
    pub fn total(self) -> u32 {
        self.local.saturating_add(self.elsewhere)
    }
}

impl Keyspace {
    /// A keyspace as defined by a user. A strategy without package gets Cassandra's package.
    ///
    /// # Errors
    /// An invalid name, a missing or unknown strategy, `LocalStrategy`, or options that the strategy does not
    /// have.
    pub fn new<K: Into<String>, V: Into<String>>(
        name: impl Into<String>,
        replication: impl IntoIterator<Item = (K, V)>,
        durable_writes: bool,
    ) -> Result<Self, CatalogError> {
        let name = name.into();
        check_name(&name)?;
        let mut replication: BTreeMap<String, String> =
            replication.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let Some(class) = replication.get_mut("class") else {
            return configuration!("Missing replication strategy class");
        };
        if !class.contains('.') {
            class.insert_str(0, LOCATOR);
        }
        match class.strip_prefix(LOCATOR) {
            Some("SimpleStrategy") => check_simple(&name, &replication)?,
            Some("NetworkTopologyStrategy") => check_network_topology(&replication)?,
            Some("LocalStrategy") => {
                return invalid!(
                    "Unable to use given strategy class: LocalStrategy is reserved for internal use."
                );
            }
            _ => return configuration!("Unable to find replication strategy class '{class}'"),
        }
        Ok(Self { name, replication, durable_writes, others: BTreeMap::new() })
    }

    /// A keyspace with one replica: `SimpleStrategy` with replication factor 1.
    ///
    /// # Errors
    /// An invalid name.
    pub fn simple(name: impl Into<String>) -> Result<Self, CatalogError> {
        Self::new(name, [("class", "SimpleStrategy"), ("replication_factor", "1")], true)
    }

    /// Checks the keyspace like [`Self::new`], and its other options.
    pub(crate) fn checked(self) -> Result<Self, CatalogError> {
        let Self { name, replication, durable_writes, others } = self;
        if let Some(name) = others.keys().find(|name| !is_of_keyspaces(name)) {
            return configuration!("'{name}' is not an option of a keyspace");
        }
        Ok(Self { others, ..Self::new(name, replication, durable_writes)? })
    }

    /// A keyspace that exists on this node only.
    pub(crate) fn local(name: &str) -> Self {
        let class = ("class".to_string(), format!("{LOCATOR}LocalStrategy"));
        Self {
            name: name.to_string(),
            replication: [class].into(),
            durable_writes: true,
            others: BTreeMap::new(),
        }
    }

    /// Whether replicas are counted by data center.
    pub fn knows_data_centers(&self) -> bool {
        self.strategy() == "NetworkTopologyStrategy"
    }

    /// The number of replicas, from the view of a node of `data_center`. A strategy without a replication
    /// factor has one.
    pub fn factors(&self, data_center: &str) -> Factors {
        let factor = |text: &String| text.parse::<u32>().unwrap_or(0);
        if !self.knows_data_centers() {
            let local = self.replication.get(REPLICATION_FACTOR).map_or(1, factor);
            return Factors { local, ..Factors::default() };
        }
        let mut factors = Factors::default();
        for (name, text) in self.replication.iter().filter(|(name, _)| *name != "class") {
            let factor = factor(text);
            if name == data_center {
                factors.local = factor;
            } else {
                factors.elsewhere = factors.elsewhere.saturating_add(factor);
                factors.elsewhere_most = factors.elsewhere_most.max(factor);
            }
        }
        factors
    }

    /// The strategy as CQL shows it: without the package if it is one of Cassandra's own.
    pub fn strategy(&self) -> &str {
        let class = self.replication.get("class").map_or("", String::as_str);
        class.strip_prefix(LOCATOR).unwrap_or(class)
    }
}

fn is_legal(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(crate) fn check_name(name: &str) -> Result<(), CatalogError> {
    if !is_legal(name) {
        return invalid!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        );
    }
    if name.len() > NAME_BYTES {
        return invalid!(
            "Keyspace name must not be more than {NAME_BYTES} characters long (got {} characters for \"{name}\")",
            name.len()
        );
    }
    Ok(())
}

pub(crate) fn check_table_name(keyspace: &str, name: &str) -> Result<(), CatalogError> {
    if !is_legal(name) {
        return configuration!(
            "{keyspace}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters (got \"{name}\")"
        );
    }
    if name.len() > TABLE_NAME_BYTES {
        return configuration!(
            "{keyspace}.{name}: Table name must not be more than {TABLE_NAME_BYTES} characters long (got {} characters for \"{name}\")",
            name.len()
        );
    }
    Ok(())
}

fn check_simple(keyspace: &str, replication: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    let options = || replication.keys().filter(|key| *key != "class");
    if let Some(option) = options().find(|key| *key != REPLICATION_FACTOR) {
        return configuration!(
            "Unrecognized strategy option {{{option}}} passed to SimpleStrategy for keyspace {keyspace}"
        );
    }
    match replication.get(REPLICATION_FACTOR) {
        Some(factor) => check_factor(factor),
        None => configuration!("SimpleStrategy requires a replication_factor strategy option."),
    }
}

/// `replication_factor` applies to every data center; other keys are names of data centers.
fn check_network_topology(replication: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    let mut factors = replication.iter().filter(|(key, _)| *key != "class").peekable();
    if factors.peek().is_none() {
        return configuration!("Configuration for at least one datacenter must be present");
    }
    factors.try_for_each(|(_, factor)| check_factor(factor))
}

fn check_factor(factor: &str) -> Result<(), CatalogError> {
    if factor.contains('/') {
        return configuration!("Transient replication is not enabled on this node");
    }
    match factor.parse::<i32>() {
        Ok(0..) => Ok(()),
        Ok(_) => configuration!("Replication factor must be non-negative, found {factor}"),
        Err(_) => configuration!("Replication factor must be numeric; found {factor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_are_checked_and_spelled_in_full() {
        let simple = Keyspace::new("ks", [("class", "SimpleStrategy"), ("replication_factor", "1")], true);
        let simple = simple.unwrap();
        assert_eq!(simple.replication["class"], "org.apache.cassandra.locator.SimpleStrategy");
        assert_eq!(simple.strategy(), "SimpleStrategy");
        assert!(Keyspace::new("ks", [("class", "NetworkTopologyStrategy"), ("dc1", "3")], true).is_ok());
        let replication = [("class", "NetworkTopologyStrategy"), ("a", "3"), ("b", "2"), ("c", "1")];
        let network = Keyspace::new("ks", replication, true).unwrap();
        assert_eq!(network.factors("b"), Factors { local: 2, elsewhere: 4, elsewhere_most: 3 });
        assert_eq!((simple.factors("b").total(), Keyspace::local("ks").factors("b").total()), (1, 1));
        let error = |name: &str, options: &[(&str, &str)]| {
            Keyspace::new(name, options.iter().copied(), true).unwrap_err().to_string()
        };
        let class = ("class", "SimpleStrategy");
        assert!(error("", &[]).contains("Keyspace name must not be empty"));
        assert!(error(&"k".repeat(49), &[]).contains("more than 48 characters long (got 49 characters"));
        let table = |name: &str| check_table_name("ks", name).map_err(|error| error.to_string());
        assert_eq!(table(&"t".repeat(222)), Ok(()));
        assert!(table(&"t".repeat(223)).unwrap_err().contains("more than 222 characters long"));
        assert!(table("a-b").unwrap_err().starts_with("ks.a-b: Table name must not be empty"));
        assert!(error("a-b", &[]).contains("(got \"a-b\")"));
        assert_eq!(error("k", &[("replication_factor", "1")]), "Missing replication strategy class");
        assert!(error("k", &[class]).contains("requires a replication_factor"));
        assert!(error("k", &[class, ("replication_factor", "x")]).contains("numeric; found x"));
        assert!(error("k", &[class, ("replication_factor", "-1")]).contains("non-negative"));
        assert!(error("k", &[class, ("dc1", "1")]).contains("option {dc1} passed to SimpleStrategy"));
        assert!(error("k", &[("class", "NetworkTopologyStrategy")]).contains("at least one datacenter"));
        assert!(error("k", &[("class", "LocalStrategy")]).contains("reserved for internal use"));
        assert!(error("k", &[("class", "Nowhere")]).contains("'org.apache.cassandra.locator.Nowhere'"));
    }
}
