#!/bin/sh
# Asks Cassandra whether it reads what Messina writes; see run.py.
exec python3 "$(dirname "$0")/run.py" "$@"
