"""Random statements on roles and permissions, and statements that need permissions.

A `PermissionWorld` has three roles with login (r0, r1, r2), whose password is their name, and roles without (g0, g1, g2) that come and go. Statements are sent by
the superuser or by a role with login; most of them need a permission that the role may lack. No statement writes to system tables or changes the role cassandra:
Cassandra lets superusers do it, and its node would not work afterwards.
"""

import random

from sides import Statement

LOGINS, GROUPS = ["r0", "r1", "r2"], ["g0", "g1", "g2"]
PERMISSIONS = ["CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE", "UNMASK", "SELECT_MASKED"]


class PermissionWorld:
    def __init__(self, seed, keyspace):
        self.seed, self.keyspace = seed, keyspace
        self.rng = random.Random(seed)
        self.tables, self.views = [], []  # none whose content is compared
        self.fresh = 0
        self.setup = [Statement(f"DROP ROLE IF EXISTS {name}") for name in LOGINS + GROUPS + ["n0", "n1"]]
        self.setup += [Statement("DROP KEYSPACE IF EXISTS more")]
        self.setup += [Statement(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{name}'") for name in LOGINS]
        self.setup += [Statement(f"CREATE ROLE {name}") for name in GROUPS]
        self.setup += [Statement("CREATE TYPE u (f int)"), Statement("CREATE TABLE t (k int, c int, v int, s text MASKED WITH DEFAULT, PRIMARY KEY (k, c))"),
                       Statement("CREATE TABLE n (k int PRIMARY KEY, n counter)"),
                       Statement("CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)"),
                       Statement("INSERT INTO t (k, c, v, s) VALUES (1, 1, 1, 'secret')")]

    def statement(self):
        rng = self.rng
        draw = rng.random()
        role = None if rng.random() < 0.35 else rng.choice(LOGINS)
        if draw < 0.3:
            text, role = self.granting(), None if rng.random() < 0.7 else role
        elif draw < 0.42:
            text = self.listing()
        elif draw < 0.52:
            text = self.of_roles()
        elif draw < 0.85:
            text = self.of_data()
        else:
            text = self.of_schema()
        # What answers "select" has no effect that could differ.
        return Statement(text, kind="select" if text.startswith(("SELECT", "LIST")) else "write", role=role)

    def role(self):
        return self.rng.choice(LOGINS + LOGINS + GROUPS + GROUPS + ["nobody", "cassandra"] if self.rng.random() < 0.1 else LOGINS + GROUPS)

    def table(self):
        return self.rng.choice(["t", "t", "t", f"{self.keyspace}.t", "w", "n", "nope", "x0", "x1"])

    def permissions(self):
        rng = self.rng
        if rng.random() < 0.15:
            return rng.choice(["ALL", "ALL PERMISSIONS"])
        names = rng.sample(PERMISSIONS, rng.choice([1, 1, 1, 2, 3]))
        return names[0] + " PERMISSION" if len(names) == 1 and rng.random() < 0.2 else ", ".join(names)

    def resource(self):
        rng = self.rng
        return rng.choice([self.table(), f"TABLE {self.table()}", f"TABLE {self.table()}", "ALL KEYSPACES", f"KEYSPACE {self.keyspace}", "KEYSPACE nope", "KEYSPACE more",
                           f"ALL TABLES IN KEYSPACE {self.keyspace}", "ALL ROLES", f"ROLE {self.role()}", "ALL FUNCTIONS",
                           f"ALL FUNCTIONS IN KEYSPACE {self.keyspace}", "system.local", "KEYSPACE system_auth"])

    def granting(self):
        rng = self.rng
        draw = rng.random()
        if draw < 0.55:
            return f"GRANT {self.permissions()} ON {self.resource()} TO {self.role()}"
        if draw < 0.8:
            return f"REVOKE {self.permissions()} ON {self.resource()} FROM {self.role()}"
        if draw < 0.92:
            return f"GRANT {self.role()} TO {self.role()}"
        return f"REVOKE {self.role()} FROM {self.role()}"

    def listing(self):
        rng = self.rng
        of = f" OF {self.role()}" if rng.random() < 0.7 else ""
        plain = " NORECURSIVE" if rng.random() < 0.3 else ""
        draw = rng.random()
        if draw < 0.6:
            on = f" ON {self.resource()}" if rng.random() < 0.5 else ""
            return f"LIST {self.permissions()}{on}{of}{plain}"
        return f"LIST ROLES{of}{plain if of else ''}" if draw < 0.85 else "LIST USERS"

    def of_roles(self):
        rng = self.rng
        name = rng.choice(GROUPS + ["n0", "n1"])
        return rng.choice([
            f"CREATE ROLE {name}", f"CREATE ROLE IF NOT EXISTS {name}", f"CREATE ROLE {name} WITH SUPERUSER = {rng.choice(['true', 'false'])}",
            f"CREATE ROLE {name} WITH LOGIN = false AND PASSWORD = 'x'", f"CREATE USER {name} WITH PASSWORD 'x' {rng.choice(['SUPERUSER', 'NOSUPERUSER'])}",
            f"CREATE USER IF NOT EXISTS {name}", f"DROP ROLE {name}", f"DROP ROLE IF EXISTS {name}", f"DROP USER {name}", f"DROP USER IF EXISTS {name}",
            f"ALTER ROLE {name} WITH LOGIN = {rng.choice(['true', 'false'])}", f"ALTER ROLE {rng.choice(LOGINS + GROUPS)} WITH SUPERUSER = {rng.choice(['false', 'false', 'true'])}",
            f"ALTER ROLE IF EXISTS {name} WITH LOGIN = true", f"ALTER USER {name} NOSUPERUSER", f"ALTER ROLE {rng.choice(LOGINS)} WITH LOGIN = true",
            f"CREATE ROLE {name} WITH NOPE = 1", f"CREATE ROLE {name} WITH LOGIN = 3", "DROP ROLE nobody", "DROP USER nobody"])

    def of_data(self):
        rng, table = self.rng, self.table()
        if table == "n":
            return rng.choice(["UPDATE n SET n = n + 1 WHERE k = 1", "SELECT * FROM n", "DELETE FROM n WHERE k = 2"])
        return rng.choice([
            f"SELECT * FROM {table}", f"SELECT k, c, s FROM {table} WHERE k = 1 AND c = 1", f"SELECT k FROM {table} WHERE s = 'secret' ALLOW FILTERING",
            f"SELECT count(*) FROM {table} WHERE k = 1", f"INSERT INTO {table} (k, c, v, s) VALUES (1, {rng.randrange(4)}, {rng.randrange(9)}, 'secret')",
            f"INSERT INTO {table} (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS", f"UPDATE {table} SET v = 2 WHERE k = 1 AND c = 1",
            f"UPDATE {table} SET v = 3 WHERE k = 1 AND c = 1 IF v = 2", f"DELETE FROM {table} WHERE k = 1 AND c = {rng.randrange(4)}", f"DELETE v FROM {table} WHERE k = 1 AND c = 1 IF EXISTS",
            f"BEGIN BATCH INSERT INTO {table} (k, c) VALUES (1, 1); UPDATE t SET v = 1 WHERE k = 1 AND c = 1; APPLY BATCH", f"TRUNCATE {table}",
            "SELECT keyspace_name, table_name FROM system_schema.tables WHERE keyspace_name = 'world'", "SELECT key FROM system.local", "SELECT role FROM system_auth.roles WHERE role = 'r0'",
            "SELECT role FROM system_auth.role_permissions WHERE role = 'r0'"])

    def of_schema(self):
        rng, table = self.rng, self.table()
        self.fresh += 1
        other = rng.choice(["x0", "x1"])
        return rng.choice([
            f"CREATE TABLE {other} (k int, c int, v int, s text, PRIMARY KEY (k, c))", f"CREATE TABLE IF NOT EXISTS {other} (k int, c int, v int, s text, PRIMARY KEY (k, c))",
            f"DROP TABLE {other}", f"DROP TABLE IF EXISTS {other}", f"ALTER TABLE {table} ADD a{self.fresh} int", f"ALTER TABLE {table} WITH comment = 'c'",
            f"ALTER TABLE {table} ALTER s MASKED WITH mask_inner(1, 1)", f"ALTER TABLE {table} ALTER s DROP MASKED", f"CREATE INDEX i{self.fresh} ON {table} (v)", f"DROP INDEX i{rng.randrange(1, self.fresh + 1)}",
            f"CREATE TYPE y{self.fresh} (f int)", f"DROP TYPE y{rng.randrange(1, self.fresh + 1)}", "ALTER TYPE u ADD g int", "ALTER TYPE u RENAME f TO f",
            f"CREATE MATERIALIZED VIEW IF NOT EXISTS w{rng.randrange(2)} AS SELECT * FROM {table} WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)", f"DROP MATERIALIZED VIEW w{rng.randrange(2)}",
            "ALTER MATERIALIZED VIEW w WITH comment = 'c'", "CREATE KEYSPACE more WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "DROP KEYSPACE more",
            "DROP KEYSPACE IF EXISTS more", f"ALTER KEYSPACE {self.keyspace} WITH durable_writes = true", "ALTER KEYSPACE system_auth WITH durable_writes = true", "DROP TABLE system_auth.roles",
            "CREATE TABLE system.nope (k int PRIMARY KEY)"])
