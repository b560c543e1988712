//! Schema statements on a catalog: their changes, warnings and errors.

mod indexes;

use catalog::{Catalog, Keyspace};
use model::{Codec, ColumnKind, Compression, CqlType};
use protocol::{ChangeType, CqlError, SchemaTarget};
use syntax::ast::{QualifiedName, Statement};
use syntax::parse;
use uuid::Uuid;

use super::{SchemaContext, answer, plan, truncated_table, used_keyspace};
use crate::error::from_catalog;

/// A catalog that statements change one after another.
pub(crate) struct Session {
    pub(crate) catalog: Catalog,
    pub(crate) tables: u128,
}

impl Session {
    /// Creates a session that uses the keyspace `ks`.
    pub(crate) fn new() -> Self {
        let catalog = Catalog::empty().with_system_tables();
        let (catalog, _) = catalog.create_keyspace(Keyspace::simple("ks").unwrap()).unwrap();
        Self { catalog, tables: 0 }
    }

    /// Executes a statement and returns its changes and warnings.
    pub(crate) fn try_run(
        &mut self,
        text: &str,
    ) -> Result<(Vec<catalog::SchemaChange>, Vec<String>), CqlError> {
        self.tables += 1;
        let context = SchemaContext {
            keyspace: Some("ks"),
            timestamp_us: 1_000_000,
            new_table_id: Uuid::from_u128(self.tables),
            data_center: "datacenter1",
            rules: crate::SchemaRules::default(),
            counts_as_all_replicas: false,
            masks_columns: true,
        };
        let parsed = parse(text)?;
        let plan = plan(&parsed.statement, &self.catalog, &context)?.expect("a statement on the schema");
        let (catalog, changes) = (plan.change)(&self.catalog).map_err(from_catalog)?;
        self.catalog = catalog;
        Ok((changes, plan.warnings))
    }

