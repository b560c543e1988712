//! Consistency levels: whether a statement may use a level, and whether enough replicas of the keyspace are
//! alive for it.
//!
//! The cluster has a single node, which is a replica of everything. All other replicas of a keyspace's
//! replication count as down. A keyspace of three replicas therefore answers at ONE and not at QUORUM, unless
//! the node counts as all replicas ([`Replicas::counts_as_all`]).
//! Source: Cassandra 4.1 `ConsistencyLevel.java` and `StorageProxy.java`; 5.0 gives the same answers.

use catalog::{Catalog, Factors, Keyspace, virtual_tables};
use protocol::{Consistency, CqlError};

use crate::StatementKind;
use crate::error::invalid;

/// The replicas that the node stands for.
#[derive(Clone, Copy, Debug)]
pub struct Replicas<'a> {
    /// The node's data center.
    pub data_center: &'a str,
    /// The node counts as every replica of every data center, so that all of them are alive.
    pub counts_as_all: bool,
}

/// Consistency levels of a request.
#[derive(Clone, Copy, Debug)]
pub struct ConsistencyLevels {
    pub consistency: Consistency,
    /// Serial consistency level, for the statement's conditions.
    pub serial: Option<Consistency>,
}

fn is_serial(level: Consistency) -> bool {
    matches!(level, Consistency::Serial | Consistency::LocalSerial)
}

impl ConsistencyLevels {
    /// Checks whether a statement of this kind may use the levels. `table` is the first of its tables.
    ///
    /// # Errors
    /// The statement may not use the levels.
    #[inline]
    pub fn check_kind(self, kind: StatementKind, is_batch: bool, table: &str) -> Result<(), CqlError> {
        let Self { consistency, serial } = self;
        match kind {
            StatementKind::Read | StatementKind::Range if consistency == Consistency::Any => {
                invalid!("ANY ConsistencyLevel is only supported for writes")
            }
            StatementKind::Write if is_serial(consistency) && !is_batch => {
                invalid!("You must use conditional updates for serializable writes")
            }
            StatementKind::Counter if consistency == Consistency::Any => {
                invalid!("Consistency level ANY is not yet supported for counter table {table}")
            }
            StatementKind::Counter if is_serial(consistency) => {
                invalid!("Counter operations are inherently non-serializable")
            }
            StatementKind::Conditional if is_serial(consistency) => invalid!(
                "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"",
                consistency.name()
            ),
            StatementKind::Conditional if serial.is_some_and(|serial| !is_serial(serial)) => {
                invalid!("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL")
            }
            _ => Ok(()),
        }
    }

    /// Checks whether enough replicas of the keyspace are alive for a statement of this kind.
    ///
    /// # Errors
    /// [`CqlError::Unavailable`], or the keyspace's replication strategy does not support the level.
    #[inline]
    pub fn check_replicas(
        self,
        kind: StatementKind,
        catalog: &Catalog,
        keyspace: &str,
        replicas: Replicas<'_>,
    ) -> Result<(), CqlError> {
        let is_conditional = match kind {
            StatementKind::Truncate | StatementKind::Other => return Ok(()),
            kind => kind == StatementKind::Conditional,
        };
        let wants_one =
            matches!(self.consistency, Consistency::Any | Consistency::One | Consistency::LocalOne);
        if (wants_one && !is_conditional) || virtual_tables::is_virtual_keyspace(keyspace) {
            return Ok(());
        }
        let Some(keyspace) = catalog.keyspace(keyspace) else { return Ok(()) };
        let factors = keyspace.factors(replicas.data_center);
        let counts_as_all = replicas.counts_as_all;
        if is_conditional {
            self.check_condition(keyspace, factors, counts_as_all)?;
        }
        let reported = match self.consistency {
            // A serial read of one partition reports the quorum that its replicas need.
            level if kind == StatementKind::Read => quorum_of(level),
            level => level,
        };
        enough(self.consistency, reported, factors, counts_as_all)
    }

    fn check_condition(
        self,
        keyspace: &Keyspace,
        factors: Factors,
        counts_as_all: bool,
    ) -> Result<(), CqlError> {
        if self.consistency == Consistency::EachQuorum && !keyspace.knows_data_centers() {
            let strategy = keyspace.replication.get("class").map_or("", String::as_str);
            return invalid!(
                "consistency level EACH_QUORUM not compatible with replication strategy ({strategy})"
            );
        }
        let level = self.serial.unwrap_or(Consistency::Serial);
        enough(level, quorum_of(level), factors, counts_as_all)
    }
}

/// Returns the quorum level that a serial level needs.
fn quorum_of(level: Consistency) -> Consistency {
    match level {
        Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        other => other,
    }
}

