//! Every statement is executed with every single permission on every resource: with what it needs it
//! succeeds, with anything else it is refused, and the error names the permission and the resource.

use std::collections::BTreeSet;

use catalog::{Catalog, Permission, Resource};
use syntax::{AccessStatement, Statement, parse};

use super::TestNode;
use crate::Storage;

type Need = (Permission, Resource);

fn ks_t() -> Resource {
    Resource::table("ks", "t")
}

fn tables() -> Resource {
    Resource::AllTables("ks".to_string())
}

fn functions() -> Resource {
    Resource::Functions("ks".to_string())
}

fn function(name: &str, arguments: &[&str]) -> Resource {
    Resource::Function {
        keyspace: "ks".to_string(),
        name: name.to_string(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
    }
}

fn keyspace() -> Resource {
    Resource::Keyspace("ks".to_string())
}

fn other() -> Resource {
    Resource::Role("other".to_string())
}

/// The error of a statement without its permissions.
enum Refusal {
    /// Names the first missing permission.
    Permission,
    /// Texts of statements on roles do not name the permission.
    Role,
    Text(&'static str),
}

/// All statements, with the permissions that they need, in the order in which they are checked.
fn statements() -> Vec<(&'static str, Vec<Need>, Refusal)> {
    use Permission as P;
    let data = |text, needs: &[Permission]| {
        let needs = needs.iter().map(|permission| (*permission, ks_t())).collect();
        (text, needs, Refusal::Permission)
    };
    let one = |text, permission, resource| (text, vec![(permission, resource)], Refusal::Permission);
    let role = |text, permission, resource| (text, vec![(permission, resource)], Refusal::Role);
    let free = |text| (text, vec![], Refusal::Permission);
    let data_and = |text, needs: Vec<Need>| (text, needs, Refusal::Permission);
    let superuser =
        |text| (text, vec![], Refusal::Text("Only superusers are allowed to change service levels"));
    vec![
        data("SELECT * FROM ks.t", &[P::Select]),
        data("SELECT count(*) FROM ks.t WHERE k = 1", &[P::Select]),
        data("SELECT JSON v FROM ks.t WHERE k = 1 AND c = 1", &[P::Select]),
        data("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1)", &[P::Modify]),
        data("INSERT INTO ks.t JSON '{\"k\": 1, \"c\": 1}'", &[P::Modify]),
        data("INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS", &[P::Modify, P::Select]),
        data("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1", &[P::Modify]),
        data("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF v = 1", &[P::Modify, P::Select]),
        data("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF EXISTS", &[P::Modify, P::Select]),
        data("DELETE FROM ks.t WHERE k = 1", &[P::Modify]),
        data("DELETE v FROM ks.t WHERE k = 1 AND c = 1 IF EXISTS", &[P::Modify, P::Select]),
        data("BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1); APPLY BATCH", &[P::Modify]),
        data(
            "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS; APPLY BATCH",
            &[P::Modify, P::Select],
        ),
        data("TRUNCATE ks.t", &[P::Modify]),
        one(
            "CREATE KEYSPACE new WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            P::Create,
            Resource::AllKeyspaces,
        ),
        one("ALTER KEYSPACE ks WITH durable_writes = true", P::Alter, keyspace()),
        one("DROP KEYSPACE ks", P::Drop, keyspace()),
        one("CREATE TABLE ks.new (k int PRIMARY KEY)", P::Create, tables()),
        one("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY)", P::Create, tables()),
        data("ALTER TABLE ks.t ADD w int", &[P::Alter]),
        data("ALTER TABLE ks.t WITH comment = 'x'", &[P::Alter]),
        data("DROP TABLE ks.t", &[P::Drop]),
        one("CREATE TYPE ks.new (a int)", P::Create, tables()),
        one("ALTER TYPE ks.ty ADD b int", P::Alter, tables()),
        one("DROP TYPE ks.ty", P::Drop, tables()),
        free("USE ks"),
        free("DESCRIBE KEYSPACE ks"),
        free("DESCRIBE TABLE ks.t"),
        data("CREATE INDEX new ON ks.t (v)", &[P::Alter]),
        data("DROP INDEX ks.known", &[P::Alter]),
        free("DROP INDEX IF EXISTS ks.missing"),
        data(
            "CREATE MATERIALIZED VIEW ks.new AS SELECT * FROM ks.t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
            &[P::Alter],
        ),
        one("ALTER MATERIALIZED VIEW ks.mv WITH comment = 'x'", P::Alter, Resource::table("ks", "base")),
        one("DROP MATERIALIZED VIEW ks.mv", P::Alter, Resource::table("ks", "base")),
        one(
            "CREATE FUNCTION ks.new (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'",
            P::Create,
            functions(),
        ),
        one(
            "CREATE OR REPLACE FUNCTION ks.f (s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'",
            P::Alter,
            function("f", &["int", "int"]),
        ),
        one("DROP FUNCTION ks.free", P::Drop, function("free", &[])),
        one("DROP FUNCTION ks.free ()", P::Drop, function("free", &[])),
        (
            "CREATE AGGREGATE ks.new (int) SFUNC f STYPE int",
            vec![(P::Create, functions()), (P::Execute, function("f", &["int", "int"]))],
            Refusal::Permission,
        ),
        one("DROP AGGREGATE ks.a", P::Drop, function("a", &["int"])),
        data_and(
            "SELECT ks.f(k, v) FROM ks.t",
            vec![(P::Select, ks_t()), (P::Execute, function("f", &["int", "int"]))],
        ),
        data_and(
            "SELECT ks.a(v) FROM ks.t",
            vec![
                (P::Select, ks_t()),
                (P::Execute, function("a", &["int"])),
                (P::Execute, function("f", &["int", "int"])),
            ],
        ),
        data_and(
            "INSERT INTO ks.t (k, c) VALUES (ks.f(1, 2), 1)",
            vec![(P::Modify, ks_t()), (P::Execute, function("f", &["int", "int"]))],
        ),
        free("DROP MATERIALIZED VIEW IF EXISTS ks.missing"),
        free("DROP TRIGGER IF EXISTS missing ON ks.t"),
        role("CREATE ROLE new", P::Create, Resource::AllRoles),
        role("CREATE USER new", P::Create, Resource::AllRoles),
        role("ALTER ROLE other WITH LOGIN = true", P::Alter, other()),
        free("ALTER ROLE bob WITH PASSWORD = 'x'"),
        role("DROP ROLE other", P::Drop, other()),
        role("GRANT other TO fourth", P::Authorize, other()),
        role("REVOKE third FROM other", P::Authorize, Resource::Role("third".to_string())),
        data("GRANT SELECT ON ks.t TO third", &[P::Authorize, P::Select]),
        data("GRANT DROP, MODIFY ON ks.t TO third", &[P::Authorize, P::Drop, P::Modify]),
        data("REVOKE ALTER ON ks.t FROM third", &[P::Authorize, P::Alter]),
        free("LIST ALL PERMISSIONS OF bob"),
        free("LIST ROLES"),
        free("LIST USERS"),
        superuser("CREATE SERVICE LEVEL new"),
        superuser("ALTER SERVICE LEVEL sl WITH shares = 7"),
        superuser("DROP SERVICE LEVEL sl"),
        superuser("ATTACH SERVICE LEVEL sl TO other"),
        superuser("DETACH SERVICE LEVEL FROM other"),
        free("LIST SERVICE LEVEL sl"),
        free("LIST ALL SERVICE LEVELS"),
        free("LIST ATTACHED SERVICE LEVEL OF other"),
        free("LIST EFFECTIVE SERVICE LEVEL OF third"),
    ]
}

/// The kind of a statement. A new kind must be added here and to [`statements`].
fn kind(statement: &Statement) -> usize {
    use AccessStatement as A;
    match statement {
        Statement::Use(_) => 0,
        Statement::Select(_) => 1,
        Statement::Insert(_) => 2,
        Statement::Update(_) => 3,
        Statement::Delete(_) => 4,
        Statement::Batch(_) => 5,
        Statement::Truncate(_) => 6,
        Statement::CreateKeyspace(_) => 7,
        Statement::AlterKeyspace(_) => 8,
        Statement::DropKeyspace(_) => 9,
        Statement::CreateTable(_) => 10,
        Statement::AlterTable(_) => 11,
        Statement::DropTable(_) => 12,
        Statement::CreateType(_) => 13,
        Statement::AlterType(_) => 14,
        Statement::DropType(_) => 15,
        Statement::Describe(_) => 16,
        Statement::Unsupported(_) => 17,
        Statement::Access(statement) => match &**statement {
            A::CreateRole { .. } => 18,
            A::AlterRole { .. } => 19,
            A::DropRole { .. } => 20,
            A::GrantRole { .. } => 21,
            A::RevokeRole { .. } => 22,
            A::ListRoles { .. } => 23,
            A::ListUsers => 24,
            A::Grant { .. } => 25,
            A::Revoke { .. } => 26,
            A::ListPermissions { .. } => 27,
            A::CreateLevel { .. } => 28,
            A::AlterLevel { .. } => 29,
            A::DropLevel { .. } => 30,
            A::AttachLevel { .. } => 31,
            A::DetachLevel { .. } => 32,
            A::ListLevel(_) => 33,
            A::ListLevels => 34,
            A::ListAttached(_) => 35,
            A::ListEffective(_) => 36,
        },
        Statement::CreateIndex(_) => 37,
        Statement::DropIndex(_) => 38,
        Statement::CreateFunction(_) => 39,
        Statement::DropFunction(_) => 40,
        Statement::CreateAggregate(_) => 41,
        Statement::DropAggregate(_) => 42,
        Statement::CreateView(_) => 43,
        Statement::AlterView(_) => 44,
        Statement::DropView(_) => 45,
    }
}

const KINDS: usize = 46;

/// The catalog of every run.
fn start() -> Catalog {
    let node = TestNode::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE KEYSPACE ks2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.t2 (k int PRIMARY KEY)",
        "CREATE TABLE ks2.t (k int PRIMARY KEY)",
        "CREATE INDEX known ON ks.t (c)",
        "CREATE TABLE ks.base (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.base WHERE k IS NOT NULL PRIMARY KEY (k)",
        "CREATE TYPE ks.ty (a int)",
        "CREATE FUNCTION ks.f (s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'",
        "CREATE FUNCTION ks.free () CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
        "CREATE AGGREGATE ks.a (int) SFUNC f STYPE int",
        "CREATE ROLE bob WITH LOGIN = true",
        "CREATE ROLE other",
        "CREATE ROLE third",
        "CREATE ROLE fourth",
        "GRANT third TO other",
        "CREATE SERVICE LEVEL sl",
        "ATTACH SERVICE LEVEL sl TO third",
    ] {
        node.try_run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    node.0.catalog()
}

/// Executes the statement as `bob` with these permissions, and checks the answer.
fn check(catalog: &Catalog, text: &str, needs: &[Need], refusal: &Refusal, granted: &[Need]) {
    let grant = |access: &mut catalog::Access| {
        granted.iter().try_for_each(|(permission, resource)| {
            access.grant([*permission].into_iter().collect(), resource, "bob").map(|_| ())
        })
    };
    let node = TestNode::new();
    node.0.set_catalog(catalog.change_access(grant).unwrap().0);
    node.0.set_checks_permissions(true);
    node.0.set_user(Some("bob"));
    let has = |need: &&Need| {
        granted.iter().any(|(permission, on)| *permission == need.0 && need.1.chain().any(|one| one == *on))
    };
    let expect = match (needs.iter().find(|need| !has(need)), refusal) {
        (_, Refusal::Text(text)) => Err(text.to_string()),
        (None, _) => Ok(()),
        (Some((permission, resource)), Refusal::Permission) => {
            Err(format!("User bob has no {permission} permission on {resource} or any of its parents"))
        }
        (Some(_), Refusal::Role) => {
            Err("User bob does not have sufficient privileges to perform the requested operation".to_string())
        }
    };
    let found = node.try_run(text);
    if let Err(error) = &found {
        assert_eq!(error.code(), 0x2100, "{text} with {granted:?}: {error}");
    }
    let found = found.map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(found, expect, "{text} with {granted:?}");
}

#[test]
fn all_statements_with_all_permissions_on_all_resources() {
    let catalog = start();
    let statements = statements();
    let kinds: BTreeSet<usize> =
        statements.iter().map(|(text, ..)| kind(&parse(text).unwrap().statement)).collect();
    assert_eq!(kinds.len(), KINDS, "each kind of statement is walked");
    let resources = [
        Resource::AllKeyspaces,
        keyspace(),
        tables(),
        ks_t(),
        Resource::table("ks", "t2"),
        Resource::Keyspace("ks2".to_string()),
        Resource::AllTables("ks2".to_string()),
        Resource::table("ks2", "t"),
        Resource::AllRoles,
        other(),
        Resource::Role("third".to_string()),
        Resource::AllFunctions,
        Resource::Functions("ks".to_string()),
    ];
    for (text, needs, refusal) in &statements {
        check(&catalog, text, needs, refusal, &[]);
        check(&catalog, text, needs, refusal, needs);
        for resource in &resources {
            for permission in resource.applicable().iter() {
                check(&catalog, text, needs, refusal, &[(permission, resource.clone())]);
            }
        }
        // Each permission alone is not enough if several are needed.
        for without in 0..needs.len() {
            let mut fewer = needs.clone();
            fewer.remove(without);
            check(&catalog, text, needs, refusal, &fewer);
        }
        // Groups give the permission too.
        let of_groups: Vec<Need> =
            needs.iter().map(|(permission, on)| (*permission, on.chain().last().unwrap())).collect();
        check(&catalog, text, needs, refusal, &of_groups);
    }
}
