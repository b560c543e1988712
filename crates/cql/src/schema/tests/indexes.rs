//! CREATE INDEX, DROP INDEX, and what an index forbids.

use model::{IndexKind, IndexPart, TermAnalysis};

use super::*;

fn session() -> Session {
    let mut session = Session::new();
    session.run("CREATE TYPE u (f int)");
    session.run("CREATE TYPE d (f duration)");
    session.run(
        "CREATE TABLE t (p int, q int, c int, \"Fl\" frozen<list<int>>, s int STATIC, v int, w text, b blob, \
         du duration, ld list<frozen<tuple<duration>>>, td tuple<duration>, ud frozen<d>, l list<int>, \
         e set<text>, m map<text, int>, bm map<text, blob>, fm frozen<map<text, int>>, nu u, fu frozen<u>, \
         tu tuple<int, text>, x vector<float, 3>, \"it's\" int, PRIMARY KEY ((p, q), c, \"Fl\"))",
    );
    session.run("CREATE TABLE one (k int PRIMARY KEY, v int, w text)");
    session.run("CREATE TABLE counts (k int PRIMARY KEY, n counter)");
    session
}

fn index(session: &Session, name: &str) -> model::IndexDefinition {
    let table = session.catalog.indexed_table("ks", name).unwrap_or_else(|| panic!("no index {name}"));
    let index = table.schema.indexes.iter().find(|index| index.name == name).unwrap();
    (**index).clone()
}

#[test]
fn indexes_are_made_as_they_are_written() {
    let mut session = session();
    for (text, name, column, part, target) in [
        ("CREATE INDEX ON t (v)", "t_v_idx", "v", IndexPart::Value, "v"),
        ("CREATE INDEX ON t (p)", "t_p_idx", "p", IndexPart::Value, "p"),
        ("CREATE INDEX ON t (c)", "t_c_idx", "c", IndexPart::Value, "c"),
        ("CREATE INDEX ON t (s)", "t_s_idx", "s", IndexPart::Value, "s"),
        ("CREATE INDEX ON t (full(\"Fl\"))", "t_Fl_idx", "Fl", IndexPart::Full, "full(\"Fl\")"),
        ("CREATE INDEX ON t (l)", "t_l_idx", "l", IndexPart::Values, "values(l)"),
        ("CREATE INDEX ON t (values(e))", "t_e_idx", "e", IndexPart::Values, "values(e)"),
        ("CREATE INDEX ON t (keys(m))", "t_m_idx", "m", IndexPart::Keys, "keys(m)"),
        ("CREATE INDEX ON t (entries(m))", "t_m_idx_1", "m", IndexPart::Entries, "entries(m)"),
        ("CREATE INDEX ON t (m)", "t_m_idx_2", "m", IndexPart::Values, "values(m)"),
        ("CREATE INDEX ON t (full(fm))", "t_fm_idx", "fm", IndexPart::Full, "full(fm)"),
        ("CREATE INDEX ON t (\"it's\")", "t_its_idx", "it's", IndexPart::Value, "\"it's\""),
        ("CREATE INDEX \"I\" ON t (fu) USING 'legacy_local_table'", "I", "fu", IndexPart::Value, "fu"),
        ("CREATE INDEX ks.i ON t (tu)", "i", "tu", IndexPart::Value, "tu"),
    ] {
        let (changes, warnings) = session.run(text);
        assert!(warnings.is_empty());
        let result = answer(&changes).unwrap();
        assert_eq!((result.change, result.target), (ChangeType::Updated, SchemaTarget::Table("t".into())));
        let index = index(&session, name);
        assert_eq!((index.kind, index.column.as_str(), index.part), (IndexKind::Secondary, column, part));
        assert_eq!(index.options, [("target".to_string(), target.to_string())], "{text}");
    }
    let ids: std::collections::BTreeSet<_> =
        session.catalog.schema("ks", "t").unwrap().indexes.iter().map(|index| index.id).collect();
    assert_eq!(ids.len(), 14);
}

