#!/usr/bin/env bash
# Installs the wheel in a fresh virtual environment and runs the tests of an example application with it: `dist/tests/wheel.sh WHEEL`.
# The first run fetches pytest and cassandra-driver by pip.
set -euo pipefail
WHEEL=$(realpath "$1")
HERE=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install -q --disable-pip-version-check --prefer-binary "$WHEEL" pytest cassandra-driver
[[ $("$WORK/venv/bin/messina" version) == messina\ * ]] || { echo "FAIL wheel: messina is not on the path"; exit 1; }
cp "$HERE/example_app.py" "$HERE/test_example_app.py" "$WORK/"
cd "$WORK"
# Before the measurement the files of the driver are compiled.
"$WORK/venv/bin/python" -c "import cassandra.cluster, pytest"
BEGIN=$(date +%s%N)
"$WORK/venv/bin/pytest" -q -p no:cacheprovider || { echo "FAIL wheel: the tests of the example"; exit 1; }
echo "PASS wheel: the tests of the example took $((($(date +%s%N) - BEGIN) / 1000000)) ms, with the start of the node"
