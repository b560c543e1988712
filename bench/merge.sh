#!/bin/sh
# How fast are two and four SSTables merged on one core, beside Cassandra 5.0's major compaction of the same SSTables and RocksDB's of the same rows?
# Sets everything up (RocksDB is compiled the first time: a quarter of an hour), prints a table, and appends a line per figure to
# bench/results/merge.ndjson. Options: see merge.py --help. Needs two cores and an otherwise idle machine.
cd "$(dirname "$0")/.." && PYTHONDONTWRITEBYTECODE=1 exec python3 bench/merge.py "$@"
