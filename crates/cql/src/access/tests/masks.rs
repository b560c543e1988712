//! Masked columns: who sees what, and in which statements.

use super::TestNode;
use super::permissions::node;

/// Adds a table with masked columns of every kind, and one row.
fn masked() -> TestNode {
    let node = node();
    node.0.set_masks_columns(true);
    for text in [
        "CREATE TABLE ks.m (k text MASKED WITH DEFAULT, c int, s text static MASKED WITH mask_replace('none'), \
         v text MASKED WITH mask_inner(1, null, '#'), n int MASKED WITH mask_null(), w int, PRIMARY KEY (k, c))",
        "INSERT INTO ks.m (k, c, s, v, n, w) VALUES ('key', 1, 'static', 'secret', 7, 8)",
        "GRANT SELECT, MODIFY ON ks.m TO bob",
    ] {
        node.done(text);
    }
    node
}

impl TestNode {
    /// The cells of all rows, read as this user.
    #[track_caller]
    fn seen_by(&self, user: &str, text: &str) -> String {
        self.0.set_user(Some(user));
        let found = self.try_run(text);
        self.0.set_user(Some("cassandra"));
        let Ok(crate::Outcome::Rows(rows)) = found else { panic!("{text}: {found:?}") };
        let catalog = crate::Storage::catalog(&self.0);
        let syntax::Statement::Select(select) = syntax::parse(text).unwrap().statement else {
            panic!("{text}")
        };
        let planner = crate::term::Planner::new(&catalog, "ks", "m", 0);
        let plan = crate::select::prepare(planner, &select).unwrap();
        let specs = plan.columns().to_vec();
        let rows = crate::select::tests::rows_of(&rows, specs.len());
        let cell = |(cell, spec): (Option<Vec<u8>>, &protocol::ColumnSpec)| {
            cell.map_or("null".to_string(), |bytes| spec.column_type.text_of(&bytes).replace('\'', ""))
        };
        let row =
            |row: Vec<Option<Vec<u8>>>| row.into_iter().zip(&specs).map(cell).collect::<Vec<_>>().join(" ");
        rows.into_iter().map(row).collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn users_without_unmask_see_masks() {
    let node = masked();
    for (text, clear, hidden) in [
        ("SELECT * FROM ks.m", "key 1 static 7 secret 8", "**** 1 none null s##### 8"),
        ("SELECT v, w FROM ks.m", "secret 8", "s##### 8"),
        ("SELECT w FROM ks.m", "8", "8"),
        ("SELECT v AS x FROM ks.m", "secret", "s#####"),
        // Functions and aggregates get the masked value.
        ("SELECT mask_outer(v, 1, 1) FROM ks.m", "*ecre*", "*####*"),
        ("SELECT max(v), count(n), count(*) FROM ks.m", "secret 1 1", "s##### 0 1"),
        ("SELECT n + w FROM ks.m", "15", "null"),
        (
            "SELECT JSON k, v, n FROM ks.m",
            "{\"k\": \"key\", \"v\": \"secret\", \"n\": 7}",
            "{\"k\": \"****\", \"v\": \"s#####\", \"n\": null}",
        ),
        ("SELECT DISTINCT k, s FROM ks.m", "key static", "**** none"),
        ("SELECT v FROM ks.m GROUP BY k", "secret", "s#####"),
    ] {
        assert_eq!(node.seen_by("cassandra", text), clear, "{text}");
        assert_eq!(node.seen_by("bob", text), hidden, "{text}");
    }
    node.done("GRANT UNMASK ON KEYSPACE ks TO team");
    assert_eq!(node.seen_by("bob", "SELECT * FROM ks.m"), "key 1 static 7 secret 8");
    node.done("REVOKE UNMASK ON KEYSPACE ks FROM team");
    assert_eq!(node.seen_by("bob", "SELECT v FROM ks.m"), "s#####");
    // Everybody sees everything while masking is off, and without an authorizer.
    node.0.set_masks_columns(false);
    assert_eq!(node.seen_by("bob", "SELECT v FROM ks.m"), "secret");
    node.0.set_masks_columns(true);
    node.0.set_checks_permissions(false);
    assert_eq!(node.seen_by("bob", "SELECT v FROM ks.m"), "secret");
}

#[test]
fn masked_columns_are_not_restricted_without_a_permission() {
    let node = masked();
    let refused = |columns: &str| {
        format!(
            "0x2100 User bob has no UNMASK nor SELECT_MASKED permission on table ks.m, cannot query masked columns \
             [{columns}]"
        )
    };
    node.refused_as("bob", "SELECT w FROM ks.m WHERE k = 'key'", &refused("k"));
    node.refused_as("bob", "SELECT w FROM ks.m WHERE token(k) > 0", &refused("k"));
    node.refused_as("bob", "SELECT w FROM ks.m WHERE v = 'x' AND n = 1 ALLOW FILTERING", &refused("n, v"));
    node.done_as("bob", "SELECT w FROM ks.m WHERE w = 8 ALLOW FILTERING");
    node.done("GRANT SELECT_MASKED ON ks.m TO bob");
    assert_eq!(node.seen_by("bob", "SELECT k, v FROM ks.m WHERE k = 'key'"), "**** s#####");
    node.done("REVOKE SELECT_MASKED ON ks.m FROM bob");
    node.done("GRANT UNMASK ON ks.m TO bob");
    assert_eq!(node.seen_by("bob", "SELECT k, v FROM ks.m WHERE k = 'key'"), "key secret");
}

#[test]
fn conditions_do_not_show_masked_values() {
    let node = masked();
    node.done_as("bob", "UPDATE ks.m SET v = 'other' WHERE k = 'key' AND c = 1");
    let denied = "0x2100 User bob has no UNMASK permission on <table ks.m> or any of its parents";
    for text in [
        "UPDATE ks.m SET w = 1 WHERE k = 'key' AND c = 1 IF v = 'x'",
        "INSERT INTO ks.m (k, c) VALUES ('key', 1) IF NOT EXISTS",
    ] {
        node.refused_as("bob", text, denied);
        node.done(text);
        node.done("GRANT UNMASK ON ks.m TO bob");
        node.done_as("bob", text);
        node.done("REVOKE UNMASK ON ks.m FROM bob");
    }
}

#[test]
fn masks_come_change_and_go() {
    let node = masked();
    let read = "SELECT v, w FROM ks.m";
    node.done("ALTER TABLE ks.m ALTER v MASKED WITH mask_outer(0, 1)");
    assert_eq!(node.seen_by("bob", read), "secre* 8");
    node.done("ALTER TABLE ks.m ALTER v DROP MASKED");
    node.done("ALTER TABLE ks.m ALTER v DROP MASKED");
    assert_eq!(node.seen_by("bob", read), "secret 8");
    node.done("ALTER TABLE ks.m ADD x text MASKED WITH mask_replace('-')");
    node.done("UPDATE ks.m SET x = 'clear' WHERE k = 'key' AND c = 1");
    assert_eq!(node.seen_by("bob", "SELECT x FROM ks.m"), "-");
    node.done("ALTER TABLE ks.m DROP x");
    node.done("ALTER TABLE ks.m ADD x text");
    node.done("UPDATE ks.m SET x = 'clear' WHERE k = 'key' AND c = 1");
    assert_eq!(node.seen_by("bob", "SELECT x FROM ks.m"), "clear");
    node.done("ALTER TABLE ks.m RENAME k TO id");
    assert_eq!(node.seen_by("bob", "SELECT id FROM ks.m"), "****");
    node.done("ALTER TABLE ks.m ALTER IF EXISTS gone MASKED WITH DEFAULT");
    for (text, expect) in [
        ("ALTER TABLE ks.m ALTER gone DROP MASKED", "Column with name 'gone' doesn't exist on table 'm'"),
        (
            "ALTER TABLE ks.m ALTER v MASKED WITH tojson()",
            "Not-masking function tojson() cannot be used for masking table columns",
        ),
        (
            "ALTER TABLE ks.m ALTER v MASKED WITH nothing(1)",
            "Unable to find masking function for v, no declared function matches the signature nothing(1)",
        ),
        (
            "ALTER TABLE ks.m ALTER v MASKED WITH mask_hash()",
            "Masking function mask_hash() return type is blob. This is different to the type of the masked column v of type \
             text. Masking functions can only be attached to table columns if they return the same data type as the masked \
             column.",
        ),
    ] {
        node.refused(text, &format!("0x2200 {expect}"));
    }
    node.0.set_masks_columns(false);
    let off = "0x2200 Cannot mask columns because dynamic data masking is not enabled. You can enable it with the \
               dynamic_data_masking_enabled property on cassandra.yaml";
    node.refused("CREATE TABLE ks.x (k int PRIMARY KEY, v int MASKED WITH DEFAULT)", off);
    node.refused("ALTER TABLE ks.m ADD y int MASKED WITH DEFAULT", off);
    node.refused("ALTER TABLE ks.m ALTER v MASKED WITH DEFAULT", off);
    node.done("ALTER TABLE ks.m ALTER id DROP MASKED");
}

#[test]
fn masks_are_described_and_listed() {
    let node = masked();
    let catalog = crate::Storage::catalog(&node.0);
    let table = catalog.table("ks", "m").unwrap();
    let text = catalog::describe_table_with(&table.schema, &table.settings, catalog::Internals::Hidden);
    for line in [
        "    k text MASKED WITH system.mask_default(),\n",
        "    s text static MASKED WITH system.mask_replace('none'),\n",
        "    v text MASKED WITH system.mask_inner(1, null, '#'),\n",
        "    n int MASKED WITH system.mask_null(),\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // The description makes the same table.
    node.done("DROP TABLE ks.m");
    node.done(&text);
    let catalog = crate::Storage::catalog(&node.0);
    let again = catalog.table("ks", "m").unwrap();
    assert_eq!(
        catalog::describe_table_with(&again.schema, &again.settings, catalog::Internals::Hidden),
        text
    );
}