    #[track_caller]
    pub(crate) fn run(&mut self, text: &str) -> (Vec<catalog::SchemaChange>, Vec<String>) {
        self.try_run(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[track_caller]
    fn refused(&mut self, text: &str, expect: &str) {
        match self.try_run(text) {
            Ok(_) => panic!("not refused: {text}"),
            Err(error) => assert_eq!(format!("{:#06x} {error}", error.code()), expect, "{text}"),
        }
    }
}

#[test]
fn tables_are_made_as_they_are_written() {
    let mut session = Session::new();
    session.run("CREATE TYPE address (street text, zip int)");
    let (changes, warnings) = session.run(
        "CREATE TABLE t (p1 int, p2 text, k timeuuid, \"Order\" int, s list<text> STATIC, a frozen<address>, \
         u address, v vector<float, 3>, m map<text, frozen<list<int>>>, PRIMARY KEY ((p1, p2), k, \"Order\")) \
         WITH CLUSTERING ORDER BY (k DESC) AND comment = 'it''s' AND gc_grace_seconds = 10 \
         AND ID = 5bc52802-de25-35ed-aeab-188eecebb091",
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    let result = answer(&changes).unwrap();
    assert_eq!((result.change, result.target), (ChangeType::Created, SchemaTarget::Table("t".into())));
    let schema = session.catalog.schema("ks", "t").unwrap();
    assert_eq!(schema.id.to_string(), "5bc52802-de25-35ed-aeab-188eecebb091");
    let keys: Vec<_> =
        schema.partition_key.iter().chain(&schema.clustering).map(|key| key.name.as_str()).collect();
    assert_eq!(keys, ["p1", "p2", "k", "Order"]);
    assert_eq!(schema.clustering[0].ty, CqlType::reversed(CqlType::TimeUuid));
    assert_eq!(schema.clustering[1].ty, CqlType::Int);
    assert_eq!(schema.column_named("s").unwrap().kind, ColumnKind::Static);
    assert!(schema.column_named("u").unwrap().ty.is_multi_cell());
    assert!(!schema.column_named("a").unwrap().ty.is_multi_cell());
    assert_eq!((schema.options.comment.as_str(), schema.options.gc_grace_s), ("it's", 10));
}

#[test]
fn what_cannot_be_a_table_is_refused_in_cassandras_words() {
    let mut session = Session::new();
    session.run("CREATE TYPE u (f int)");
    session.run("CREATE TYPE l (f list<int>)");
    session.run("CREATE TABLE there (p int PRIMARY KEY)");
    for (columns, expect) in [
        ("p int", "No PRIMARY KEY specifed for table 't' (exactly one required)"),
        (
            "p int PRIMARY KEY, q int PRIMARY KEY",
            "Multiple PRIMARY KEY specified for table 't' (exactly one required)",
        ),
        ("p int, p text, PRIMARY KEY (p)", "Duplicate column 'p' declaration for table 't'"),
        ("p int, PRIMARY KEY (q)", "Unknown column 'q' referenced in PRIMARY KEY for table 't'"),
        ("p int, PRIMARY KEY (p, p)", "Duplicate column 'p' in PRIMARY KEY clause for table 't'"),
        (
            "p list<int> PRIMARY KEY",
            "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'p'",
        ),
        ("p u PRIMARY KEY", "Invalid non-frozen user-defined type \"ks.u\" for PRIMARY KEY column 'p'"),
        ("p counter PRIMARY KEY", "counter type is not supported for PRIMARY KEY column 'p'"),
        ("p frozen<list<duration>> PRIMARY KEY", "duration type is not supported for PRIMARY KEY column 'p'"),
        ("p int, s int STATIC, PRIMARY KEY (p, s)", "Static column 's' cannot be part of the PRIMARY KEY"),
        (
            "p int PRIMARY KEY, s int STATIC",
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ),
        (
            "p int PRIMARY KEY, c counter, v int",
            "Cannot mix counter and non counter columns in the same table",
        ),
        ("p int PRIMARY KEY, v no", "Unknown type ks.no"),
        ("p int PRIMARY KEY, v l", "Non-frozen UDTs with nested non-frozen collections are not supported"),
        (
            "p int PRIMARY KEY, v other.u",
            "Statement on keyspace ks cannot refer to a user type in keyspace other; user types can only be used in \
             the keyspace they are defined in",
        ),
    ] {
        session.refused(&format!("CREATE TABLE t ({columns})"), &format!("0x2200 {expect}"));
    }
    let keys = "CREATE TABLE t (p int, a int, b int, PRIMARY KEY (p, a, b)) WITH CLUSTERING ORDER BY";
    session.refused(&format!("{keys} (b DESC)"), "0x2200 Missing CLUSTERING ORDER for column a");
    session.refused(
        &format!("{keys} (b DESC, a ASC)"),
        "0x2200 The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns (a \
         must appear before b)",
    );
    session.refused(
        &format!("{keys} (a ASC, b ASC, p ASC)"),
        "0x2200 Only clustering key columns can be defined in CLUSTERING ORDER directive: [p] are not clustering columns",
    );
    session.refused(
        &format!("{keys} (a ASC, a DESC)"),
        "0x2200 Duplicate column 'a' in CLUSTERING ORDER BY clause for table 't'",
    );
    session.refused(
        "CREATE TABLE t (p int PRIMARY KEY, c counter) WITH default_time_to_live = 1",
        "0x2200 Cannot set default_time_to_live on a table with counters",
    );
    session.refused(
        "CREATE TABLE there (p int PRIMARY KEY)",
        "0x2400 Cannot add already existing table \"there\" to keyspace \"ks\"",
    );
    session.refused("CREATE TABLE no.t (p int PRIMARY KEY)", "0x2200 Keyspace 'no' doesn't exist");
    session.refused(
        "CREATE TABLE system.t (p int PRIMARY KEY)",
        "0x2100 system keyspace is not user-modifiable.",
    );
}

#[test]
fn a_type_may_be_named_as_a_native_one() {
    let mut session = Session::new();
    session.run("CREATE TYPE \"int\" (f int)");
    session.run(
        "CREATE TABLE t (p int PRIMARY KEY, v \"int\", w frozen<vector<int, 2>>, x list<frozen<\"int\">>)",
    );
    let schema = session.catalog.schema("ks", "t").unwrap();
    let ty = |name: &str| schema.column_named(name).unwrap().ty.to_cql();
    assert_eq!(
        [ty("v"), ty("w"), ty("x")],
        ["\"int\"", "vector<int, 2>", "list<frozen<\"int\">>"].map(str::to_string)
    );
    assert!(matches!(schema.column_named("v").unwrap().ty, CqlType::Udt { .. }));
    session.refused(
        "CREATE TABLE y (p int PRIMARY KEY, v tuple<int, counter>)",
        "0x2200 Counters are not allowed inside tuples",
    );
}

#[test]
fn if_exists_leaves_nothing_to_do() {
    let mut session = Session::new();
    session.run("CREATE TABLE t (p int PRIMARY KEY, v int)");
    session.run("CREATE TYPE u (f int)");
    let before = session.catalog.clone();
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS t (q text PRIMARY KEY)",
        "CREATE TYPE IF NOT EXISTS u (g int)",
        "ALTER KEYSPACE IF EXISTS no WITH durable_writes = false",
        "ALTER TABLE IF EXISTS no ADD c int",
        "ALTER TABLE t ADD IF NOT EXISTS v int",
        "ALTER TABLE t DROP IF EXISTS w",
        "ALTER TABLE t RENAME IF EXISTS w TO x",
        "ALTER TABLE t WITH gc_grace_seconds = 864000",
        "ALTER TYPE IF EXISTS no ADD f int",
        "ALTER TYPE u ADD IF NOT EXISTS f int",
        "ALTER TYPE u RENAME IF EXISTS g TO h",
        "DROP TABLE IF EXISTS no",
        "DROP TABLE IF EXISTS no.t",
        "DROP TYPE IF EXISTS no",
        "DROP KEYSPACE IF EXISTS no",
    ] {
        let (changes, _) = session.run(text);
        assert_eq!(answer(&changes), None, "{text}");
        assert!(session.catalog == before, "{text}");
    }
}

#[test]
fn tables_are_altered_and_dropped() {
    let mut session = Session::new();
    session.run("CREATE TYPE u (f int)");
    session.run("CREATE TABLE t (p int, k int, v int, c u, PRIMARY KEY (p, k))");
    session.run("ALTER TABLE t ADD (a text, s set<int> STATIC)");
    session.run("ALTER TABLE t RENAME p TO part AND k TO clust");
    session.run("ALTER TABLE t DROP (v, a) USING TIMESTAMP 77");
    let schema = session.catalog.schema("ks", "t").unwrap();
    assert_eq!(
        (schema.partition_key[0].name.as_str(), schema.clustering[0].name.as_str()),
        ("part", "clust")
    );
    let dropped: Vec<_> =
        schema.dropped.iter().map(|column| (column.name.as_str(), column.dropped_time_us)).collect();
    assert_eq!(dropped, [("a", 77), ("v", 77)]);
    assert_eq!(schema.column_named("s").unwrap().kind, ColumnKind::Static);
    session.run("ALTER TABLE t ADD v int");
    session.run("ALTER TABLE t DROP v");
    let schema = session.catalog.schema("ks", "t").unwrap();
    assert_eq!(schema.dropped.iter().find(|column| column.name == "v").unwrap().dropped_time_us, 1_000_000);
    for (text, expect) in [
        ("ALTER TABLE no ADD c int", "0x2200 Table 'ks.no' doesn't exist"),
        ("ALTER TABLE t ADD part int", "0x2200 Column with name 'part' already exists"),
        ("ALTER TABLE t ADD (n int, n int)", "0x2200 Column with name 'n' already exists"),
        (
            "ALTER TABLE t ADD v text",
            "0x2200 Cannot add a column 'v' of type text, incompatible with previously dropped column 'v' of type int",
        ),
        (
            "ALTER TABLE t ADD v int STATIC",
            "0x2200 Cannot re-add previously dropped column 'v' of kind STATIC, incompatible with previous kind \
             REGULAR",
        ),
        (
            "ALTER TABLE t ADD n counter",
            "0x2300 ks.t: Cannot have a counter column (\"n\") in a non counter table",
        ),
        ("ALTER TABLE t DROP part", "0x2200 Cannot drop PRIMARY KEY column part"),
        ("ALTER TABLE t DROP x", "0x2200 Column x was not found in table 'ks.t'"),
        ("ALTER TABLE t DROP c", "0x2200 Cannot drop non-frozen column c of user type u"),
        ("ALTER TABLE t RENAME s TO z", "0x2200 Cannot rename non PRIMARY KEY column s"),
        ("ALTER TABLE t RENAME x TO z", "0x2200 Undefined column name x in table ks.t"),
        (
            "ALTER TABLE t RENAME part TO s",
            "0x2200 Cannot rename column part to s in table 'ks.t'; another column with that name already exists",
        ),
        ("ALTER TABLE t ALTER s TYPE blob", "0x2200 Altering column types is no longer supported"),
        (
            "ALTER TABLE t DROP COMPACT STORAGE",
            "0x2200 DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.",
        ),
        ("ALTER TABLE t WITH ID = 5bc52802-de25-35ed-aeab-188eecebb091", "0x2300 Cannot alter table id."),
        (
            "ALTER TABLE system_schema.tables ADD c int",
            "0x2100 system_schema keyspace is not user-modifiable.",
        ),
        ("DROP TABLE no", "0x2200 Table 'ks.no' doesn't exist"),
    ] {
        session.refused(text, expect);
    }
    let (changes, _) = session.run("DROP TABLE t");
    assert_eq!(answer(&changes).unwrap().change, ChangeType::Dropped);
}

#[test]
fn keyspaces_and_types_change() {
    let mut session = Session::new();
    let (_, warnings) = session.run(
        "CREATE KEYSPACE n WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 3} AND \
         durable_writes = false AND tablets = {'enabled': false}",
    );
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].ends_with(
        "factor 3 for keyspace n is higher than the number of nodes 1 for datacenter datacenter1"
    ));
    assert_eq!(warnings[1], "Stored, but without effect here: tablets");
    let keyspace = session.catalog.keyspace("n").unwrap();
    assert_eq!((keyspace.replication["datacenter1"].as_str(), keyspace.durable_writes), ("3", false));
    assert!(!keyspace.replication.contains_key("replication_factor"));
    assert_eq!(keyspace.others["tablets"], "{'enabled': 'false'}");
    session.run("CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy'}");
    session.run("CREATE KEYSPACE net WITH replication = {'class': 'NetworkTopologyStrategy'}");
    let factor =
        |keyspace: &str, name: &str| session.catalog.keyspace(keyspace).unwrap().replication[name].clone();
    assert_eq!((factor("one", "replication_factor"), factor("net", "datacenter1")), ("1".into(), "1".into()));
    session.run("ALTER KEYSPACE n WITH durable_writes = true");
    let keyspace = session.catalog.keyspace("n").unwrap();
    assert!(keyspace.durable_writes && keyspace.replication["datacenter1"] == "3");
    for (text, expect) in [
        ("CREATE KEYSPACE x WITH durable_writes = true", "0x2200 Missing mandatory option 'replication'"),
        (
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "0x2400 Cannot add existing keyspace \"ks\"",
        ),
        (
            "CREATE KEYSPACE x WITH replication = 'one'",
            "0x2000 Invalid value for property 'replication'. It should be a map.",
        ),
        (
            "CREATE KEYSPACE x WITH replication = {'class': 'NetworkTopologyStrategy', 'dc2': 1}",
            "0x2300 Unrecognized strategy option {dc2} passed to NetworkTopologyStrategy for keyspace x",
        ),
        (
            "CREATE KEYSPACE x WITH replication = {'replication_factor': 1}",
            "0x2300 Missing replication strategy class",
        ),
        ("ALTER KEYSPACE n WITH colour = 1", "0x2000 Unknown property 'colour'"),
        (
            "ALTER KEYSPACE n WITH durable_writes = 'maybe'",
            "0x2000 Invalid boolean value maybe for 'durable_writes'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'.",
        ),
        ("ALTER KEYSPACE no WITH durable_writes = true", "0x2200 Keyspace 'no' doesn't exist"),
        ("DROP KEYSPACE no", "0x2200 Keyspace 'no' doesn't exist"),
        ("DROP KEYSPACE system_auth", "0x2100 system_auth keyspace is not user-modifiable."),
        ("ALTER TYPE no ADD f int", "0x2200 Type ks.no doesn't exist"),
    ] {
        session.refused(text, expect);
    }
    session.run("CREATE TYPE ks.u (a int, b text)");
    session.run("ALTER TYPE u ADD c frozen<list<int>>");
    session.run("ALTER TYPE u RENAME a TO b AND b TO a");
    let names = |session: &Session| {
        let user = session.catalog.user_type("ks", "u").unwrap();
        user.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&session), ["b", "a", "c"]);
    for (text, expect) in [
        ("CREATE TYPE u (a int)", "0x2200 A user type with name 'u' already exists"),
        ("CREATE TYPE w (a int, a int)", "0x2200 Duplicate field name 'a' in type 'w'"),
        ("CREATE TYPE w (a counter)", "0x2200 A user type cannot contain counters"),
        ("CREATE TYPE w (a u)", "0x2200 A user type cannot contain non-frozen UDTs"),
        (
            "ALTER TYPE u ADD a int",
            "0x2200 Cannot add field a to type ks.u: a field with name a already exists",
        ),
        ("ALTER TYPE u RENAME x TO y", "0x2200 Unkown field x in user type ks.u"),
        ("ALTER TYPE u RENAME a TO b", "0x2200 Duplicate field name b in type ks"),
        ("ALTER TYPE u ALTER a TYPE blob", "0x2200 Altering field types is no longer supported"),
        ("DROP TYPE no", "0x2200 Type 'ks.no' doesn't exist"),
    ] {
        session.refused(text, expect);
    }
    session.run("CREATE TABLE t (p int PRIMARY KEY, v frozen<u>)");
    session.refused("DROP TYPE u", "0x2200 Cannot drop user type 'ks.u' as it is still used by tables t");
    let (changes, _) = session.run("DROP KEYSPACE ks");
    assert_eq!(changes.len(), 3);
    let result = answer(&changes).unwrap();
    assert_eq!((result.change, result.target), (ChangeType::Dropped, SchemaTarget::Keyspace));
}

