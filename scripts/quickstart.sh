#!/usr/bin/env bash
# From a fresh Debian 12 to an answer: installs what is missing, builds, asks the embedded model a question and shows
# which experts answered.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-packages.sh build
cmake --preset release -DSWITCHYARD_TESTS=OFF -DSWITCHYARD_BENCH=OFF >/dev/null
cmake --build --preset release --target switchyard

build/release/src/cli/switchyard run models/tiny-qwen2-moe --prompt 'What does "island" mean?' --show-experts
