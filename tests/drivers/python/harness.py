"""What the Python checks share: their registry, a connection for a protocol version and compression, and the verdict lines.

A check is a function marked with `@check`; it gets a `Context` and fails by raising. Each prints `PASS name` or `FAIL name: why`.
"""

import logging
import time
import traceback

from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import RoundRobinPolicy
from cassandra.query import tuple_factory

CHECKS = []


def check(function):
    """Registers a check; its name is the function's."""
    CHECKS.append(function)
    return function


class Failed(Exception):
    """An answer that is not the one that was due."""


def equal(got, expected, what=""):
    if got != expected:
        raise Failed(f"{what}{': ' if what else ''}expected {shortened(expected)}, got {shortened(got)}")


def holds(condition, what):
    if not condition:
        raise Failed(what)


def raises(kind, action, *says):
    """`action` fails with exactly this class of error, and its text has all of `says`; gives the error."""
    try:
        got = action()
    except Exception as error:  # noqa: BLE001  (the class is what is judged)
        if not isinstance(error, kind):
            raise Failed(f"expected {kind.__name__}, got {type(error).__name__}: {shortened(error)}") from None
        for word in says:
            holds(word.lower() in str(error).lower(), f"{kind.__name__} does not say {word!r}: {shortened(error)}")
        return error
    raise Failed(f"expected {kind.__name__}, got an answer: {shortened(list(got) if got is not None else None)}")


def eventually(condition, what, within_s=10):
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"not within {within_s} s: {what}")
        time.sleep(0.02)


def shortened(value, limit=400):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit // 2] + " ... " + text[-limit // 2 :]


class Context:
    """A connection and a keyspace of its own, which is the session's default."""

    def __init__(self, host, port, protocol, compression, keyspace):
        self.host, self.port, self.protocol, self.compression, self.keyspace = host, port, protocol, compression, keyspace
        self.cluster = self.new_cluster()
        self.session = self.cluster.connect()
        self.session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
        self.session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        self.session.set_keyspace(keyspace)
        self._tables = 0

    def new_cluster(self, **options):
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), row_factory=tuple_factory, request_timeout=60)
        return Cluster([self.host], port=self.port, protocol_version=self.protocol, compression=self.compression or False,
                       execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=30, control_connection_timeout=30,
                       max_schema_agreement_wait=30, idle_heartbeat_interval=0, schema_event_refresh_window=0, **options)

    def rows(self, query, *values, **options):
        """All rows of a query, as tuples, over as many pages as it takes."""
        return list(self.session.execute(query, values or None, **options))

    def run(self, *queries):
        for query in queries:
            self.session.execute(query)

    def table(self, columns, options=""):
        """Creates a table under a new name, which it gives."""
        self._tables += 1
        name = f"t{self._tables}"
        self.session.execute(f"CREATE TABLE {name} ({columns}) {options}")
        return name

    def close(self):
        self.session.execute(f"DROP KEYSPACE {self.keyspace}")
        self.cluster.shutdown()


def run_all(context, label, wanted):
    """Runs the registered checks whose name has one of `wanted`; gives how many passed and failed."""
    passed = failed = 0
    for function in CHECKS:
        if wanted and not any(word in function.__name__ for word in wanted):
            continue
        name = f"{label} {function.__name__}"
        begin = time.monotonic()
        try:
            function(context)
        except Exception as error:  # noqa: BLE001  (any failure is a verdict)
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {shortened(error)}", flush=True)
            if not isinstance(error, Failed):
                frames = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
                print(f"     at {' '.join(frames[:4])}", flush=True)
        else:
            passed += 1
            print(f"PASS {name} ({time.monotonic() - begin:.1f} s)", flush=True)
    return passed, failed


logging.getLogger("cassandra").setLevel(logging.CRITICAL)
