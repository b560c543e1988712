"""Tests with the fixtures of the wheel."""

import messina
import pytest

import example_app


@pytest.fixture
def orders(messina_session):
    example_app.create(messina_session)
    return messina_session


def test_an_order_is_placed_once(orders):
    assert example_app.place(orders, "grace", 1, {"log book": 1})
    assert not example_app.place(orders, "grace", 1, {"moth": 1})
    assert example_app.total(orders, "grace") == 1


def test_each_test_has_a_keyspace_of_its_own(orders):
    assert example_app.total(orders, "grace") == 0
    example_app.place(orders, "ada", 1, {"card": 3})
    example_app.place(orders, "ada", 2, {"card": 4})
    assert example_app.total(orders, "ada") == 7


def test_a_node_without_a_driver(messina_node):
    assert "Test Cluster" in messina_node.cql("SELECT cluster_name FROM system.local")


def test_data_in_a_directory_stay(tmp_path):
    create = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; CREATE TABLE k.t (a int PRIMARY KEY); INSERT INTO k.t (a) VALUES (7)"
    with messina.node(data_dir=tmp_path / "data") as node:
        node.cql(create)
    with messina.node(data_dir=tmp_path / "data") as node:
        assert "7" in node.cql("SELECT a FROM k.t")


def test_a_wrong_option_says_why():
    with pytest.raises(messina.NodeError, match="commitlog_sync"):
        messina.node(options={"commitlog_sync": "never"}).start()
