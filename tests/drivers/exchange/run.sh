#!/bin/sh
# Runs run.py with the Python that has the driver; see there.
cd "$(dirname "$0")" && export PYTHONDONTWRITEBYTECODE=1
python=$(python3 -c 'import sys; sys.path.insert(0, ".."); import setup; print(setup.python("cassandra"))') && exec "$python" run.py "$@"
