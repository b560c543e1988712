#!/bin/sh
# Runs run.py with the Python that has the driver; see there.
here=$(cd "$(dirname "$0")" && pwd) && export PYTHONDONTWRITEBYTECODE=1
python=$(cd "$here" && python3 -c 'import sys; sys.path.insert(0, "../drivers"); import setup; print(setup.python("cassandra"))') && exec "$python" "$here/run.py" "$@"
