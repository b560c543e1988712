#!/bin/sh
# Builds and runs the comparison of the storage engine with RocksDB; arguments go to `bench-peers engine`.
# Needs Debian's packages (installed here if this runs as root): RocksDB is built from source, its binding is made
# by libclang. The first build takes 15 minutes of a core or more.
set -eu
cd "$(dirname "$0")/peers"
missing=""
for package in g++ libclang-dev; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "install first:$missing" >&2
        exit 1
    fi
    apt-get update
    # shellcheck disable=SC2086 # a list of words
    apt-get install -y --no-install-recommends $missing
fi
# Cargo reads .cargo/config.toml of the directory it runs in: the compiler's options for RocksDB are there.
cargo build --release --locked
binary="${CARGO_TARGET_DIR:-target}/release/bench-peers"
binary=$(realpath "$binary")
cd ../..
exec "$binary" engine --results bench/results/engine-vs-rocksdb.ndjson "$@"