#[test]
fn attached_indexes_have_options() {
    let mut session = session();
    session.run("CREATE INDEX ON t (v) USING 'sai'");
    session.run(
        "CREATE CUSTOM INDEX a ON t (w) USING 'StorageAttachedIndex' \
         WITH OPTIONS = {'case_sensitive': false, 'normalize': 'True', 'ascii': 'false'}",
    );
    session.run(
        "CREATE CUSTOM INDEX ON t (entries(m)) USING 'org.apache.cassandra.index.sai.StorageAttachedIndex'",
    );
    let found = index(&session, "t_v_idx");
    assert_eq!((found.kind, found.analysis), (IndexKind::StorageAttached, TermAnalysis::NONE));
    let option = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!(found.options, [option("class_name", "sai"), option("target", "v")]);
    let found = index(&session, "a");
    assert_eq!(found.analysis, TermAnalysis { case_sensitive: false, normalize: true, ascii: false });
    assert_eq!(
        found.options,
        [
            option("ascii", "false"),
            option("case_sensitive", "false"),
            option("class_name", "StorageAttachedIndex"),
            option("normalize", "True"),
            option("target", "w")
        ]
    );
    assert_eq!(index(&session, "t_m_idx").part, IndexPart::Entries);
}

#[test]
fn local_indexes_name_the_partition_key() {
    let mut session = session();
    session.run("CREATE INDEX ON t ((p, q), v)");
    let found = index(&session, "t_v_idx");
    assert_eq!((found.kind, found.column.as_str()), (IndexKind::Local, "v"));
    let target = r#"{"pk":["p","q"],"ck":["v"]}"#;
    assert_eq!(found.options, [("target".to_string(), target.to_string())]);
    for (text, expect) in [
        (
            "CREATE INDEX ON t ((p), w)",
            "0x2200 Local index definition must contain full partition key only: expected (p, q), got (p)",
        ),
        (
            "CREATE INDEX ON t (w, (p, q))",
            "0x2200 A local index is written as ((p, q), column), without USING and with one column",
        ),
        (
            "CREATE INDEX ON t ((p, q), w) USING 'sai'",
            "0x2200 A local index is written as ((p, q), column), without USING and with one column",
        ),
        (
            "CREATE INDEX ON t ((p, q), l)",
            "0x2200 Local secondary index on collection column values(l) is not supported",
        ),
    ] {
        session.refused(text, expect);
    }
    session.refused(
        "ALTER TABLE t RENAME p TO r",
        "0x2200 Can't rename column p because it has dependent secondary indexes (t_v_idx)",
    );
}