/// Every option of Cassandra and ScyllaDB: its text in the statement, its text in DESCRIBE, and whether the
/// statement warns that the option has no effect.
pub(crate) const OPTIONS: &[(&str, &str, bool)] = &[
    ("additional_write_policy = '50MS'", "additional_write_policy = '50ms'", true),
    ("bloom_filter_fp_chance = 0.1", "bloom_filter_fp_chance = 0.1", false),
    ("caching = {'keys': 'none'}", "caching = {'keys': 'NONE', 'rows_per_partition': 'NONE'}", false),
    ("caching = {'enabled': 'false'}", "'enabled': 'FALSE'", false),
    ("caching = 'rows_only'", "caching = {'keys': 'NONE', 'rows_per_partition': 'ALL'}", true),
    ("cdc = false", "cdc = false", false),
    ("cdc = {'enabled': false, 'preimage': 'full'}", "cdc = {'enabled': 'false', 'preimage': 'full'}", false),
    ("comment = 'it''s'", "comment = 'it''s'", false),
    (
        "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'} AND default_time_to_live = 60",
        "TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'",
        false,
    ),
    (
        "compaction = {'class': 'IncrementalCompactionStrategy', 'space_amplification_goal': 1.5}",
        "'space_amplification_goal': '1.5'",
        false,
    ),
    (
        "compression = {'class': 'LZ4Compressor', 'chunk_length_kb': 4}",
        "{'chunk_length_in_kb': '4', 'class'",
        false,
    ),
    ("compression = {'sstable_compression': ''}", "compression = {'enabled': 'false'}", false),
    ("compression = {'class': 'ZstdCompressor', 'compression_level': 9}", "'compression_level': '9'", false),
    ("compression = {'sstable_compression': 'SnappyCompressor'}", "compress.SnappyCompressor'", false),
    ("compression = {'class': 'DeflateCompressor'}", "compress.DeflateCompressor'", false),
    ("compression = {'class': 'NoopCompressor'}", "compress.NoopCompressor'", false),
    ("compression = {'class': 'ZstdWithDictsCompressor'}", "compress.ZstdWithDictsCompressor'", false),
    (
        "compression = {'class': 'LZ4Compressor', 'min_compress_ratio': 1.1}",
        "'min_compress_ratio': '1.1'",
        true,
    ),
    (
        "compression = {'class': 'LZ4Compressor', 'lz4_compressor_type': 'high', 'lz4_high_compressor_level': 12}",
        "'lz4_compressor_type': 'high', 'lz4_high_compressor_level': '12'",
        false,
    ),
    (
        "compression = {'class': 'LZ4Compressor', 'lz4_high_compressor_level': 12}",
        "'lz4_high_compressor_level': '12'",
        true,
    ),
    ("compression = {'class': 'LZ4Compressor', 'crc_check_chance': 0.25}", "crc_check_chance = 0.25", false),
    ("crc_check_chance = 0.5", "crc_check_chance = 0.5", false),
    ("default_time_to_live = 60", "default_time_to_live = 60", false),
    ("extensions = {'e': 0x00ff}", "extensions = {'e': 0x00ff}", true),
    ("gc_grace_seconds = 0", "gc_grace_seconds = 0", false),
    ("max_index_interval = 512", "max_index_interval = 512", false),
    ("memtable = 'trie'", "memtable = 'trie'", true),
    ("memtable_flush_period_in_ms = 1000", "memtable_flush_period_in_ms = 1000", false),
    ("min_index_interval = 64", "min_index_interval = 64", false),
    ("read_repair = 'none'", "read_repair = 'NONE'", true),
    ("speculative_retry = '99.0PERCENTILE'", "speculative_retry = '99p'", false),
    ("speculative_retry = 'NONE'", "speculative_retry = 'NEVER'", true),
    ("allow_auto_snapshot = false", "allow_auto_snapshot = false", false),
    ("incremental_backups = false", "incremental_backups = false", true),
    ("fast_path = 'simple'", "fast_path = 'simple'", true),
    ("transactional_mode = 'full'", "transactional_mode = 'full'", true),
    ("dclocal_read_repair_chance = 0.1", "dclocal_read_repair_chance = 0.1", true),
    ("read_repair_chance = 0.25", "read_repair_chance = 0.25", true),
    ("synchronous_updates = true", "synchronous_updates = true", true),
    ("tombstone_gc = {'mode': 'repair'}", "tombstone_gc = {'mode': 'repair'}", true),
    ("paxos_grace_seconds = 60", "paxos_grace_seconds = 60", true),
    ("in_memory = true", "in_memory = true", true),
    (
        "per_partition_rate_limit = {'max_writes_per_second': 100}",
        "per_partition_rate_limit = {'max_writes_per_second': '100'}",
        true,
    ),
    ("tablets = {'min_tablet_count': 8}", "tablets = {'min_tablet_count': '8'}", true),
];

