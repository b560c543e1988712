#!/usr/bin/env python3
"""Passwords, roles, permissions and service levels with the Python driver, and cqlsh with -u and -p, against a `messina` of its own.

    login.py PROFILE [CQLSH ...]

The last line is `N passed, N failed`; exit status 1 if one failed.
"""

import pathlib
import subprocess
import sys

from cassandra import ReadTimeout, Unauthorized, WriteTimeout
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import nodes  # noqa: E402
from harness import equal, holds, raises  # noqa: E402


def connect(node, protocol, name, password):
    cluster = Cluster([nodes.HOST], port=node.port, protocol_version=protocol, connect_timeout=30,
                      auth_provider=PlainTextAuthProvider(name, password) if name else None)
    return cluster, cluster.connect()


def passwords(node, protocol):
    cluster, session = connect(node, protocol, "cassandra", "cassandra")
    holds("cassandra" in [row.role for row in session.execute("LIST ROLES")], "a superuser")
    cluster.shutdown()
    error = raises(NoHostAvailable, lambda: connect(node, protocol, "cassandra", "wrong"))
    holds("Provided username cassandra and/or password are incorrect" in str(error), str(error))
    raises(NoHostAvailable, lambda: connect(node, protocol, None, None))


def roles(node, protocol):
    admin, session = connect(node, protocol, "cassandra", "cassandra")
    name = f"ann_v{protocol}"
    session.execute(f"CREATE ROLE {name} WITH PASSWORD = 'p' AND LOGIN = true")
    session.execute(f"GRANT {name} TO cassandra")
    equal(sorted(row.role for row in session.execute("LIST ROLES OF cassandra")), [name, "cassandra"])
    session.execute(f"REVOKE {name} FROM cassandra")
    other, as_ann = connect(node, protocol, name, "p")
    raises(Unauthorized, lambda: as_ann.execute("CREATE ROLE x WITH SUPERUSER = true"), "Only superusers can create")
    as_ann.execute(f"ALTER ROLE {name} WITH PASSWORD = 'q'")
    other.shutdown()
    raises(NoHostAvailable, lambda: connect(node, protocol, name, "p"))
    connect(node, protocol, name, "q")[0].shutdown()
    session.execute(f"DROP ROLE {name}")
    admin.shutdown()


