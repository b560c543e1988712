#!/usr/bin/env bash
# Every test of the project, cheap ones first. Stops at the first failure and names it.
#
#   ./test.sh                all steps, in the order below
#   ./test.sh fmt clippy     only these
#
# Needs Debian with rustup. Installs missing Debian packages (C compiler, Python 3, a JDK from 11 to 17, Maven, Go), as root or by sudo.
# The first run downloads crates, Cassandra's jars by Maven, and the drivers; later runs need no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

ALL_STEPS=(tools fmt clippy doc deny tests simulation simulation_server same_seed fresh_seeds broken_promises sigkill fuzz_seeds peers_harness peers_write peers_read exchange drivers real_input)
# Run only when named.
OTHER_STEPS=(differential object_storage page ring)

# --- the steps ------------------------------------------------------------------------------------------------------------------

tools() { # installs and prints the tools that the other steps need
    have cc || install build-essential || return 1
    have python3 || install python3 || return 1
    if ! have cargo; then
        echo "cargo is missing: install Rust by rustup (https://rustup.rs; Debian 13: apt-get install rustup), then run this again"
        return 1
    fi
    # rustup installs what rust-toolchain.toml names; without rustup, cargo must be as new as Cargo.toml asks.
    if have rustup; then
        rustup show active-toolchain || rustup toolchain install || return 1
    fi
    cargo --version && cargo fmt --version && cargo clippy --version || return 1
    have mvn || install maven || return 1
    find_java >/dev/null 2>&1 || install openjdk-17-jdk-headless || install default-jdk-headless || return 1
    find_java || return 1
    echo "free disk space: $(df -h --output=avail . | tail -1 | tr -d ' '); all steps from nothing take about 20 GB"
}

fmt() { # layout of the code; correct it with: cargo fmt --all
    cargo fmt --all --check
}

clippy() { # lints, and the bans of clippy.toml
    cargo clippy --workspace --all-targets -- -D warnings
}

doc() { # builds the documentation; a broken link is an error
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
}

deny() { # licences, advisories, duplicates and sources of every crate, as deny.toml has it
    install_cargo_deny || return 1
    local manifest passed=yes advisories=advisories
    # Without the database of advisories the other checks run, and the step prints that advisories were not checked.
    if ! cargo deny fetch db >"$TARGET/deny-fetch.log" 2>&1; then
        advisories=
        echo "NOT CHECKED: advisories (faults, unmaintained crates); the database cannot be fetched: $TARGET/deny-fetch.log"
    fi
    for manifest in Cargo.toml tests/drivers/rust/Cargo.toml; do
        echo "--- $manifest"
        cargo deny --manifest-path "$manifest" --config "$PWD/deny.toml" check --hide-inclusion-graph licenses bans sources $advisories || passed=
    done
    [[ -n $passed ]]
}

tests() { # unit tests, laws, examinations, golden files, fuzz targets on their seeds, I/O back ends, rules of the repository
    cargo test --workspace 2>&1 | tee "$TEST_LOG"
}

# The steps of the simulation and of SIGKILL run development builds: their overflow checks and debug assertions are on, and a
# release build of these crates takes longer than these seeds. The step tests builds them; `cargo build -p sim` would build
# many crates again, because other packages ask for other features of their dependencies.
built() { # builds a program of a package, unless the step tests has done so
    [[ " ${steps[*]} " == *" tests "* ]] || cargo build -p "$1" --bin "$2"
}

sim() {
    built sim sim && "$TARGET/debug/sim" "$@"
}

simulation() { # 500 seeds of random operations with crashes at any I/O operation, compared with a sorted map; a failure prints its seed
    sim --seeds 0..500
}

simulation_server() { # 200 seeds of clients on simulated connections to a node with crashes and faults; a failure prints its seed
    sim --server --seeds 0..200
}

same_seed() { # two runs of one seed must end in the same state; otherwise the simulator has a fault
    sim --twice --seed 1
}

fresh_seeds() { # two random seeds
    local seed
    for _ in 1 2; do
        seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
        echo "fresh seed $seed; to repeat it: cargo run -p sim --bin sim -- --seeds $seed..$((seed + 1))"
        sim --seeds "$seed..$((seed + 1))" || return 1
    done
}

broken_promises() { # breaks each promise on purpose; its checker in the simulation must detect it
    # Release builds cannot break a promise.
    sim --break all && sim --break all --server
}

object_storage() { # backups to a local server of S3 that fails and is slow; installs it from PyPI
    tests/object_storage.sh
}

sigkill() { # kills a server under every kind of write 50 times, the engine alone 20 times; acknowledged writes must survive
    built messina messina && built sim ledger || return 1
    local ledger=$TARGET/debug/ledger
    "$ledger" --kills 50 && "$ledger" --engine --kills 20 || return 1
    if "$ledger" --kills 1 --break lose-one >"$TARGET/ledger-broken.log" || grep "NOT NOTICED" "$TARGET/ledger-broken.log"; then
        echo "a write that was never made was not missed: $TARGET/ledger-broken.log"
        return 1
    fi
}