#[test]
fn every_option_comes_out_of_describe_as_it_went_in() {
    for (given, described, is_without_effect) in OPTIONS {
        let mut session = Session::new();
        let (_, created) = session.run(&format!("CREATE TABLE t (p int PRIMARY KEY, v int) WITH {given}"));
        let describe = |session: &Session| {
            let table = session.catalog.table("ks", "t").unwrap();
            catalog::describe_table_with(&table.schema, &table.settings, catalog::Internals::Hidden)
        };
        let text = describe(&session);
        assert!(text.contains(described), "{given}:\n{text}");
        assert_eq!(created.len(), usize::from(*is_without_effect), "{given}: {created:?}");
        let created = session.catalog.table("ks", "t").unwrap().clone();

        session.run("DROP TABLE t");
        session.run(&text);
        assert_eq!(session.catalog.table("ks", "t").unwrap().settings, created.settings, "{given}");
        assert_eq!(describe(&session), text);

        session.run("DROP TABLE t");
        session.run("CREATE TABLE t (p int PRIMARY KEY, v int)");
        let (_, altered) = session.run(&format!("ALTER TABLE t WITH {given}"));
        assert_eq!(altered.len(), usize::from(*is_without_effect), "{given}: {altered:?}");
        assert_eq!(describe(&session), text, "{given}");
        assert_eq!(session.catalog.table("ks", "t").unwrap().settings, created.settings, "{given}");
    }
}

