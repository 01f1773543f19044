#!/usr/bin/env bash
# Runs every fuzzer for SECONDS (default 30) from its corpus in the repository. Finds land in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}

scripts/install-packages.sh check
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers
mkdir -p build/fuzz/findings
for fuzzer in build/fuzz/tests/fuzz/fuzz_*; do
  name=${fuzzer##*/fuzz_}
  [[ -x $fuzzer && -d tests/fuzz/corpus/$name ]] || continue
  echo "-- $name"
  mkdir -p "build/fuzz/corpus/$name"
  "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" 2>&1 | tail -6
done
