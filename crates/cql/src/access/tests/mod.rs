//! Statements on roles and service levels, on storage in memory: answers and errors. `permissions.rs` tests
//! those on permissions, `walk.rs` every statement with every permission, `masks.rs` masked columns.

mod masks;
mod permissions;
mod walk;

use catalog::{Access, RoleChange};
use model::CqlType;
use protocol::CqlError;
use reader::block_on_ready;

use crate::select::tests::rows_of;
use crate::testing::MemoryCoordinator;
use crate::{Execution, Outcome, Prepared};

struct TestNode(MemoryCoordinator);

impl TestNode {
    /// Creates a node with the superuser `cassandra`, who has logged in.
    fn new() -> Self {
        let node = MemoryCoordinator::new(&[]);
        let superuser = RoleChange {
            can_login: Some(true),
            is_superuser: Some(true),
            salted_hash: Some("ardnassac".to_string()),
        };
        let catalog = catalog::Catalog::empty().with_system_tables();
        let make = |access: &mut Access| access.create_role("cassandra", superuser, false);
        node.set_catalog(catalog.change_access(make).unwrap().0);
        node.set_user(Some("cassandra"));
        let lua = udf::LuaEngine::new(udf::Limits::default());
        node.set_scripts(Some(catalog::Scripts(std::sync::Arc::new(lua))));
        Self(node)
    }

    fn try_run(&self, text: &str) -> Result<Outcome, CqlError> {
        self.run_with(text, &mut vec![])
    }