def permissions(node, protocol):
    admin, session = connect(node, protocol, "cassandra", "cassandra")
    name = f"bob_v{protocol}"
    ks = f"permissions_v{protocol}"
    session.execute(f"CREATE ROLE {name} WITH PASSWORD = 'p' AND LOGIN = true")
    session.execute(f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.execute(f"CREATE TABLE {ks}.t (k int PRIMARY KEY, v int)")
    # The driver reads the schema and the node's tables without a permission.
    cluster, as_bob = connect(node, protocol, name, "p")
    holds("t" in cluster.metadata.keyspaces[ks].tables, "the driver knows the schema")

    def denied(permission):
        return f"User {name} has no {permission} permission on <table {ks}.t> or any of its parents"

    write = as_bob.prepare(f"INSERT INTO {ks}.t (k, v) VALUES (?, ?)")
    raises(Unauthorized, lambda: as_bob.execute(write, (1, 2)), denied("MODIFY"))
    session.execute(f"GRANT MODIFY ON {ks}.t TO {name}")
    as_bob.execute(write, (1, 2))
    raises(Unauthorized, lambda: as_bob.execute(f"SELECT v FROM {ks}.t"), denied("SELECT"))
    raises(Unauthorized, lambda: as_bob.execute(f"DELETE FROM {ks}.t WHERE k = 1 IF EXISTS"), denied("SELECT"))
    session.execute(f"GRANT SELECT ON KEYSPACE {ks} TO {name}")
    equal([row.v for row in as_bob.execute(f"SELECT v FROM {ks}.t")], [2])
    listed = [tuple(row) for row in as_bob.execute(f"LIST ALL PERMISSIONS OF {name}")]
    equal(listed, [(name, name, f"<keyspace {ks}>", "SELECT"), (name, name, f"<table {ks}.t>", "MODIFY")])
    raises(Unauthorized, lambda: as_bob.execute("SELECT role FROM system_auth.roles"))
    session.execute(f"REVOKE MODIFY ON {ks}.t FROM {name}")
    raises(Unauthorized, lambda: as_bob.execute(write, (1, 3)), denied("MODIFY"))
    session.execute(f"CREATE TABLE {ks}.m (k int PRIMARY KEY, v text MASKED WITH mask_inner(1, null))")
    session.execute(f"INSERT INTO {ks}.m (k, v) VALUES (1, 'secret')")
    equal([row.v for row in as_bob.execute(f"SELECT v FROM {ks}.m")], ["s*****"])
    equal([row.v for row in session.execute(f"SELECT v FROM {ks}.m")], ["secret"])
    cluster.shutdown()
    admin.shutdown()


def levels(node, protocol):
    admin, session = connect(node, protocol, "cassandra", "cassandra")
    name = f"web_v{protocol}"
    session.execute(f"CREATE SERVICE LEVEL {name} WITH timeout = 30ms AND workload_type = 'interactive' AND shares = 600")
    session.execute(f"CREATE ROLE {name} WITH PASSWORD = 'p' AND LOGIN = true")
    session.execute(f"ATTACH SERVICE LEVEL {name} TO {name}")
    shown = [tuple(row) for row in session.execute(f"LIST EFFECTIVE SERVICE LEVEL OF {name}")]
    equal(shown, [("workload_type", name, "interactive"), ("timeout", name, "30ms"), ("shares", name, "600")])
    # The driver reads much when it connects.
    session.execute(f"ALTER SERVICE LEVEL {name} WITH timeout = 10s")
    ks = f"levels_v{protocol}"
    session.execute(f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.execute(f"CREATE TABLE {ks}.t (k int PRIMARY KEY)")
    cluster, as_web = connect(node, protocol, name, "p")
    session.execute(f"ALTER SERVICE LEVEL {name} WITH timeout = 0ms")
    raises(WriteTimeout, lambda: as_web.execute(f"INSERT INTO {ks}.t (k) VALUES (1)"))
    raises(ReadTimeout, lambda: as_web.execute(f"SELECT k FROM {ks}.t WHERE k = 1"))
    session.execute(f"DROP SERVICE LEVEL {name}")
    session.execute(f"DROP ROLE {name}")
    as_web.execute(f"INSERT INTO {ks}.t (k) VALUES (1)")
    equal(len(list(as_web.execute(f"SELECT k FROM {ks}.t WHERE k = 1"))), 1)
    cluster.shutdown()
    admin.shutdown()


def cqlsh(node, command):
    def run(*words):
        return subprocess.run([*command, nodes.HOST, str(node.port), *words], capture_output=True, text=True, timeout=120)
    done = run("-u", "cassandra", "-p", "cassandra", "-e", "LIST USERS")
    holds(done.returncode == 0 and "cassandra" in done.stdout, done.stdout + done.stderr)
    done = run("-u", "cassandra", "-p", "wrong", "-e", "LIST USERS")
    holds(done.returncode != 0 and "password are incorrect" in done.stdout + done.stderr, done.stdout + done.stderr)


def run(profile, settings, checks):
    """Runs the checks against a node with these settings. Returns how many passed and how many failed."""
    flags = [word for setting in settings for word in ("--set", setting)]
    node = nodes.Messina(flags=["--smp", "2", *flags], profile=profile)
    passed = failed = 0
    try:
        node.start()
        for name, check, argument in checks:
            try:
                check(node, argument)
                passed += 1
                print(f"PASS login {name}", flush=True)
            except Exception as error:  # noqa: BLE001  (any failure is a verdict)
                failed += 1
                print(f"FAIL login {name}: {type(error).__name__}: {error}", flush=True)
    finally:
        node.remove()
    return passed, failed


def main():
    profile, command = sys.argv[1], sys.argv[2:]
    password = "authenticator=PasswordAuthenticator"
    checks = [(f"v{protocol} {check.__name__}", check, protocol) for protocol in (3, 4, 5) for check in (passwords, roles, levels)]
    checks += [("cqlsh", cqlsh, command)] if command else []
    guarded = [(f"v{protocol} permissions", permissions, protocol) for protocol in (3, 4, 5)]
    counts = [
        run(profile, [password], checks),
        run(profile, [password, "authorizer=CassandraAuthorizer", "dynamic_data_masking_enabled=true"], guarded),
    ]
    passed, failed = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
