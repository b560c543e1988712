//! GRANT, REVOKE, LIST; what creators get; what drops revoke.

use protocol::BatchType;
use reader::block_on_ready;

use super::TestNode;
use crate::{Execution, Outcome, Prepared, Storage, execute_batch};

/// A node that checks permissions, with `ks.t`, the superuser `cassandra` and the user `bob`, who is a member
/// of `team`. `cassandra` has logged in.
pub(super) fn node() -> TestNode {
    let node = TestNode::new();
    node.0.set_checks_permissions(true);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "CREATE TABLE ks.u (k int PRIMARY KEY, v int)",
        "CREATE ROLE bob WITH LOGIN = true",
        "CREATE ROLE team",
        "GRANT team TO bob",
    ] {
        node.done(text);
    }
    node
}

impl TestNode {
    #[track_caller]
    pub(super) fn done(&self, text: &str) {
        self.try_run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    #[track_caller]
    pub(super) fn done_as(&self, user: &str, text: &str) {
        self.0.set_user(Some(user));
        self.done(text);
        self.0.set_user(Some("cassandra"));
    }

    #[track_caller]
    pub(super) fn refused_as(&self, user: &str, text: &str, expect: &str) {
        self.0.set_user(Some(user));
        self.refused(text, expect);
        self.0.set_user(Some("cassandra"));
    }

    #[track_caller]
    fn warned(&self, text: &str, expect: &[&str]) {
        let mut warnings = vec![];
        self.run_with(text, &mut warnings).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(warnings, expect, "{text}");
    }

    #[track_caller]
    fn listed_as(&self, user: &str, text: &str, expect: &[&str]) {
        self.0.set_user(Some(user));
        if expect.is_empty() {
            assert!(matches!(self.try_run(text), Ok(Outcome::Void)), "{text}");
        } else {
            assert_eq!(self.rows(text), expect, "{text}");
        }
        self.0.set_user(Some("cassandra"));
    }
}

#[test]
fn permissions_act_at_once_through_roles_and_groups() {
    let node = node();
    let read = "SELECT * FROM ks.t";
    let denied = "0x2100 User bob has no SELECT permission on <table ks.t> or any of its parents";
    node.refused_as("bob", read, denied);
    for on in ["ks.t", "ALL TABLES IN KEYSPACE ks", "KEYSPACE ks", "ALL KEYSPACES"] {
        for to in ["bob", "team"] {
            node.done(&format!("GRANT SELECT ON {on} TO {to}"));
            node.done_as("bob", read);
            node.refused_as(
                "bob",
                "INSERT INTO ks.t (k) VALUES (1)",
                "0x2100 User bob has no MODIFY permission on <table ks.t> or any of its parents",
            );
            node.done(&format!("REVOKE SELECT ON {on} FROM {to}"));
            node.refused_as("bob", read, denied);
        }
    }
    // A statement that was prepared before is checked when it is executed.
    let prepared = Prepared::new(&node.0.catalog(), None, read).unwrap();
    let execution =
        Execution { now_us: 0, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
    let run = || {
        node.0.set_user(Some("bob"));
        let done = block_on_ready(prepared.execute(&node.0, &Default::default(), &execution, &mut vec![]));
        node.0.set_user(Some("cassandra"));
        done.map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(run().is_err());
    node.done("GRANT SELECT ON ks.t TO team");
    assert_eq!(run(), Ok(()));
    node.done("REVOKE team FROM bob");
    assert!(run().is_err());
    // Superusers need no permission, roles granted to superusers neither.
    node.done("GRANT cassandra TO bob");
    assert_eq!(run(), Ok(()));
}

#[test]
fn every_statement_of_a_batch_is_checked() {
    let node = node();
    let catalog = node.0.catalog();
    let prepared = |text| std::sync::Arc::new(Prepared::new(&catalog, None, text).unwrap());
    let values = Default::default();
    let statements = [
        (prepared("INSERT INTO ks.t (k, v) VALUES (1, 1)"), &values),
        (prepared("UPDATE ks.u SET v = 1 WHERE k = 1"), &values),
    ];
    let execution =
        Execution { now_us: 0, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
    let run = || {
        node.0.set_user(Some("bob"));
        let mut warnings = vec![];
        let batch = execute_batch(&node.0, BatchType::Logged, &statements, &execution, &mut warnings);
        let done = block_on_ready(batch).map(|_| ()).map_err(|error| error.to_string());
        node.0.set_user(Some("cassandra"));
        done
    };
    let text =
        "BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (1, 1); UPDATE ks.u SET v = 1 WHERE k = 1; APPLY BATCH";
    node.done("GRANT MODIFY ON ks.t TO bob");
    let denied = "User bob has no MODIFY permission on <table ks.u> or any of its parents";
    assert_eq!(run(), Err(denied.to_string()));
    node.refused_as("bob", text, &format!("0x2100 {denied}"));
    node.done("GRANT MODIFY ON ks.u TO bob");
    assert_eq!(run(), Ok(()));
    node.done_as("bob", text);
}

#[test]
fn system_tables_are_readable_as_in_cassandra() {
    let node = node();
    let tables = node.0.catalog().with_virtual_tables();
    node.0.set_catalog(tables);
    for open in [
        "system.local",
        "system.peers_v2",
        "system.size_estimates",
        "system.table_estimates",
        "system_schema.tables",
        "system_traces.events",
        "system_traces.sessions",
        "system_virtual_schema.tables",
    ] {
        node.0.set_user(Some("bob"));
        let read = node.try_run(&format!("SELECT * FROM {open}"));
        assert!(!matches!(read, Err(protocol::CqlError::Unauthorized(_))), "{open}");
        node.0.set_user(Some("cassandra"));
    }
    for closed in [
        "system_auth.roles",
        "system_auth.role_permissions",
        "system_auth.role_members",
        "system_views.clients",
        "system.compaction_history",
    ] {
        node.refused_as(
            "bob",
            &format!("SELECT * FROM {closed}"),
            &format!("0x2100 User bob has no SELECT permission on <table {closed}> or any of its parents"),
        );
    }
    node.done("GRANT SELECT ON KEYSPACE system_auth TO bob");
    node.done_as("bob", "SELECT * FROM system_auth.role_permissions");
    let hash = node.try_run("SELECT salted_hash FROM system_auth.roles").unwrap_err();
    assert!(hash.to_string().contains("salted_hash"), "{hash}");
    // The permission to create anything does not open the system's keyspaces.
    node.done("GRANT ALL ON ALL KEYSPACES TO bob");
    for text in [
        "DROP TABLE system_auth.roles",
        "ALTER TABLE system.local ADD x int",
        "CREATE TABLE system_schema.mine (k int PRIMARY KEY)",
        "DROP KEYSPACE system_traces",
    ] {
        node.0.set_user(Some("bob"));
        assert_eq!(node.try_run(text).unwrap_err().code(), 0x2100, "{text}");
    }
}

#[test]
fn creators_get_what_they_create() {
    let node = node();
    node.done("GRANT CREATE ON ALL KEYSPACES TO bob");
    node.done("GRANT CREATE ON ALL ROLES TO bob");
    node.done_as(
        "bob",
        "CREATE KEYSPACE mine WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    node.done_as("bob", "CREATE TABLE mine.t (k int PRIMARY KEY)");
    node.done_as("bob", "CREATE TABLE ks.mine (k int PRIMARY KEY)");
    node.done_as("bob", "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY)");
    node.done_as("bob", "CREATE ROLE his");
    let listed = node.rows("LIST ALL PERMISSIONS OF bob");
    let on = |resource: &str| {
        let here = listed.iter().filter(|row| row.contains(&format!("|{resource}|")));
        here.map(|row| row.rsplit('|').next().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(on("<all keyspaces>"), "CREATE");
    assert_eq!(on("<keyspace mine>"), "CREATE ALTER DROP SELECT MODIFY AUTHORIZE UNMASK SELECT_MASKED");
    assert_eq!(on("<all functions in mine>"), "CREATE ALTER DROP AUTHORIZE EXECUTE");
    assert_eq!(on("<table mine.t>"), "ALTER DROP SELECT MODIFY AUTHORIZE UNMASK SELECT_MASKED");
    assert_eq!(on("<table ks.mine>"), "ALTER DROP SELECT MODIFY AUTHORIZE UNMASK SELECT_MASKED");
    assert_eq!(on("<role his>"), "ALTER DROP AUTHORIZE DESCRIBE");
    assert_eq!(on("<table ks.t>"), "");
    // He may pass on what he has.
    node.done_as("bob", "GRANT SELECT ON mine.t TO his");
    node.done_as("bob", "GRANT his TO team");
}

#[test]
fn drops_revoke() {
    let node = node();
    for on in
        ["KEYSPACE ks", "ALL TABLES IN KEYSPACE ks", "ks.t", "ALL FUNCTIONS IN KEYSPACE ks", "ROLE team"]
    {
        node.done(&format!("GRANT AUTHORIZE ON {on} TO bob"));
    }
    let rows = |text: &str| node.rows(&format!("LIST ALL PERMISSIONS ON {text} OF bob NORECURSIVE"));
    assert_eq!(rows("ks.t"), ["bob|bob|<table ks.t>|AUTHORIZE"]);
    node.done("DROP TABLE ks.t");
    node.done("CREATE TABLE ks.t (k int PRIMARY KEY)");
    node.listed_as("cassandra", "LIST ALL PERMISSIONS ON ks.t OF bob NORECURSIVE", &[]);
    assert_eq!(rows("KEYSPACE ks").len(), 1);
    node.done("DROP ROLE team");
    node.done("DROP KEYSPACE ks");
    node.listed_as("cassandra", "LIST ALL PERMISSIONS OF bob", &[]);
    node.done("GRANT SELECT ON ALL KEYSPACES TO bob");
    node.done("DROP ROLE bob");
    node.done("CREATE ROLE bob");
    node.listed_as("cassandra", "LIST ALL PERMISSIONS OF bob", &[]);
}

#[test]
fn permissions_are_listed() {
    let node = node();
    node.done("GRANT SELECT, MODIFY ON ks.t TO team");
    node.done("GRANT CREATE ON KEYSPACE ks TO bob");
    node.done("GRANT SELECT ON ALL KEYSPACES TO bob");
    let all_of_bob = [
        "bob|bob|<all keyspaces>|SELECT",
        "bob|bob|<keyspace ks>|CREATE",
        "team|team|<table ks.t>|SELECT",
        "team|team|<table ks.t>|MODIFY",
    ];
    node.listed_as("bob", "LIST ALL PERMISSIONS OF bob", &all_of_bob);
    node.listed_as("bob", "LIST ALL PERMISSIONS ON ks.t OF bob", &all_of_bob);
    node.listed_as("bob", "LIST ALL PERMISSIONS ON ks.t OF bob NORECURSIVE", &all_of_bob[2..]);
    node.listed_as("bob", "LIST SELECT ON ks.t OF bob", &[all_of_bob[0], all_of_bob[2]]);
    node.listed_as("bob", "LIST ALL PERMISSIONS OF team", &all_of_bob[2..]);
    let view = |whose: &str| format!("0x2100 You are not authorized to view {whose}'s permissions");
    node.refused_as("bob", "LIST ALL PERMISSIONS", &view("everyone"));
    node.refused_as("bob", "LIST ALL PERMISSIONS OF cassandra", &view("cassandra"));
    node.done("GRANT DESCRIBE ON ROLE cassandra TO bob");
    node.done_as("bob", "LIST ALL PERMISSIONS OF cassandra");
    node.refused_as("bob", "LIST ALL PERMISSIONS", &view("everyone"));
    node.done("REVOKE DESCRIBE ON ROLE cassandra FROM bob");
    node.refused("LIST ALL PERMISSIONS ON ks.x", "0x2200 <table ks.x> doesn't exist");
    node.refused("LIST ALL PERMISSIONS OF zoe", "0x2200 <role zoe> doesn't exist");
    // Users see their own roles only, unless they may describe all.
    node.listed_as("bob", "LIST ROLES", &["bob|false|true|{}|ALL", "team|false|false|{}|ALL"]);
    node.refused_as(
        "bob",
        "LIST ROLES OF cassandra",
        "0x2100 You are not authorized to view roles granted to cassandra ",
    );
    node.listed_as("bob", "LIST USERS", &["bob|false|ALL"]);
    node.done("GRANT DESCRIBE ON ALL ROLES TO team");
    node.listed_as("bob", "LIST USERS", &["bob|false|ALL", "cassandra|true|ALL"]);
}

#[test]
fn what_cannot_be_granted() {
    let node = node();
    node.warned("GRANT SELECT, MODIFY ON ks.t TO bob", &[]);
    node.warned(
        "GRANT SELECT, ALTER ON ks.t TO bob",
        &["Role 'bob' was already granted SELECT on <table ks.t>"],
    );
    node.warned("REVOKE SELECT, DROP ON ks.t FROM bob", &["Role 'bob' was not granted DROP on <table ks.t>"]);
    node.refused("GRANT SELECT ON ks.t TO zoe", "0x2200 Role zoe doesn't exist");
    node.refused("GRANT SELECT ON ks.x TO bob", "0x2200 Resource <table ks.x> doesn't exist");
    node.refused("GRANT SELECT ON KEYSPACE x TO bob", "0x2200 Resource <keyspace x> doesn't exist");
    node.refused("REVOKE DROP ON ROLE zoe FROM bob", "0x2200 Resource <role zoe> doesn't exist");
    node.refused(
        "GRANT EXECUTE ON ks.t TO bob",
        "0x2000 Resource type DataResource does not support any of the requested permissions",
    );
    node.refused(
        "GRANT SELECT ON ALL ROLES TO bob",
        "0x2000 Resource type RoleResource does not support any of the requested permissions",
    );
    node.refused(
        "GRANT MODIFY ON ALL FUNCTIONS TO bob",
        "0x2000 Resource type FunctionResource does not support any of the requested permissions",
    );
    node.refused(
        "GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE system TO bob",
        "0x2200 Altering permissions on builtin functions is not supported",
    );
    node.refused(
        "GRANT EXECUTE ON FUNCTION ks.f(int) TO bob",
        "0x2200 Resource <function ks.f(int)> doesn't exist",
    );
    node.refused(
        "GRANT SELECT, MODIFY ON system_auth.roles TO bob",
        "0x2100 Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
    );
    node.done("GRANT SELECT ON system_auth.roles TO bob");
    node.done("REVOKE bob FROM bob");
    node.done("REVOKE SELECT ON system_auth.roles FROM bob");
    node.done("GRANT SELECT ON ALL KEYSPACES TO bob");
    node.refused_as(
        "bob",
        "SELECT role FROM system_auth.roles",
        "0x2100 User bob has no SELECT permission on <table system_auth.roles> or any of its parents",
    );
    node.done("REVOKE SELECT ON ALL KEYSPACES FROM bob");
    node.refused_as(
        "bob",
        "TRUNCATE ks.x",
        "0x2100 User bob has no MODIFY permission on <table ks.x> or any of its parents",
    );
    node.refused("TRUNCATE ks.x", "0x2200 table x does not exist");
    node.done("CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)");
    for text in ["DELETE FROM ks.w WHERE k = 1 AND v = 1", "TRUNCATE ks.w"] {
        node.refused_as(
            "bob",
            text,
            "0x2100 User bob has no MODIFY permission on <table ks.w> or any of its parents",
        );
    }
    node.refused(
        "DELETE FROM ks.w WHERE k = 1 AND v = 1",
        "0x2200 Cannot directly modify a materialized view",
    );
    node.refused(
        "GRANT SELECT ON ALL MBEANS TO bob",
        "0x2200 Permissions on MBeans are not supported: this node has no JMX",
    );
    node.refused(
        "GRANT SELECT ON t TO bob",
        "0x2200 No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
    );
    node.0.set_checks_permissions(false);
    let off = |operation| format!("0x2200 {operation} operation is not supported by AllowAllAuthorizer");
    node.refused("GRANT SELECT ON ks.t TO bob", &off("GRANT"));
    node.refused("REVOKE SELECT ON ks.t FROM bob", &off("REVOKE"));
    node.refused("LIST ALL PERMISSIONS", &off("LIST PERMISSIONS"));
}
