#!/usr/bin/env bash
# The papers' full settings on a GPU, for MINUTES: one algorithm with one seed at a time, and none that has a CSV.
#
#   OUT=results benchmarks/gpu_session.sh MINUTES
#
# OUT (default: docs/papers/results) gets the CSVs; those of docs/papers/results are copied there first, so that they
# are not played again; nothing else may use OUT meanwhile. No run begins that would not fit, and after MINUTES what is
# still played is stopped and lost.
# A CSV of another version of its setting ends the session at once, unless FORCE is set, which plays it again.
# FEDLAPSE (default: .venv/bin/fedlapse), DEVICE (default: cuda), ROWS, SEEDS and CHANGES are for trials, as on a CPU;
# with CHANGES nothing is copied:
#   DEVICE=cpu SEEDS=1 ROWS=fedavg CHANGES="data.set=digits model=digits-cnn rounds.max=1" OUT=/tmp/x ... 5
# FEDLAPSE_COMMIT names the commit where there is no git.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?"MINUTES are missing"}
out=${OUT:-docs/papers/results}
mkdir -p "$out"
[ -n "${CHANGES:-}" ] || [ "$out" -ef docs/papers/results ] || cp -r docs/papers/results/. "$out"
names="fedcl-fig1-cifar-alpha1 fedcl-fig1-mnist-alpha1 fedcurv-table1-e10 fedmeta-table1"
code=0
# The last quarter of a minute is for stopping.
# shellcheck disable=SC2086
timeout --signal=INT --kill-after=15 "$(awk "BEGIN { print 60 * $minutes - 15 }")" \
    "${FEDLAPSE:-.venv/bin/fedlapse}" papers run $names ${CHANGES:-} --rows "${ROWS:-}" --seeds "${SEEDS:-3}" \
    --minutes "$(awk "BEGIN { print $minutes - 0.5 }")" --device "${DEVICE:-cuda}" --no-ledger ${FORCE:+--force} \
    --out "$out" || code=$?
rm -rf "$out/.running"
[ "$code" -eq 124 ] || exit "$code"
