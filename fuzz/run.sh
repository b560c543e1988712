#!/usr/bin/env bash
# Builds all fuzz targets once, runs each for a given number of seconds of its own CPU time, and prints the coverage of each.
#
#   fuzz/run.sh                              every target, 60 CPU seconds each
#   fuzz/run.sh --seconds 600 values records these, 600 CPU seconds each
#   fuzz/run.sh --list                       names of all targets
#
# Needs rustup and a C++ compiler. The pinned toolchain builds the targets: its AddressSanitizer and the coverage passes of LLVM are
# switched on as cargo-fuzz does it, so neither nightly nor cargo-fuzz is needed. (cargo fuzz run TARGET --features libfuzzer works too.)
#
# New inputs are stored in fuzz/corpus/TARGET, failing ones in fuzz/artifacts/TARGET; neither is in git. The exit code is 1 if a target
# failed. To run a failing input again: fuzz/run.sh --build-only; then run the program that it prints, with the file as argument.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

SECONDS_EACH=60
BUILD_ONLY=
BUILD=yes
LOGS=logs
targets=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --seconds) SECONDS_EACH=$2; shift ;;
        --logs) LOGS=$2; shift ;;
        --build-only) BUILD_ONLY=yes ;;
        --no-build) BUILD= ;; # they are as they are to be
        --list) for file in fuzz_targets/*.rs; do basename "$file" .rs; done; exit 0 ;;
        -*) echo "there is no option $1; see the head of $0"; exit 2 ;;
        *) targets+=("$1") ;;
    esac
    shift
done
if [[ ${#targets[@]} -eq 0 ]]; then
    for file in fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
    if [[ ! -f fuzz_targets/$target.rs ]]; then
        echo "there is no target $target; $0 --list names them"
        exit 2
    fi
done

TRIPLE=$(rustc -vV | sed -n 's/^host: //p')
# Their flags differ from those of other builds, so they have a separate target directory.
PROGRAMS=target/$TRIPLE/fuzz
PASSES="-sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table -sanitizer-coverage-trace-compares"
FLAGS="-Zsanitizer=address -Cpasses=sancov-module --cfg fuzzing -Ccodegen-units=16"
for pass in $PASSES; do FLAGS+=" -Cllvm-args=$pass"; done
# The sanitizers are not part of stable Rust.
[[ -z $BUILD ]] || RUSTC_BOOTSTRAP=1 RUSTFLAGS=$FLAGS cargo build -p fuzz --bins --features libfuzzer --profile fuzz --target "$TRIPLE" --target-dir target
if [[ -n $BUILD_ONLY ]]; then
    echo "the targets are in $PWD/$PROGRAMS"
    exit 0
fi

mkdir -p "$LOGS"
# libdeflate has a constant of one name in two files. Leaks are not checked, because threads that end with the process would be reported; an allocation of 512 MiB for an input of some kilobytes is a fault.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0
failed=()
printf '%-20s %12s %9s %9s %7s %8s  %s\n' target executions edges features corpus cpu_s result
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    options=(-timeout=60 -rss_limit_mb=3072 -malloc_limit_mb=512 -max_len=65536 -print_final_stats=1 -artifact_prefix="artifacts/$target/")
    [[ $target != cql_* && $target != schema_file ]] || options+=(-dict=seeds/cql.dict)
    directories=("corpus/$target")
    [[ ! -d seeds/$target ]] || directories+=("seeds/$target")
    log=$LOGS/$target.log
    : >"$log"
    # On a busy machine wall time says little: rounds continue until the target has used its CPU time.
    used=0 executions=0 result=clean
    while (( used < SECONDS_EACH )); do
        set +e
        before=$(awk '{print int(($16 + $17) / 100)}' /proc/$$/stat)
        nice -n 19 "$PROGRAMS/$target" "${options[@]}" -max_total_time=$((SECONDS_EACH - used)) "${directories[@]}" >>"$log" 2>&1
        status=$?
        after=$(awk '{print int(($16 + $17) / 100)}' /proc/$$/stat)
        set -e
        executions=$((executions + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1 | grep . || echo 0)))
        used=$((used + after - before))
        (( after > before )) || used=$((used + 1))
        if (( status != 0 )); then
            result="FAILED, status $status: artifacts/$target, $log"
            failed+=("$target")
            break
        fi
    done
    last=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -1 || true)
    field() { sed -n "s/.* $1: \([^ ]*\).*/\1/p" <<<"$last"; }
    printf '%-20s %12d %9s %9s %7s %8d  %s\n' "$target" "$executions" "$(field cov)" "$(field ft)" "$(field corp)" "$used" "$result"
done
if [[ ${#failed[@]} -gt 0 ]]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
