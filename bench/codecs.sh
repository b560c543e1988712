#!/usr/bin/env bash
# What does each codec cost and save, at each chunk length, on real text? And how much is read from disk for one small partition?
#
# The text is the descriptions of Debian's packages as apt has them. Figures go to bench/results/{codecs,chunks}.ndjson, plots to bench/results/codecs/
# and bench/results/chunks.svg. About ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p .cache/bench
text=.cache/bench/packages.txt
[ -s "$text" ] || { apt-cache dumpavail > "$text.part" && mv "$text.part" "$text"; }
[ "$(stat -c %s "$text")" -gt 10000000 ] || { echo "apt has no package lists: run apt-get update, remove $text, try again" >&2; exit 1; }
cargo run --profile dist --locked -p bench -- codecs --text "$text" "$@"
cargo run --profile dist --locked -p bench -- chunks
