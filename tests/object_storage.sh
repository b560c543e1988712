#!/usr/bin/env bash
# Backups in object storage, against a local server of S3 with injected errors: installs moto's server from PyPI into target/moto,
# builds the program with the feature object-storage and runs its test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
if [[ ! -x $TARGET/moto/bin/moto_server ]]; then
    python3 -m venv "$TARGET/moto"
    "$TARGET/moto/bin/pip" install --quiet 'moto[server]==5.*'
fi
MOTO_SERVER="$TARGET/moto/bin/moto_server" cargo test -p messina --features object-storage --test it backup_s3
