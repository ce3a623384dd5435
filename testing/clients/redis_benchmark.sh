#!/usr/bin/env bash
# redis-benchmark ends well and counts everything, with and without pipelines.
set -euo pipefail
first=${RAMHOLD_RESP%%,*}
run() { redis-benchmark -h "${first%:*}" -p "${first##*:}" --csv "$@"; }
for options in "-c 1 -n 1000" "-c 50 -n 10000" "-c 50 -P 16 -n 20000"; do
  # shellcheck disable=SC2086
  output=$(run -t ping,set,get,incr,mset -r 1000 -d 100 $options 2>&1) || { echo "failed: $output"; exit 1; }
  for test in PING_MBULK SET GET INCR MSET; do
    grep -q "^\"$test" <<<"$output" || { echo "failed: no $test in $output"; exit 1; }
  done
  ! grep -qi 'error' <<<"$output" || { echo "failed: $output"; exit 1; }
done
echo "redis-benchmark: ok"
