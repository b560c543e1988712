#!/bin/sh
# Builds the jar for a Cassandra node: cassandra/target/messina-cassandra-*.jar, with the native library of this machine's architecture.
# A jar for both architectures: build crates/ring on the other one, put libmessina_ring.so into cassandra/target/native/linux-x86_64 or
# linux-aarch64, and run this. --profile NAME: cargo's profile (default release).
set -eu
cd "$(dirname "$0")/.."
profile=release
[ "${1:-}" = --profile ] && profile=$2
case $(uname -m) in
    x86_64) platform=linux-x86_64 ;;
    aarch64) platform=linux-aarch64 ;;
    *) echo "build.sh: no native library for $(uname -m)" >&2; exit 1 ;;
esac
cargo build --profile "$profile" -p ring
folder=$profile
[ "$profile" = dev ] && folder=debug
mkdir -p "cassandra/target/native/$platform"
cp "${CARGO_TARGET_DIR:-target}/$folder/libmessina_ring.so" "cassandra/target/native/$platform/"
mvn -B -q -f cassandra/pom.xml package
ls cassandra/target/messina-cassandra-*.jar
