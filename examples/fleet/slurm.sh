#!/usr/bin/env bash
# The recordings of a job, looked at by a Slurm array.
#
#   slurm.sh submit FOLDER RESULTS     submits four jobs, each after the one before
#
# FOLDER and RESULTS must be on storage that all nodes see, and vramscope on PATH there (or VRAMSCOPE its path).
# Set the partition and the like with SBATCH_PARTITION and Slurm's other variables.
set -euo pipefail
tasks=${TASKS:-16}
step=$1 recordings=$2 results=$3
vramscope=${VRAMSCOPE:-vramscope}

# What one task of an array writes. A task that is done again reads nothing twice.
shard() {
  local i=$SLURM_ARRAY_TASK_ID
  "$vramscope" fleet map --shard "$i/$tasks" --quiet --journal "$results/$step-$i.journal" "$@" "$recordings" -o "$results/$step-$i.json"
}

case $step in
submit)
  mkdir -p "$results"
  self=$(realpath "$0")
  common=(--parsable --output "$results/%x-%A_%a.log")
  array=(--array "0-$((tasks - 1))" --cpus-per-task 4 --mem 16G)
  map=$(sbatch "${common[@]}" "${array[@]}" --job-name map "$self" map "$recordings" "$results")
  search=$(sbatch "${common[@]}" --cpus-per-task 8 --mem 32G --job-name search --dependency "afterok:$map" "$self" search "$recordings" "$results")
  try=$(sbatch "${common[@]}" "${array[@]}" --job-name try --dependency "afterok:$search" "$self" try "$recordings" "$results")
  sbatch "${common[@]}" --job-name merge --dependency "afterok:$try" "$self" merge "$recordings" "$results"
  ;;
map)
  shard
  ;;
search)
  "$vramscope" fleet merge --quiet --search --summary "$results/all.json" "$results"/map-*.json
  ;;
try)
  shard --after "$results/all.json"
  ;;
merge)
  "$vramscope" fleet merge --json -o "$results/fleet.json" --html "$results/fleet.html" "$results/all.json" "$results"/try-*.json
  ;;
*)
  echo "slurm.sh: $step: there are submit, and what it submits" >&2
  exit 2
  ;;
esac