fuzz_seeds() { # each fuzz target for 5 CPU seconds from its seeds, with AddressSanitizer (more: fuzz/run.sh --seconds N)
    fuzz/run.sh --seconds 5
}

peers_harness() { # tests the peer tests: SSTables of Cassandra pass, damaged ones fail
    python3 tests/peers/selftest.py
}

peers_write() { # SSTables of random schemas and data, read by the tools of Cassandra 4.1 and 5.0
    tests/peers/run.sh --no-selftest && tests/peers/run.sh --no-selftest --cassandra 5.0
}

peers_read() { # large SSTables (nb, oa, da) that Cassandra 4.1 and 5.0 write here, read in every way
    python3 tests/peers/read.py
}

exchange() { # exchanges SSTables between running servers of Messina and Cassandra, in both directions
    tests/drivers/exchange/run.sh --cassandra 4.1 && tests/drivers/exchange/run.sh --cassandra 5.0-latest
}

page() { # the page of a node in Chromium: figures, layout, keys, console; installs Chromium
    built messina messina || return 1
    BINARY_UNDER_TEST=$(realpath "$TARGET/debug/messina") tests/page/run.sh
}

ring() { # Messina's compaction strategies inside one and three nodes of Cassandra 5.0, beside Cassandra's own
    tests/ring/run.sh
}

drivers() { # Python (protocol 3, 4, 5), cqlsh, Java, Go and Rust drivers against the server
    tests/drivers/run.sh
}

differential() { # some 3,000 statements, scripts and random ones of a fixed seed, executed by Cassandra 5.0 too; every answer must agree or be explained
    tests/differential/run.sh --statements 1000 --seed 1 && python3 tests/differential/compatibility.py
}

real_input() { # 15,000 Debian packages, with a SIGKILL during the load, compared by five drivers (all 60,000: tests/drivers/debian/run.sh --all)
    tests/drivers/debian/run.sh
}

# --- running the steps -----------------------------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

install() {
    local sudo=()
    [[ $(id -u) -eq 0 ]] || sudo=(sudo)
    if ! have apt-get; then
        echo "$1 is missing and there is no apt-get; install what this system calls it, then run this again"
        return 1
    fi
    echo "installing $1"
    "${sudo[@]}" apt-get update -qq && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
}

CARGO_DENY=0.20.2

install_cargo_deny() { # its binary release, which takes seconds, or if that is not available a build from crates.io, which takes minutes
    have cargo-deny && [[ $(cargo deny --version) == "cargo-deny $CARGO_DENY" ]] && return
    local name=cargo-deny-$CARGO_DENY-$(uname -m)-unknown-linux-musl
    local bin=${CARGO_HOME:-$HOME/.cargo}/bin
    local from=https://github.com/EmbarkStudios/cargo-deny/releases/download/$CARGO_DENY/$name.tar.gz
    if have curl && curl -fsSL --connect-timeout 10 "$from" | tar -xz -C "$bin" --strip-components=1 "$name/cargo-deny"; then
        return
    fi
    echo "$from cannot be had; building cargo-deny $CARGO_DENY"
    cargo install cargo-deny --locked --debug --version "=$CARGO_DENY"
}

find_java() { # the JDK that tests/peers will use; fails with the reason if there is no suitable one
    PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys
sys.path.insert(0, "tests/peers")
import toolchain
try:
    print("JDK %s (version %s)" % toolchain.find_java())
except toolchain.Trouble as trouble:
    sys.exit(str(trouble))'
}

TARGET=${CARGO_TARGET_DIR:-target}
mkdir -p "$TARGET"
TEST_LOG=$TARGET/cargo-test.log
steps=("${@:-${ALL_STEPS[@]}}")
for step in "${steps[@]}"; do
    if [[ " ${ALL_STEPS[*]} ${OTHER_STEPS[*]} " != *" $step "* ]]; then
        echo "there is no step $step; there are: ${ALL_STEPS[*]} ${OTHER_STEPS[*]}"
        exit 2
    fi
done

cpu_s() { # CPU seconds of all ended child processes
    awk '{ print int(($16 + $17) / 100) }' "/proc/$$/stat"
}

times=()
for step in "${steps[@]}"; do
    echo
    echo "=== $step: $(sed -n "s/^$step() { # //p" "$0" | head -1)"
    begin=$SECONDS begin_cpu_s=$(cpu_s)
    if ! "$step"; then
        echo
        echo "FAILED: $step, after $((SECONDS - begin)) s; run it alone: ./test.sh $step"
        exit 1
    fi
    used_cpu_s=$(($(cpu_s) - begin_cpu_s))
    times+=("$(printf '%6d s %6d s of CPU  %s' $((SECONDS - begin)) "$used_cpu_s" "$step")")
    echo "=== $step: passed in $((SECONDS - begin)) s, with $used_cpu_s s of CPU time"
done

echo
echo "all steps passed in $SECONDS s, with $(cpu_s) s of CPU time:"
printf '%s\n' "${times[@]}"
# Repeats the last lines of cargo, so that they are not far above.
if [[ " ${steps[*]} " == *" tests "* ]]; then
    grep '^test result:' "$TEST_LOG"
fi
