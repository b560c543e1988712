//! What an audit log says of a statement: its type, category, keyspace and object, in Cassandra's words.

use syntax::ast::{AccessStatement, DescribeTarget, Ident, QualifiedName, Statement};

use crate::Verb;
use crate::statement::{Plan, Prepared};

/// A category of audit log entries, by which they are included or excluded. Names and contents are those of
/// Cassandra 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditCategory {
    Query,
    Dml,
    Ddl,
    Dcl,
    Other,
    Auth,
    Error,
    Prepare,
}

impl AuditCategory {
    pub const ALL: [Self; 8] =
        [Self::Query, Self::Dml, Self::Ddl, Self::Dcl, Self::Other, Self::Auth, Self::Error, Self::Prepare];

    /// In capitals, as in entries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Query => "QUERY",
            Self::Dml => "DML",
            Self::Ddl => "DDL",
            Self::Dcl => "DCL",
            Self::Other => "OTHER",
            Self::Auth => "AUTH",
            Self::Error => "ERROR",
            Self::Prepare => "PREPARE",
        }
    }
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSubject<'a> {
    /// Cassandra's type, such as `SELECT`; INSERT is an `UPDATE` there.
    pub kind: &'static str,
    pub category: AuditCategory,
    /// `None`: the statement is not about a keyspace.
    pub keyspace: Option<&'a str>,
    /// The table, view, index, type or function.
    pub object: Option<&'a str>,
}

impl Prepared {
    /// What an audit log says of the statement. A batch names no table: its statements may have several.
    pub fn audit_subject(&self) -> AuditSubject<'_> {
        let used = self.keyspace.as_deref();
        let of_table = |kind, category| {
            let table = self.tables().first();
            AuditSubject {
                kind,
                category,
                keyspace: table.map(|table| &*table.keyspace).or(used),
                object: table.map(|table| &*table.name),
            }
        };
        match (self.plan(), self.verb) {
            (Plan::Select(_), _) => of_table("SELECT", AuditCategory::Query),
            (Plan::Modify(_), Verb::Batch) => {
                AuditSubject { kind: "BATCH", category: AuditCategory::Dml, keyspace: None, object: None }
            }
            (Plan::Modify(_), Verb::Delete) => of_table("DELETE", AuditCategory::Dml),
            (Plan::Modify(_), _) => of_table("UPDATE", AuditCategory::Dml),
            (Plan::Truncate(truncate), _) => named("TRUNCATE", AuditCategory::Ddl, &truncate.table, used),
            (Plan::Other(statement), _) => other(statement, used),
        }
    }
}

fn named<'a>(
    kind: &'static str,
    category: AuditCategory,
    name: &'a QualifiedName,
    used: Option<&'a str>,
) -> AuditSubject<'a> {
    let keyspace = name.keyspace.as_ref().map(Ident::as_str).or(used);
    AuditSubject { kind, category, keyspace, object: Some(name.name.as_str()) }
}

fn other<'a>(statement: &'a Statement, used: Option<&'a str>) -> AuditSubject<'a> {
    use AuditCategory::{Dcl, Ddl, Other};
    let of_keyspace = |kind, category, keyspace| AuditSubject { kind, category, keyspace, object: None };
    let of = |kind, name| named(kind, Ddl, name, used);
    match statement {
        Statement::Use(name) => of_keyspace("USE_KEYSPACE", Other, Some(name.as_str())),
        Statement::CreateKeyspace(create) => of_keyspace("CREATE_KEYSPACE", Ddl, Some(create.name.as_str())),
        Statement::AlterKeyspace(alter) => of_keyspace("ALTER_KEYSPACE", Ddl, Some(alter.name.as_str())),
        Statement::DropKeyspace(drop) => of_keyspace("DROP_KEYSPACE", Ddl, Some(drop.name.as_str())),
        Statement::CreateTable(create) => of("CREATE_TABLE", &create.name),
        Statement::AlterTable(alter) => of("ALTER_TABLE", &alter.name),
        Statement::DropTable(drop) => of("DROP_TABLE", &drop.name),
        Statement::CreateType(create) => of("CREATE_TYPE", &create.name),
        Statement::AlterType(alter) => of("ALTER_TYPE", &alter.name),
        Statement::DropType(drop) => of("DROP_TYPE", &drop.name),
        Statement::CreateIndex(create) => of("CREATE_INDEX", create.name.as_ref().unwrap_or(&create.table)),
        Statement::DropIndex(drop) => of("DROP_INDEX", &drop.name),
        Statement::CreateView(create) => of("CREATE_VIEW", &create.name),
        Statement::AlterView(alter) => of("ALTER_VIEW", &alter.name),
        Statement::DropView(drop) => of("DROP_VIEW", &drop.name),
        Statement::CreateFunction(create) => of("CREATE_FUNCTION", &create.name),
        Statement::DropFunction(drop) => of("DROP_FUNCTION", &drop.name),
        Statement::CreateAggregate(create) => of("CREATE_AGGREGATE", &create.name),
        Statement::DropAggregate(drop) => of("DROP_AGGREGATE", &drop.name),
        Statement::Describe(describe) => {
            let keyspace = match &describe.target {
                DescribeTarget::Keyspace { name, .. } => name.as_ref().map(Ident::as_str).or(used),
                _ => used,
            };
            of_keyspace("DESCRIBE", Other, keyspace)
        }
        Statement::Access(access) => of_keyspace(access_kind(access), Dcl, None),
        // These have plans of their own, or are not executed.
        Statement::Select(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Batch(_)
        | Statement::Truncate(_)
        | Statement::Unsupported(_) => of_keyspace("OTHER", Other, used),
    }
}

/// Service levels are not in Cassandra; their types have the words of their statements.
fn access_kind(statement: &AccessStatement) -> &'static str {
    match statement {
        AccessStatement::CreateRole { .. } => "CREATE_ROLE",
        AccessStatement::AlterRole { .. } => "ALTER_ROLE",
        AccessStatement::DropRole { .. } => "DROP_ROLE",
        AccessStatement::GrantRole { .. } | AccessStatement::Grant { .. } => "GRANT",
        AccessStatement::RevokeRole { .. } | AccessStatement::Revoke { .. } => "REVOKE",
        AccessStatement::ListRoles { .. } => "LIST_ROLES",
        AccessStatement::ListUsers => "LIST_USERS",
        AccessStatement::ListPermissions { .. } => "LIST_PERMISSIONS",
        AccessStatement::CreateLevel { .. } => "CREATE_SERVICE_LEVEL",
        AccessStatement::AlterLevel { .. } => "ALTER_SERVICE_LEVEL",
        AccessStatement::DropLevel { .. } => "DROP_SERVICE_LEVEL",
        AccessStatement::AttachLevel { .. } => "ATTACH_SERVICE_LEVEL",
        AccessStatement::DetachLevel { .. } => "DETACH_SERVICE_LEVEL",
        AccessStatement::ListLevel(_)
        | AccessStatement::ListLevels
        | AccessStatement::ListAttached(_)
        | AccessStatement::ListEffective(_) => "LIST_SERVICE_LEVEL",
    }
}