#[test]
fn options_that_may_disappoint_are_warned_of() {
    let mut session = Session::new();
    let mut warning = |statement: &str| {
        let (_, warnings) = session.run(statement);
        assert!(warnings.len() < 2, "{statement}: {warnings:?}");
        warnings.concat()
    };
    let twcs = "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'}";
    let dtcs = "compaction = {'class': 'DateTieredCompactionStrategy'}";
    let create = |name: &str, with: &str| format!("CREATE TABLE {name} (p int PRIMARY KEY) WITH {with}");
    assert!(warning(&create("a", twcs)).contains("without a default_time_to_live"));
    assert_eq!(warning(&create("b", &format!("{twcs} AND default_time_to_live = 36000"))), "");
    let many = format!("{twcs} AND default_time_to_live = 360000");
    assert!(warning(&create("c", &many)).contains("can lead to 100 windows"));
    assert!(warning(&create("d", dtcs)).contains("DateTieredCompactionStrategy is deprecated"));
    assert!(warning(&format!("ALTER TABLE a WITH {dtcs}")).contains("is deprecated"));
    // The table may have a TTL already.
    assert_eq!(warning(&format!("ALTER TABLE a WITH {twcs}")), "");
    assert_eq!(warning("ALTER TABLE a WITH tombstone_gc = {'mode': 'immediate'}"), "");
    assert!(warning("ALTER TABLE a WITH tombstone_gc = {'mode': 'repair'}").contains("nothing to repair"));
}