    fn run_with(&self, text: &str, warnings: &mut Vec<String>) -> Result<Outcome, CqlError> {
        let prepared = Prepared::new(&crate::Storage::catalog(&self.0), None, text)?;
        let execution =
            Execution { now_us: 0, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
        block_on_ready(prepared.execute(&self.0, &Default::default(), &execution, warnings))
    }

    #[track_caller]
    fn run(&self, text: &str) {
        match self.try_run(text) {
            Ok(Outcome::Void) => {}
            other => panic!("{text}: {other:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, text: &str, expect: &str) {
        let error = self.try_run(text).expect_err(text);
        assert_eq!(format!("{:#06x} {error}", error.code()), expect, "{text}");
    }

    /// Returns the rows as text. Cells are separated by `|`, and a null is empty.
    #[track_caller]
    fn rows(&self, text: &str) -> Vec<String> {
        let types: &[&str] = match () {
            () if text.starts_with("LIST ROLES") => {
                &["text", "boolean", "boolean", "frozen<map<text, text>>", "text"]
            }
            () if text.starts_with("LIST USERS") => &["text", "boolean", "text"],
            () if is_of_permissions(text) => &["text"; 4],
            () if text.contains("ATTACHED") => &["text", "text"],
            () if text.contains("EFFECTIVE") => &["text", "text", "text"],
            () if text.contains("ALL SERVICE LEVELS") => &["text", "duration", "text", "int", "text"],
            () => &["text", "duration", "text", "int"],
        };
        let Ok(Outcome::Rows(rows)) = self.try_run(text) else { panic!("{text}: no rows") };
        assert_eq!(rows.columns.columns_count(), types.len(), "{text}");
        let cell = |(cell, ty): (Option<Vec<u8>>, &&str)| {
            let ty = CqlType::from_cql(ty, &|_| None).unwrap();
            cell.map_or(String::new(), |bytes| ty.text_of(&bytes).replace('\'', ""))
        };
        let rows = rows_of(&rows, types.len());
        rows.into_iter()
            .map(|row| row.into_iter().zip(types).map(cell).collect::<Vec<_>>().join("|"))
            .collect()
    }
}

fn is_of_permissions(text: &str) -> bool {
    text.starts_with("LIST ALL PERMISSIONS") || text.starts_with("LIST SELECT")
}

#[test]
fn roles_come_change_and_go() {
    let node = TestNode::new();
    node.run("CREATE ROLE ann WITH PASSWORD = 'p' AND LOGIN = true");
    node.run("CREATE ROLE IF NOT EXISTS ann WITH SUPERUSER = true");
    node.run("CREATE USER Bob WITH PASSWORD 'q'");
    node.run("CREATE ROLE team");
    node.run("GRANT team TO ann");
    assert_eq!(
        node.rows("LIST ROLES"),
        [
            "Bob|false|true|{}|ALL",
            "ann|false|true|{}|ALL",
            "cassandra|true|true|{}|ALL",
            "team|false|false|{}|ALL"
        ]
    );
    assert_eq!(node.rows("LIST ROLES OF ann"), ["ann|false|true|{}|ALL", "team|false|false|{}|ALL"]);
    assert_eq!(node.rows("LIST USERS"), ["Bob|false|ALL", "ann|false|ALL", "cassandra|true|ALL"]);
    node.refused("GRANT team TO ann", "0x2200 ann is a member of team");
    node.refused("GRANT ann TO team", "0x2200 ann is a member of team");
    node.refused("CREATE ROLE ann", "0x2200 ann already exists");
    node.refused("DROP ROLE zoe", "0x2200 zoe doesn't exist");
    node.refused("ALTER ROLE ann", "0x2200 ALTER [ROLE|USER] can't be empty");
    node.refused("DROP ROLE cassandra", "0x2200 Cannot DROP primary role for current login");
    node.refused(
        "ALTER ROLE cassandra WITH SUPERUSER = false",
        "0x2100 You aren't allowed to alter your own superuser status or that of a role granted to you",
    );
    node.refused(
        "CREATE ROLE x WITH HASHED PASSWORD = 'p'",
        "0x2200 Invalid hashed password value. Please use jBcrypt.",
    );
    node.run("REVOKE team FROM ann");
    node.refused("REVOKE team FROM ann", "0x2200 ann is not a member of team");
    node.run("DROP ROLE IF EXISTS zoe");
    node.run("DROP USER Bob");
    assert_eq!(node.rows("LIST USERS"), ["ann|false|ALL", "cassandra|true|ALL"]);
}

#[test]
fn other_roles_have_fewer_rights_than_superusers() {
    let node = TestNode::new();
    node.run("CREATE ROLE ann WITH PASSWORD = 'p' AND LOGIN = true");
    node.0.set_user(Some("ann"));
    node.run("ALTER ROLE ann WITH PASSWORD = 'q'");
    let hash = crate::Storage::catalog(&node.0).access().role("ann").unwrap().salted_hash.clone();
    assert_eq!(hash.as_deref(), Some("q"));
    node.refused(
        "CREATE ROLE x WITH SUPERUSER = true",
        "0x2100 Only superusers can create a role with superuser status",
    );
    node.refused("DROP ROLE cassandra", "0x2100 Only superusers can drop a role with superuser status");
    node.refused(
        "ALTER ROLE cassandra WITH PASSWORD = 'mine'",
        "0x2100 Only superusers are allowed to alter superusers",
    );
    node.refused(
        "ALTER ROLE cassandra WITH SUPERUSER = false",
        "0x2100 Only superusers are allowed to alter superuser status",
    );
    node.refused("ALTER ROLE ann WITH LOGIN = false", "0x2100 You aren't allowed to alter LOGIN");
    node.0.set_user(None);
    let anonymous = "0x2100 You have to be logged in and not anonymous to perform this request";
    for text in ["CREATE ROLE x", "DROP ROLE ann", "LIST ROLES", "LIST USERS", "GRANT ann TO cassandra"] {
        node.refused(text, anonymous);
    }
    node.refused("GRANT SELECT ON ks.t TO ann", anonymous);
}

#[test]
fn service_levels_come_change_and_go() {
    let node = TestNode::new();
    node.run(
        "CREATE SERVICE LEVEL web WITH timeout = 30ms AND workload_type = 'interactive' AND shares = 600",
    );
    node.run("CREATE SERVICE_LEVEL olap WITH shares = 200");
    node.run("CREATE SERVICE LEVEL IF NOT EXISTS web");
    assert_eq!(node.rows("LIST SERVICE LEVEL web"), ["web|30ms|interactive|600"]);
    assert_eq!(
        node.rows("LIST ALL SERVICE LEVELS"),
        ["olap|||200|25.00%", "web|30ms|interactive|600|75.00%"]
    );
    node.run("ALTER SERVICE LEVEL olap WITH timeout = 2s AND workload_type = 'batch'");
    node.run("CREATE ROLE ann");
    node.run("CREATE ROLE team");
    node.run("GRANT team TO ann");
    node.refused(
        "LIST EFFECTIVE SERVICE LEVEL OF ann",
        "0x2200 Role ann doesn't have assigned any service level",
    );
    node.run("ATTACH SERVICE LEVEL web TO ann");
    node.run("ATTACH SERVICE LEVEL olap TO team");
    assert_eq!(node.rows("LIST ATTACHED SERVICE LEVEL OF ann"), ["ann|web"]);
    assert_eq!(node.rows("LIST ALL ATTACHED SERVICE LEVELS"), ["ann|web", "team|olap"]);
    assert_eq!(
        node.rows("LIST EFFECTIVE SERVICE LEVEL OF ann"),
        ["workload_type|olap|batch", "timeout|web|30ms", "shares|olap|200"]
    );
    node.run("ALTER SERVICE LEVEL web WITH timeout = null AND workload_type = 'null'");
    assert_eq!(
        node.rows("LIST EFFECTIVE SERVICE LEVEL OF ann"),
        ["workload_type|olap|batch", "timeout|olap|2s", "shares|olap|200"]
    );
    // Other users can list service levels but not change them.
    node.0.set_user(Some("ann"));
    for text in [
        "CREATE SERVICE LEVEL mine WITH shares = 1000",
        "CREATE SERVICE LEVEL IF NOT EXISTS web",
        "ALTER SERVICE LEVEL web WITH shares = 1000",
        "DROP SERVICE LEVEL web",
        "ATTACH SERVICE LEVEL web TO team",
        "DETACH SERVICE LEVEL FROM ann",
    ] {
        node.refused(text, "0x2100 Only superusers are allowed to change service levels");
    }
    assert_eq!(node.rows("LIST SERVICE LEVEL web").len(), 1);
    node.0.set_user(Some("cassandra"));
    node.run("DETACH SERVICE LEVEL FROM ann");
    node.run("DROP SERVICE LEVEL olap");
    assert!(node.rows("LIST ALL ATTACHED SERVICE LEVELS").is_empty());
    // Without authentication, every client may change service levels.
    node.0.set_user(None);
    node.run("CREATE SERVICE LEVEL anybody");
}

#[test]
fn what_is_no_service_level_is_refused() {
    let node = TestNode::new();
    let refused =
        |with: &str, expect: &str| node.refused(&format!("CREATE SERVICE LEVEL s WITH {with}"), expect);
    refused("timeout = 1d", "0x2200 Timeout values cannot be expressed in days/months");
    refused("timeout = 1500us", "0x2200 Timeout values must be expressed in millisecond granularity");
    refused("timeout = -5ms", "0x2200 Timeout values must be nonnegative");
    refused("workload_type = 'unspecified'", "0x2200 Invalid workload type: unspecified");
    refused("shares = 0", "0x2000 'SHARES' can only take values of 1-1000 (given 0)");
    refused("shares = 1001", "0x2000 'SHARES' can only take values of 1-1000 (given 1001)");
    refused("colour = 'red'", "0x2000 Unknown property 'colour'");
    for level in ["a", "b", "c"] {
        node.run(&format!("CREATE SERVICE LEVEL {level}"));
    }
    node.refused(
        "CREATE SERVICE LEVEL d",
        "0x2200 Can't create service level - no more scheduling groups exist",
    );
}
