#!/usr/bin/env bash
# Fails when a file of src/ includes a header that the table of folders in ARCHITECTURE.md does not allow it to use.
# A folder goes by the last part of its path: src/backend/cpu is `cpu`. Names in the last column that are no folder
# are libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016  # the dollar signs are awk's
git grep -n --untracked '^#include "' -- src | awk '
  # The folder, listed in the table, that a path under src/ lies in.
  function folder_of(path) {
    while (path != "" && !(path in name_of)) sub(/\/?[^\/]*$/, "", path)
    return path
  }
  function may_use(user, used,    i, count, direct) {
    if (user == used) return 1
    count = split(uses[user], direct, /, */)
    for (i = 1; i <= count; ++i) if (direct[i] in uses && may_use(direct[i], used)) return 1
    return 0
  }
  function last_part(path) { sub(/.*\//, "", path); return path }

  FILENAME == "ARCHITECTURE.md" {
    if (split($0, column, / *\| */) < 5 || column[2] !~ /^`src\/.*\/`$/) next
    path = substr(column[2], 6, length(column[2]) - 7)
    name_of[path] = last_part(path)
    uses[last_part(path)] = column[4]
    next
  }
  {
    split($0, part, ":")
    split($0, quoted, "\"")
    user = folder_of(substr(part[1], 5))
    used = folder_of(quoted[2])
    ++includes
    if (user != "" && used != "" && may_use(name_of[user], name_of[used])) next
    printf "%s:%s: src/%s may not use %s (see the table of folders in ARCHITECTURE.md)\n", part[1], part[2], user,
           quoted[2]
    bad = 1
  }
  END {
    if (includes == 0) { print "no include was checked: has the table in ARCHITECTURE.md moved?"; bad = 1 }
    exit bad
  }' ARCHITECTURE.md -
