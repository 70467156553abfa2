#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: go test -fuzz takes one at a time.
#
#   FUZZTIME     for each target, as go test's -fuzztime takes it (default 10s)
#   FUZZBUDGET   seconds after which no further target is started (default: no end)
#   FUZZPATTERN  regular expression that a target's name must match (default: all)
#
# An input that breaks something is left under testdata/fuzz of its package, where every later go test
# runs it again.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZTIME:-10s}
budget=${FUZZBUDGET:-0}
pattern=${FUZZPATTERN:-.}

# Lines "folder target". Folders with a go.mod of their own are other modules.
targets() {
  local file dir up
  grep -rl --include='*_test.go' --exclude-dir=testdata --exclude-dir='.?*' -E '^func Fuzz[A-Z0-9_]' . | sort |
    while read -r file; do
      dir=${file%/*}
      up=$dir
      while [ "$up" != . ] && [ ! -e "$up/go.mod" ]; do up=${up%/*}; done
      [ "$up" = . ] || continue
      sed -nE "s|^func (Fuzz[A-Za-z0-9_]*)\(.*|$dir \1|p" "$file"
    done
}

start=$SECONDS
ran=0 left=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r dir name; do
  [[ $name =~ $pattern ]] || continue
  if [ "$budget" -gt 0 ] && [ $((SECONDS - start)) -ge "$budget" ]; then
    left=$((left + 1))
    continue
  fi
  echo "== $dir $name"
  if ! go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$dir" 2>&1 | tee "$log"; then
    # Go sometimes counts it as a failure that a worker was still busy when the time was up.
    if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
      echo "   nothing found; a worker was stopped when the time was up"
    else
      failed=$((failed + 1))
    fi
  fi
  ran=$((ran + 1))
done < <(targets)
echo "fuzzed $ran targets for $time each: $failed failed, $left not reached in the ${budget}s given" | sed 's/, 0 not reached.*//'
[ "$failed" = 0 ]
