//! Tests of statements on roles, users and service levels.

use super::{check, parsed, same};
use crate::parse;

#[test]
fn roles() {
    same("CREATE ROLE IF NOT EXISTS r WITH PASSWORD = 'it''s' AND SUPERUSER = true AND LOGIN = false");
    same("CREATE ROLE \"A b\"");
    same("CREATE ROLE r WITH HASHED PASSWORD = '$2a$10$x'");
    check(
        "create role 'A' with login = TRUE and password = 'p'",
        "CREATE ROLE \"A\" WITH PASSWORD = 'p' AND LOGIN = true",
    );
    same("ALTER ROLE IF EXISTS r WITH LOGIN = false");
    same("DROP ROLE IF EXISTS r");
    same("GRANT a TO b");
    check("REVOKE 'A' FROM B", "REVOKE \"A\" FROM b");
    same("LIST ROLES");
    same("LIST ROLES OF r NORECURSIVE");
}

#[test]
fn permissions() {
    same("GRANT ALL PERMISSIONS ON ALL KEYSPACES TO r");
    same("GRANT SELECT, MODIFY ON KEYSPACE ks TO r");
    check(
        "GRANT SELECT PERMISSION, modify permission ON t TO 'R'",
        "GRANT SELECT, MODIFY ON TABLE t TO \"R\"",
    );
    check("REVOKE ALL ON columnfamily ks.t FROM r", "REVOKE ALL PERMISSIONS ON TABLE ks.t FROM r");
    same("GRANT CREATE ON ALL TABLES IN KEYSPACE \"K s\" TO r");
    same("GRANT DESCRIBE ON ALL ROLES TO r");
    check("GRANT AUTHORIZE ON ROLE 'A b' TO r", "GRANT AUTHORIZE ON ROLE \"A b\" TO r");
    same("REVOKE EXECUTE ON ALL FUNCTIONS FROM r");
    same("GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE ks TO r");
    same("GRANT EXECUTE ON FUNCTION ks.f(int, list<text>) TO r");
    same("GRANT EXECUTE ON FUNCTION ks.f() TO r");
    same("GRANT UNMASK, SELECT_MASKED ON TABLE ks.t TO r");
    same("GRANT SELECT ON ALL MBEANS TO r");
    check("GRANT SELECT ON MBEAN 'a:type=*' TO r", "GRANT SELECT ON MBEANS 'a:type=*' TO r");
    // Words that are not reserved are names of tables too.
    check("GRANT DROP ON role TO r", "GRANT DROP ON TABLE role TO r");
    check("GRANT DROP ON all TO function", "GRANT DROP ON TABLE all TO function");
    check("GRANT DROP ON function.mbean TO r", "GRANT DROP ON TABLE function.mbean TO r");
    check("LIST ALL", "LIST ALL PERMISSIONS");
    same("LIST ALL PERMISSIONS OF r");
    same("LIST SELECT, ALTER ON TABLE ks.t OF r NORECURSIVE");
    check("LIST DESCRIBE PERMISSION ON ALL ROLES", "LIST DESCRIBE ON ALL ROLES");
    for wrong in ["GRANT SELECT TO r ON t", "GRANT ON t TO r", "GRANT SELECT ON t", "REVOKE SELECT ON t TO r"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn users_are_roles_that_log_in() {
    check(
        "CREATE USER IF NOT EXISTS Ann WITH PASSWORD 'p' SUPERUSER",
        "CREATE ROLE IF NOT EXISTS \"Ann\" WITH PASSWORD = 'p' AND SUPERUSER = true AND LOGIN = true",
    );
    check("CREATE USER ann", "CREATE ROLE ann WITH SUPERUSER = false AND LOGIN = true");
    check("ALTER USER 'ann' NOSUPERUSER", "ALTER ROLE ann WITH SUPERUSER = false");
    check("DROP USER ann", "DROP ROLE ann");
    same("LIST USERS");
}

#[test]
fn service_levels() {
    same(
        "CREATE SERVICE LEVEL IF NOT EXISTS sl WITH timeout = 30ms AND workload_type = 'interactive' AND shares = 7",
    );
    check("CREATE SERVICE_LEVEL 'SL'", "CREATE SERVICE LEVEL \"SL\"");
    check(
        "ALTER SERVICE LEVEL DEFAULT WITH TIMEOUT = NULL",
        "ALTER SERVICE LEVEL default WITH timeout = null",
    );
    check("DROP SERVICE_LEVEL IF EXISTS Sl", "DROP SERVICE LEVEL IF EXISTS sl");
    check("ATTACH SERVICE_LEVEL sl TO 'R'", "ATTACH SERVICE LEVEL sl TO \"R\"");
    same("DETACH SERVICE LEVEL FROM r");
    same("LIST SERVICE LEVEL sl");
    check("LIST ALL SERVICE_LEVELS", "LIST ALL SERVICE LEVELS");
    check("LIST SERVICE LEVELS", "LIST ALL SERVICE LEVELS");
    check("LIST SERVICE_LEVELS", "LIST ALL SERVICE LEVELS");
    same("LIST ATTACHED SERVICE LEVEL OF r");
    check("LIST ALL ATTACHED SERVICE_LEVELS", "LIST ALL ATTACHED SERVICE LEVELS");
    same("LIST EFFECTIVE SERVICE LEVEL OF r");
    same("SELECT a FROM t USING TIMEOUT 1s AND SERVICE LEVEL sl");
    check("SELECT a FROM t USING SERVICE_LEVEL 'SL'", "SELECT a FROM t USING SERVICE LEVEL \"SL\"");
    check(
        "SELECT a FROM t USING SERVICE LEVEL DEFAULT AND TIMEOUT ?",
        "SELECT a FROM t USING TIMEOUT ? AND SERVICE LEVEL default",
    );
    // Elsewhere these keywords are names.
    same("SELECT service, level, role FROM users WHERE levels = 1");
}

#[test]
fn what_is_wrong_is_pointed_at() {
    let refused = |text: &str, expect: &str| {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expect), "{text}: {error}");
    };
    refused("ALTER ROLE r WITH PASSWORD = ?", "line 1:29 Bind variables cannot be used for passwords");
    refused("CREATE ROLE ?", "line 1:12 Bind variables cannot be used for role names");
    refused(
        "DROP SERVICE LEVEL ?",
        "line 1:19 Bind variables cannot be used for service levels or role names",
    );
    refused("CREATE ROLE r WITH LOGIN = true AND LOGIN = true", "Multiple definition for property 'LOGIN'");
    refused("CREATE ROLE r WITH OPTIONS = {'a': 'b'}", "OPTIONS of roles are not supported");
    refused("SELECT a FROM t USING SERVICE LEVEL ?", "Bind variables cannot be used for service levels");
    refused(
        "SELECT a FROM t USING SERVICE LEVEL a AND SERVICE LEVEL b",
        "line 1:42 SERVICE LEVEL is given twice",
    );
    refused("UPDATE t USING SERVICE LEVEL a SET b = 1 WHERE c = 1", "line 1:");
    refused("CREATE USER \"u\"", "USER is deprecated, please use ROLE");
    refused(
        "CREATE SERVICE LEVEL s WITH shares = 1 AND shares = 2",
        "Multiple definition for property 'shares'",
    );
    refused("ALTER SERVICE LEVEL s", "line 1:");
    refused("LIST ATTACHED SERVICE LEVEL", "line 1:");
    assert!(parsed("GRANT ALL ON ks.t TO r").markers.is_empty());
}