#[test]
fn what_cannot_be_an_index_is_refused_in_cassandras_words() {
    let mut session = session();
    session.run("CREATE INDEX i ON t (v)");
    let frozen = "Frozen collections are immutable and must be fully indexed by using the 'full";
    for (text, expect) in [
        ("INDEX ON no.t (v)", "0x2200 Keyspace 'no' doesn't exist".to_string()),
        ("INDEX ON no (v)", "0x2200 Table 'no' doesn't exist".to_string()),
        ("INDEX ON system_schema.tables (id)", "0x2100 system_schema keyspace is not user-modifiable.".into()),
        ("INDEX no.i ON ks.t (v)", "0x2200 Keyspace name 'ks' doesn't match index name 'ks.t'".into()),
        ("INDEX i ON one (v)", "0x2200 Index 'i' already exists".into()),
        ("INDEX j ON t (v)", "0x2200 Index j is a duplicate of existing index i".into()),
        ("INDEX ON t (v)", "0x2200 Index t_v_idx is a duplicate of existing index i".into()),
        ("INDEX ON counts (n)", "0x2200 Secondary indexes on counter tables aren't supported".into()),
        ("INDEX ON t (nope)", "0x2200 Undefined column name nope in table ks.t".into()),
        ("INDEX ON one (k)", "0x2200 Cannot create secondary index on the only partition key column k".into()),
        ("INDEX ON t (du)", "0x2200 Secondary indexes are not supported on duration columns".into()),
        ("INDEX ON t (ld)", "0x2200 Secondary indexes are not supported on collections containing durations".into()),
        ("INDEX ON t (td)", "0x2200 Secondary indexes are not supported on tuples containing durations".into()),
        ("INDEX ON t (ud)", "0x2200 Secondary indexes are not supported on UDTs containing durations".into()),
        ("INDEX ON t (fm)", format!("0x2200 Cannot create values() index on frozen column fm. {frozen}(fm)' modifier")),
        ("INDEX ON t (keys(fm))", format!("0x2200 Cannot create keys() index on frozen column fm. {frozen}(fm)' modifier")),
        ("INDEX ON t (full(l))", "0x2200 full() indexes can only be created on frozen collections".into()),
        ("INDEX ON t (full(v))", "0x2200 full() indexes can only be created on frozen collections".into()),
        (
            "INDEX ON t (values(w))",
            "0x2200 Cannot create values() index on w. Non-collection columns only support simple indexes".into(),
        ),
        ("INDEX ON t (keys(l))", "0x2200 Cannot create index on keys of column l with non-map type".into()),
        ("INDEX ON t (entries(e))", "0x2200 Cannot create index on entries of column e with non-map type".into()),
        ("INDEX ON t (nu)", "0x2200 Cannot create index on non-frozen UDT column nu".into()),
        ("INDEX ON t (x)", "0x2200 An index on the vector column x has to be storage-attached: add USING 'sai'".into()),
        ("INDEX ON t ()", "0x2200 Only CUSTOM indexes can be created without specifying a target column".into()),
        ("INDEX ON t (v, w)", "0x2200 Only CUSTOM indexes support multiple columns".into()),
        ("INDEX \"a b\" ON t (w)", "0x2300 Illegal index name a b".into()),
        ("INDEX ON t (w) WITH OPTIONS = {'a': 'b'}", "0x2200 Cannot specify options for a non-CUSTOM index".into()),
        ("INDEX ON t (w) WITH nonsense = 1", "0x2000 Unknown property 'nonsense'".into()),
        ("INDEX ON t (w) USING 'org.Nope'", "0x2300 Unable to find custom indexer class 'org.Nope'".into()),
        ("CUSTOM INDEX ON t (w)", "0x2300 Unable to find custom indexer class 'legacy_local_table'".into()),
        (
            "CUSTOM INDEX ON t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
            "0x2200 SASI indexes are disabled. Enable in cassandra.yaml to use.".into(),
        ),
        (
            "CUSTOM INDEX ON t (w) USING 'sai' WITH OPTIONS = {'target': 'v'}",
            "0x2200 Cannot specify target as a CUSTOM option".into(),
        ),
        (
            "CUSTOM INDEX ON t (w) USING 'sai' WITH OPTIONS = {'mode': 'CONTAINS'}",
            "0x2300 Properties specified [mode] are not understood by StorageAttachedIndex".into(),
        ),
        (
            "CUSTOM INDEX ON t (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'no'}",
            "0x2200 Illegal value for boolean option 'case_sensitive': no".into(),
        ),
        (
            "CUSTOM INDEX ON t (w) USING 'sai' WITH OPTIONS = {'ascii': ''}",
            "0x2200 Empty value for boolean option 'ascii'".into(),
        ),
        (
            "CUSTOM INDEX ON t (v) USING 'sai' WITH OPTIONS = {'normalize': 'true'}",
            "0x2200 CQL type int cannot be analyzed.".into(),
        ),
        (
            "CUSTOM INDEX ON t (c) USING 'sai' WITH OPTIONS = {'normalize': 'true'}",
            "0x2200 Analysis options are not supported on primary key columns, but found {'normalize': 'true'}".into(),
        ),
        (
            "CUSTOM INDEX ON t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'cosine'}",
            "0x2200 CQL type int cannot have vector options".into(),
        ),
        ("INDEX ON t (b) USING 'sai'", "0x2200 Unsupported type: blob".into()),
        ("INDEX ON t (entries(bm)) USING 'sai'", "0x2200 Unsupported type: blob".into()),
        (
            "INDEX ON t (v, w) USING 'sai'",
            "0x2200 A storage-attached index cannot be created over multiple columns: v, w".into(),
        ),
        ("INDEX ON t (v, v) USING 'sai'", "0x2200 Duplicate column 'v' in index target list".into()),
        (
            "INDEX ON t (\"it's\") USING 'sai'",
            "0x2200 Column 'it's' is longer than the permissible name length of 48 characters or contains \
             non-alphanumeric-underscore characters"
                .into(),
        ),
    ] {
        session.refused(&format!("CREATE {text}"), &expect);
    }
    for text in ["INDEX IF NOT EXISTS i ON t (w)", "INDEX IF NOT EXISTS other ON t (v)"] {
        assert_eq!(session.run(&format!("CREATE {text}")), (vec![], vec![]), "{text}");
    }
    // Indexes of both kinds may have one column, but only one attached index.
    session.run("CREATE INDEX sai ON t (v) USING 'sai'");
    session.refused(
        "CREATE INDEX sai2 ON t (v) USING 'sai'",
        "0x2200 Index sai2 is a duplicate of existing index sai",
    );
    session.refused(
        "CREATE INDEX ON t (v) USING 'StorageAttachedIndex'",
        "0x2200 Cannot create more than one storage-attached index on the same column: v",
    );
}