#[test]
fn wrong_options_are_refused() {
    let mut session = Session::new();
    for (option, expect) in [
        ("colour = 1", "0x2000 Unknown property 'colour'"),
        ("gc_grace_seconds = 'soon'", "0x2000 Invalid integer value soon for 'gc_grace_seconds'"),
        ("gc_grace_seconds = -1", "0x2300 gc_grace_seconds must be greater than or equal to 0 (got -1)"),
        ("bloom_filter_fp_chance = 'x'", "0x2000 Invalid double value x for 'bloom_filter_fp_chance'"),
        ("compaction = 'Leveled'", "0x2000 Invalid value for property 'compaction'. It should be a map."),
        ("comment = {'a': 'b'}", "0x2000 Invalid value for property 'comment'. It should be a string"),
        (
            "compression = {'class': 'Zip'}",
            "0x2300 Could not create Compression for type org.apache.cassandra.io.compress.Zip",
        ),
        (
            "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 512}",
            "0x2300 chunk_length_in_kb is at most 256: a point read reads a whole chunk",
        ),
        ("extensions = {'e': 'text'}", "0x2300 Invalid value text for extension 'e'; it must be a blob"),
        ("extensions = {'e': 0x123}", "0x2300 Invalid value 0x123 for extension 'e'; it must be a blob"),
        ("id = 'x'", "0x2300 Invalid table id"),
        ("min_index_interval = 0", "0x2300 min_index_interval must be greater than or equal to 1 (got 0)"),
        ("caching = 'some'", "0x2000 Invalid value for property 'caching'. It should be a map."),
    ] {
        session.refused(&format!("CREATE TABLE t (p int PRIMARY KEY) WITH {option}"), expect);
    }
}

