#!/usr/bin/env bash
# The recordings of a job, looked at by N processes: what a cluster does, on one machine.
#
#   processes.sh N FOLDER RESULTS
#
# FOLDER has the recordings, RESULTS gets fleet.json, fleet.html and what the processes wrote. Ended in the middle and started again, it does
# not read again what it has read.
set -euo pipefail
n=$1 recordings=$2 results=$3
vramscope=${VRAMSCOPE:-vramscope}
mkdir -p "$results"

# each STEP ARGS... runs one process for each shard, and waits for all of them.
each() {
  local step=$1 failed=0 pids=()
  shift
  for ((i = 0; i < n; i++)); do
    "$vramscope" fleet map --shard "$i/$n" --workers 1 --journal "$results/$step-$i.journal" "$@" "$recordings" -o "$results/$step-$i.json" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
  done
  return "$failed"
}

parts() { # the files of a step
  for ((i = 0; i < n; i++)); do
    echo "$results/$1-$i.json"
  done
}

each map
mapfile -t files < <(parts map)
"$vramscope" fleet merge --search --summary "$results/all.json" --journal "$results/search.journal" -q "${files[@]}"
each try --after "$results/all.json"
mapfile -t files < <(parts try)
"$vramscope" fleet merge --json -o "$results/fleet.json" --html "$results/fleet.html" "$results/all.json" "${files[@]}"