/// A text without its passwords: all after the first word PASSWORD is replaced, as in Cassandra, because a
/// text that does not parse may have a password anywhere behind it.
pub fn without_passwords(text: &str) -> std::borrow::Cow<'_, str> {
    const WORD: &[u8] = b"password";
    let found = text.as_bytes().windows(WORD.len()).position(|at| at.eq_ignore_ascii_case(WORD));
    match found {
        // The word is ASCII, so its end is a boundary of characters.
        Some(at) => format!("{} *******", &text[..at + WORD.len()]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use model::{CqlType, TableSchema};

    use super::*;
    use crate::Storage;
    use crate::testing::MemoryCoordinator;

    fn catalog() -> Catalog {
        let table = TableSchema::builder("shop", "orders").partition_key("k", CqlType::Int);
        let table = table.regular("v", CqlType::Text).build().unwrap();
        MemoryCoordinator::new(&[table]).catalog()
    }

    #[test]
    fn subjects_have_the_words_of_cassandra() {
        let catalog = catalog();
        let subject = |text| {
            let prepared = Prepared::new(&catalog, Some("shop"), text).unwrap();
            let AuditSubject { kind, category, keyspace, object } = prepared.audit_subject();
            let (keyspace, object) = (keyspace.unwrap_or("-"), object.unwrap_or("-"));
            format!("{kind} {} {keyspace} {object}", category.name())
        };
        for (text, expect) in [
            ("SELECT * FROM orders", "SELECT QUERY shop orders"),
            ("INSERT INTO orders (k, v) VALUES (1, '')", "UPDATE DML shop orders"),
            ("UPDATE shop.orders SET v = '' WHERE k = 1", "UPDATE DML shop orders"),
            ("DELETE FROM orders WHERE k = 1", "DELETE DML shop orders"),
            ("BEGIN BATCH DELETE FROM orders WHERE k = 1; APPLY BATCH", "BATCH DML - -"),
            ("TRUNCATE orders", "TRUNCATE DDL shop orders"),
            ("USE other", "USE_KEYSPACE OTHER other -"),
            ("DROP TABLE other.t", "DROP_TABLE DDL other t"),
            ("DROP KEYSPACE other", "DROP_KEYSPACE DDL other -"),
            ("CREATE INDEX ON orders (v)", "CREATE_INDEX DDL shop orders"),
            ("CREATE INDEX by_v ON orders (v)", "CREATE_INDEX DDL shop by_v"),
            ("CREATE ROLE r", "CREATE_ROLE DCL - -"),
            ("LIST ALL PERMISSIONS", "LIST_PERMISSIONS DCL - -"),
            ("DESCRIBE KEYSPACE other", "DESCRIBE OTHER other -"),
            ("DESCRIBE CLUSTER", "DESCRIBE OTHER shop -"),
        ] {
            assert_eq!(subject(text), expect, "{text}");
        }
    }

    #[test]
    fn passwords_do_not_appear() {
        for (text, expect) in [
            ("CREATE ROLE r WITH PASSWORD = 'x' AND LOGIN = true", "CREATE ROLE r WITH PASSWORD *******"),
            ("create user ü with password 'x'", "create user ü with password *******"),
            ("SELECT * FROM t", "SELECT * FROM t"),
        ] {
            assert_eq!(without_passwords(text), expect);
        }
    }
}