#[test]
fn change_data_capture_in_files_is_refused() {
    let mut session = Session::new();
    session.run("CREATE TABLE t (p int PRIMARY KEY) WITH cdc = false");
    let expect = "0x2300 cdc = true asks for Cassandra's change data capture in files of the commit log, which this \
                  node does not have: it has change logs that are tables, as ScyllaDB. Use cdc = {'enabled': true}, \
                  or leave 'cdc' out";
    session.refused("CREATE TABLE u (p int PRIMARY KEY) WITH cdc = true", expect);
    session.refused("ALTER TABLE t WITH cdc = true", expect);
    session.run("ALTER TABLE t WITH cdc = {'enabled': false}");
}

#[test]
fn compression_is_what_storage_gets() {
    let mut session = Session::new();
    let (_, warnings) = session.run(
        "CREATE TABLE t (p int PRIMARY KEY) WITH compression = {'sstable_compression': 'ZstdWithDictsCompressor', \
         'chunk_length_kb': 4, 'compression_level': 9, 'min_compress_ratio': 2, 'crc_check_chance': 0.5}",
    );
    assert!(matches!(&warnings[..], [only] if only.contains("sstable_format: nb")), "{warnings:?}");
    let options = &session.catalog.schema("ks", "t").unwrap().options;
    let expect = Compression {
        codec: Codec::Zstd { level: 9 },
        chunk_bytes: 4096,
        max_compressed_bytes: 2048,
        dictionary: true,
    };
    assert_eq!((&options.compression, options.crc_check_chance), (&Some(expect), 0.5));
    session.run("ALTER TABLE t WITH compression = {'sstable_compression': ''}");
    assert_eq!(session.catalog.schema("ks", "t").unwrap().options.compression, None);
}

