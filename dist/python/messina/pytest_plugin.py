"""Fixtures for pytest; the wheel registers them."""

import itertools

import pytest

from .node import node

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def messina_node():
    """A node in memory for all tests of the run."""
    with node() as running:
        yield running


@pytest.fixture(scope="session")
def _messina_cluster(messina_node):
    cluster = pytest.importorskip("cassandra.cluster")
    policies = pytest.importorskip("cassandra.policies")
    profile = cluster.ExecutionProfile(load_balancing_policy=policies.RoundRobinPolicy())
    connected = cluster.Cluster([messina_node.contact_point], port=messina_node.port, protocol_version=5, execution_profiles={cluster.EXEC_PROFILE_DEFAULT: profile})
    yield connected
    connected.shutdown()


@pytest.fixture
def messina_session(_messina_cluster):
    """A session of cassandra-driver in a keyspace of this test, which is dropped after it."""
    keyspace = f"test_{next(_NUMBERS)}"
    session = _messina_cluster.connect()
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.set_keyspace(keyspace)
    yield session
    session.execute(f"DROP KEYSPACE {keyspace}")
    session.shutdown()
