#!/bin/sh
# How many writes and point reads a second does the server do over CQL, on one core, beside Apache Cassandra 5.0 on the same core?
# Sets up both sides and the load generator (`latte`, compiled the first time: minutes), prints a table, and appends a line per figure to
# bench/results/cql-vs-cassandra.ndjson. Options: see cql.py --help. Needs two cores and an otherwise idle machine.
cd "$(dirname "$0")/.." && PYTHONDONTWRITEBYTECODE=1 exec python3 bench/cql.py "$@"