#[test]
fn use_and_truncate_find_what_they_name() {
    let mut session = Session::new();
    session.run("CREATE TABLE t (p int PRIMARY KEY)");
    let catalog = session.catalog.with_virtual_tables();
    let named = |text: &str| match parse(text).unwrap().statement {
        Statement::Use(name) => used_keyspace(&catalog, &name).map_err(|error| error.to_string()),
        Statement::Truncate(truncate) => {
            let name: &QualifiedName = &truncate.table;
            let id = truncated_table(&catalog, name, Some("ks")).map_err(|error| error.to_string())?;
            Ok(id.to_string())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(named("USE ks").as_deref(), Ok("ks"));
    assert_eq!(named("USE \"Ks\"").unwrap_err(), "Keyspace 'Ks' does not exist");
    assert_eq!(named("TRUNCATE t"), Ok(catalog.schema("ks", "t").unwrap().id.to_string()));
    assert_eq!(named("TRUNCATE TABLE no").unwrap_err(), "table no does not exist");
    assert_eq!(named("TRUNCATE no.t").unwrap_err(), "keyspace no does not exist");
    assert_eq!(named("TRUNCATE system.local").unwrap_err(), "system keyspace is not user-modifiable.");
    assert_eq!(
        named("TRUNCATE system_views.clients").unwrap_err(),
        "Truncation is not supported by table system_views.clients"
    );
}

/// The check of existence comes before the check of options.
#[test]
fn what_is_there_or_is_not_decides_before_options() {
    let mut session = Session::new();
    session.run("CREATE TABLE t (p int PRIMARY KEY)");
    session.run("CREATE TYPE u (f int)");
    let options = [
        "nonsense = 1",
        "gc_grace_seconds = -1",
        "compaction = {'class': 'NoSuchStrategy'}",
        "compression = 7",
        "bloom_filter_fp_chance = 'x'",
        "replication = 'x'",
        "durable_writes = 'maybe'",
    ];
    for option in options {
        for idle in [
            format!("CREATE KEYSPACE IF NOT EXISTS ks WITH {option}"),
            format!("ALTER KEYSPACE IF EXISTS no WITH {option}"),
            format!("CREATE TABLE IF NOT EXISTS t (p int, q nosuchtype, PRIMARY KEY (p)) WITH {option}"),
            format!("CREATE TABLE IF NOT EXISTS t (p int PRIMARY KEY) WITH COMPACT STORAGE AND {option}"),
            format!("ALTER TABLE IF EXISTS no WITH {option}"),
        ] {
            assert_eq!(session.run(&idle), (vec![], vec![]), "{idle}");
        }
        for (refused, expect) in [
            (format!("CREATE KEYSPACE ks WITH {option}"), "0x2400 Cannot add existing keyspace \"ks\""),
            (format!("ALTER KEYSPACE no WITH {option}"), "0x2200 Keyspace 'no' doesn't exist"),
            (
                format!("CREATE TABLE t (p int PRIMARY KEY) WITH {option}"),
                "0x2400 Cannot add already existing table \"t\" to keyspace \"ks\"",
            ),
            (
                format!("CREATE TABLE IF NOT EXISTS no.t (p int PRIMARY KEY) WITH {option}"),
                "0x2200 Keyspace 'no' doesn't exist",
            ),
            (format!("ALTER TABLE no WITH {option}"), "0x2200 Table 'ks.no' doesn't exist"),
        ] {
            session.refused(&refused, expect);
        }
        // Statements with these options fail if they have something to do.
        assert!(session.try_run(&format!("ALTER TABLE t WITH {option}")).is_err(), "{option}");
        assert!(
            session.try_run(&format!("CREATE TABLE new (p int PRIMARY KEY) WITH {option}")).is_err(),
            "{option}"
        );
    }
    for idle in [
        "CREATE TYPE IF NOT EXISTS u (f nosuchtype)",
        "ALTER TYPE IF EXISTS no ADD f nosuchtype",
        "ALTER TYPE IF EXISTS no ALTER f TYPE int",
        "ALTER TABLE IF EXISTS no ADD c nosuchtype",
        "ALTER TABLE IF EXISTS no ALTER c TYPE int",
        "ALTER TABLE IF EXISTS no.no DROP c",
        "DROP TYPE IF EXISTS no",
        "DROP TABLE IF EXISTS no",
        "DROP KEYSPACE IF EXISTS no",
    ] {
        assert_eq!(session.run(idle), (vec![], vec![]), "{idle}");
    }
    // No user may change the system keyspaces, even with a statement that has nothing to do.
    session.refused(
        "CREATE TABLE IF NOT EXISTS system.local (key text PRIMARY KEY)",
        "0x2100 system keyspace is not user-modifiable.",
    );
}