#[test]
fn indexes_are_dropped_and_protect_their_columns() {
    let mut session = session();
    session.run("CREATE INDEX i ON t (v)");
    session.run("CREATE INDEX j ON t (c)");
    session.run("CREATE INDEX a ON t (v) USING 'sai'");
    session.refused(
        "ALTER TABLE t DROP v",
        "0x2200 Cannot drop column v because it has dependent secondary indexes (a, i)",
    );
    session.refused(
        "ALTER TABLE t RENAME c TO d",
        "0x2200 Can't rename column c because it has dependent secondary indexes (j)",
    );
    session.run("ALTER TABLE t WITH comment = 'kept'");
    session.run("ALTER TYPE u ADD g int");
    let names = |session: &Session| {
        let schema = session.catalog.schema("ks", "t").unwrap();
        schema.indexes.iter().map(|index| index.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&session), ["a", "i", "j"]);
    let old = index(&session, "i").id;
    let (changes, _) = session.run("DROP INDEX ks.i");
    let result = answer(&changes).unwrap();
    assert_eq!((result.change, result.target), (ChangeType::Updated, SchemaTarget::Table("t".into())));
    session.refused("DROP INDEX i", "0x2200 Index 'ks.i' doesn't exist'");
    session.refused("DROP INDEX no.i", "0x2200 Index 'no.i' doesn't exist'");
    session.refused("DROP INDEX system.i", "0x2100 system keyspace is not user-modifiable.");
    assert_eq!(session.run("DROP INDEX IF EXISTS i"), (vec![], vec![]));
    session.run("CREATE INDEX i ON t (v)");
    assert_ne!(index(&session, "i").id, old, "files of the dropped index belong to no other");
    for name in ["i", "j", "a"] {
        session.run(&format!("DROP INDEX {name}"));
    }
    session.run("ALTER TABLE t RENAME c TO d");
    session.run("ALTER TABLE t DROP v");
    session.run("CREATE INDEX k ON one (v)");
    session.run("DROP TABLE one");
    assert!(session.catalog.indexed_table("ks", "k").is_none());
}
