#!/usr/bin/env bash
# Detects undefined behaviour in unsafe code: by Miri where it can run, by AddressSanitizer where system calls or C code prevent Miri.
#
#   tests/memory_safety.sh            both, about 20 minutes on two cores
#   tests/memory_safety.sh miri       the runtime on its simulated back end: buffers, queues, tasks, sockets, pinned futures
#   tests/memory_safety.sh asan       the runtime on io_uring, Linux AIO and threads; SSTables with their C codecs; the commit log's memory
#
# Needs rustup; installs the nightly toolchain with miri and rust-src. Not part of ./test.sh: nightly changes every day.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rustup toolchain install nightly --profile minimal --component miri,rust-src >/dev/null
rustc +nightly --version

miri() {
    # cpu:: and sim:: of the unit tests loop for long and have no unsafe code.
    MIRIFLAGS="-Zmiri-disable-isolation" CARGO_TARGET_DIR=target/miri \
        cargo +nightly miri test -p runtime --lib -- --skip cpu:: --skip sim::
    # By Tree Borrows, because async-task's spawn_local makes a shared reference to a task that holds its own borrows (docs/campaigns.md).
    # Tests of vanished peers wait for an hour of virtual time.
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows" CARGO_TARGET_DIR=target/miri \
        cargo +nightly miri test -p runtime --test it -- sim:: net_sim:: --skip a_peer_that_vanish
}

asan() {
    # Leaks are not checked: mimalloc and threads that end with the process would be reported.
    RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=target/asan \
        cargo +nightly test --target x86_64-unknown-linux-gnu -p runtime
    RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=target/asan \
        cargo +nightly test --target x86_64-unknown-linux-gnu -p sstable -- codec read::
    RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=target/asan \
        cargo +nightly test --target x86_64-unknown-linux-gnu -p engine --lib
}

steps=("${@:-miri}")
[[ $# -gt 0 ]] || steps=(miri asan)
for step in "${steps[@]}"; do
    case "$step" in
        miri | asan) "$step" ;;
        *) echo "there is no step $step; there are: miri asan"; exit 2 ;;
    esac
done
