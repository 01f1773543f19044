#!/usr/bin/env bash
# Installs the Debian packages that are missing.
#   build: what a release build needs      test: also the tests      check: also fuzzers and linters
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config ccache mold libfmt-dev nlohmann-json3-dev libcli11-dev
          libpcre2-dev libicu-dev)
[[ $1 == build ]] || packages+=(libgtest-dev libgmock-dev libbenchmark-dev liblzma-dev)
[[ $1 != check ]] || packages+=(clang libclang-rt-14-dev clang-format clang-tidy)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

echo "installing: ${missing[*]}" >&2
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
