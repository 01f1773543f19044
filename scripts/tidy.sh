#!/usr/bin/env bash
# clang-tidy with the short list of .clang-tidy over src/, or over the files given.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset dev >/dev/null
if (($#)); then files=("$@"); else mapfile -t files < <(git ls-files 'src/*.cpp'); fi
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy -p build/dev --quiet 2> >(grep -v "warnings generated" >&2)