/// Checks a level against the replication. The error reports the level `reported`.
fn enough(
    level: Consistency,
    reported: Consistency,
    factors: Factors,
    counts_as_all: bool,
) -> Result<(), CqlError> {
    let quorum = |replicas: u32| replicas / 2 + 1;
    let here = (1, 1);
    let (required, alive) = match level {
        Consistency::Any | Consistency::One | Consistency::LocalOne => here,
        Consistency::Two => (2, 1),
        Consistency::Three => (3, 1),
        Consistency::Quorum | Consistency::Serial => (quorum(factors.total()), 1),
        Consistency::All => (factors.total(), 1),
        Consistency::LocalQuorum | Consistency::LocalSerial => (quorum(factors.local), 1),
        // Each data center needs a quorum of its own, and no replica of another data center is alive.
        Consistency::EachQuorum if factors.elsewhere > 0 => (quorum(factors.elsewhere_most), 0),
        Consistency::EachQuorum => (quorum(factors.local), 1),
    };
    let alive = match level {
        _ if !counts_as_all => alive,
        Consistency::LocalQuorum | Consistency::LocalSerial | Consistency::LocalOne => factors.local.max(1),
        Consistency::EachQuorum if factors.elsewhere > 0 => factors.elsewhere_most,
        _ => factors.total().max(1),
    };
    if required > alive {
        let as_int = |replicas: u32| i32::try_from(replicas).unwrap_or(i32::MAX);
        return Err(CqlError::Unavailable {
            consistency: reported as u16,
            required: as_int(required),
            alive: as_int(alive),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use Consistency as C;

    use super::*;

    #[test]
    fn each_kind_of_statement_has_its_consistency_levels() {
        let check = |kind, consistency, serial, is_batch| {
            ConsistencyLevels { consistency, serial }.check_kind(kind, is_batch, "t")
        };
        let refused = |kind, level, serial| {
            let error = check(kind, level, serial, false).expect_err("refused");
            assert!(matches!(error, CqlError::Invalid(_)));
            error.to_string()
        };
        assert_eq!(
            refused(StatementKind::Read, C::Any, None),
            "ANY ConsistencyLevel is only supported for writes"
        );
        assert_eq!(
            refused(StatementKind::Write, C::LocalSerial, None),
            "You must use conditional updates for serializable writes"
        );
        assert_eq!(check(StatementKind::Write, C::LocalSerial, None, true), Ok(()));
        assert!(refused(StatementKind::Counter, C::Any, None).ends_with("counter table t"));
        assert!(refused(StatementKind::Counter, C::Serial, None).contains("non-serializable"));
        assert!(refused(StatementKind::Conditional, C::Serial, None).starts_with("SERIAL is not supported"));
        assert!(refused(StatementKind::Conditional, C::One, Some(C::One)).contains("Must be one of SERIAL"));
        for (kind, level, serial) in [
            (StatementKind::Read, C::Serial, None),
            (StatementKind::Range, C::Quorum, Some(C::One)),
            (StatementKind::Write, C::Any, None),
            (StatementKind::Conditional, C::Any, Some(C::LocalSerial)),
            (StatementKind::Other, C::Any, Some(C::One)),
        ] {
            assert_eq!(check(kind, level, serial, false), Ok(()));
        }
    }

    /// Expected answers are those of Cassandra 5.0 with one node in `datacenter1`.
    #[test]
    fn a_consistency_level_needs_replicas_of_the_replication() {
        const SIMPLE: &str = "SimpleStrategy";
        const NETWORK: &str = "NetworkTopologyStrategy";
        let ask = |class: &str, factor: (&str, &str), kind, consistency, serial| {
            let keyspace = Keyspace::new("ks", [("class", class), factor], true).unwrap();
            let catalog = Catalog::empty().create_keyspace(keyspace).unwrap().0;
            let replicas = Replicas { data_center: "datacenter1", counts_as_all: false };
            ConsistencyLevels { consistency, serial }.check_replicas(kind, &catalog, "ks", replicas)
        };
        let short = |consistency: C, required, alive| {
            Err(CqlError::Unavailable { consistency: consistency as u16, required, alive })
        };
        let rf = |factor| ("replication_factor", factor);
        let dc = |factor| ("datacenter1", factor);
        use StatementKind::{Conditional, Counter, Range, Read, Truncate, Write};
        for kind in [Read, Range, Write, Counter] {
            for (class, one, three) in [(SIMPLE, rf("1"), rf("3")), (NETWORK, dc("1"), dc("3"))] {
                for level in [C::One, C::LocalOne, C::Quorum, C::LocalQuorum, C::EachQuorum, C::All] {
                    assert_eq!(ask(class, one, kind, level, None), Ok(()), "{kind:?} {level:?}");
                }
                assert_eq!(ask(class, one, kind, C::Two, None), short(C::Two, 2, 1));
                assert_eq!(ask(class, three, kind, C::One, None), Ok(()));
                assert_eq!(ask(class, three, kind, C::Any, None), Ok(()));
                for level in [C::Two, C::Quorum, C::LocalQuorum, C::EachQuorum] {
                    assert_eq!(ask(class, three, kind, level, None), short(level, 2, 1));
                }
                for level in [C::Three, C::All] {
                    assert_eq!(ask(class, three, kind, level, None), short(level, 3, 1));
                }
            }
        }
        assert_eq!(ask(SIMPLE, rf("3"), Read, C::Serial, None), short(C::Quorum, 2, 1));
        assert_eq!(ask(SIMPLE, rf("3"), Range, C::Serial, None), short(C::Serial, 2, 1));
        assert_eq!(ask(SIMPLE, rf("5"), Read, C::LocalSerial, None), short(C::LocalQuorum, 3, 1));
        assert_eq!(ask(SIMPLE, rf("3"), Conditional, C::One, None), short(C::Quorum, 2, 1));
        assert_eq!(
            ask(NETWORK, dc("2"), Conditional, C::Any, Some(C::LocalSerial)),
            short(C::LocalQuorum, 2, 1)
        );
        assert_eq!(ask(SIMPLE, rf("1"), Conditional, C::Two, None), short(C::Two, 2, 1));
        let error = ask(SIMPLE, rf("1"), Conditional, C::EachQuorum, None).unwrap_err();
        assert!(error.to_string().ends_with("(org.apache.cassandra.locator.SimpleStrategy)"), "{error}");
        assert_eq!(ask(NETWORK, dc("1"), Conditional, C::EachQuorum, None), Ok(()));
        assert_eq!(ask(SIMPLE, rf("3"), Truncate, C::All, None), Ok(()));
        // Another data center has the replicas, and no node of it is alive.
        assert_eq!(ask(NETWORK, ("dc2", "3"), Write, C::EachQuorum, None), short(C::EachQuorum, 2, 0));
        assert_eq!(ask(NETWORK, ("dc2", "3"), Write, C::LocalQuorum, None), Ok(()));
    }

    #[test]
    fn one_node_may_count_as_all_replicas() {
        let ask = |class: &str, factors: &[(&str, &str)], kind, consistency, serial| {
            let options = std::iter::once(("class", class)).chain(factors.iter().copied());
            let keyspace = Keyspace::new("ks", options, true).unwrap();
            let catalog = Catalog::empty().create_keyspace(keyspace).unwrap().0;
            let replicas = Replicas { data_center: "dc1", counts_as_all: true };
            ConsistencyLevels { consistency, serial }.check_replicas(kind, &catalog, "ks", replicas)
        };
        use StatementKind::{Conditional, Counter, Range, Read, Write};
        let simple = ("SimpleStrategy", [("replication_factor", "3")].as_slice());
        let network = ("NetworkTopologyStrategy", [("dc1", "3"), ("dc2", "2")].as_slice());
        let elsewhere = ("NetworkTopologyStrategy", [("dc2", "3")].as_slice());
        for (class, factors) in [simple, network, elsewhere] {
            for kind in [Read, Range, Write, Counter] {
                for level in [C::One, C::Two, C::Three, C::Quorum, C::LocalQuorum, C::EachQuorum, C::All] {
                    assert_eq!(ask(class, factors, kind, level, None), Ok(()), "{class} {kind:?} {level:?}");
                }
            }
            assert_eq!(ask(class, factors, Read, C::Serial, None), Ok(()));
            for serial in [C::Serial, C::LocalSerial] {
                assert_eq!(ask(class, factors, Conditional, C::Quorum, Some(serial)), Ok(()));
            }
        }
        // More replicas than there are of the data are still missing.
        let one = ("SimpleStrategy", [("replication_factor", "1")].as_slice());
        let short = CqlError::Unavailable { consistency: C::Two as u16, required: 2, alive: 1 };
        assert_eq!(ask(one.0, one.1, Write, C::Two, None), Err(short));
    }

    #[test]
    fn tables_of_the_node_itself_have_one_replica() {
        let catalog = Catalog::empty().with_system_tables().with_virtual_tables();
        let ask = |keyspace, consistency| {
            let levels = ConsistencyLevels { consistency, serial: None };
            let replicas = Replicas { data_center: "datacenter1", counts_as_all: false };
            levels.check_replicas(StatementKind::Range, &catalog, keyspace, replicas)
        };
        for keyspace in ["system", "system_schema", "system_auth"] {
            assert_eq!(ask(keyspace, C::Quorum), Ok(()));
            assert!(ask(keyspace, C::Two).is_err());
        }
        assert_eq!(ask("system_views", C::Three), Ok(()));
    }
}
