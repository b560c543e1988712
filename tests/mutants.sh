#!/usr/bin/env bash
# Mutation testing: changes the code of a crate in one place at a time, and lists the changes that no test of that crate detects.
#
#   tests/mutants.sh                     iosched, reader, compaction and model, one after the other: hours
#   tests/mutants.sh iosched             this crate
#   tests/mutants.sh iosched --shard 0/8 an eighth of its mutants; arguments after the crate are passed to cargo mutants
#
# Needs cargo-mutants (cargo install cargo-mutants --locked). Only the tests of the crate run: a mutant that only tests of the engine
# would detect counts as missed. Unit tests come first, without optimization, since a rebuild takes a second; mutants that they miss meet the integration tests
# of the crate, if it has some, optimized as in development. Results are in target/mutation/CRATE/mutants.out: caught.txt (the second round's;
# previously_caught.txt has the first's), missed.txt, timeout.txt, unviable.txt. Survivors with their reasons: docs/mutants.md.
# Ends with 1 if a mutant was missed that the page does not explain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

UNIT_TIMEOUT_S=60          # unit tests of a crate take some seconds
INTEGRATION_TIMEOUT_S=300  # simulations of the disk among them
CRATES=(iosched reader compaction model)

crates=("${CRATES[@]}") rest=()
if [[ $# -gt 0 ]]; then
    crates=("$1")
    rest=("${@:2}")
fi

# A crate's tests are known to pass without mutants: ./test.sh tests.
round() { # CRATE TIMEOUT_S ARGUMENT...
    local status=0
    cargo mutants --package "$1" --jobs 1 --baseline skip --timeout "$2" --build-timeout 600 --cap-lints true --no-times --colors never \
        --output "$out" "${@:3}" || status=$?
    # 2: mutants were missed, 3: some did not end.
    [[ $status == 0 || $status == 2 || $status == 3 ]] || exit "$status"
}

unexplained=
for crate in "${crates[@]}"; do
    if [[ ! -d crates/$crate ]]; then
        echo "there is no crate $crate; there are: $(ls crates | tr '\n' ' ')"
        exit 2
    fi
    out=target/mutation/$crate
    rm -rf "$out" && mkdir -p "$out"
    begin=$SECONDS
    round "$crate" "$UNIT_TIMEOUT_S" --profile mutants --cargo-arg=--lib "${rest[@]}"
    if [[ -d crates/$crate/tests && -s $out/mutants.out/missed.txt ]]; then
        round "$crate" "$INTEGRATION_TIMEOUT_S" --iterate "${rest[@]}"
    fi
    count() { cat "$out/mutants.out/$1.txt" 2>/dev/null | wc -l; }
    echo "$crate: $(($(count previously_caught) + $(count caught))) caught, $(count unviable) unviable, $(count timeout) timeouts," \
        "$(count missed) missed, $((SECONDS - begin)) s"
    while IFS= read -r mutant; do
        # Line and column change with the code; the file and the change do not.
        if ! grep -qF "$(sed -E 's/:[0-9]+:[0-9]+: /: /' <<<"$mutant")" docs/mutants.md; then
            echo "NOT EXPLAINED in docs/mutants.md: $mutant"
            unexplained=yes
        fi
    done <"$out/mutants.out/missed.txt"
done
[[ -z $unexplained ]]
