#!/bin/bash
# Writes docs/operating/screens.md: what commands show in 80 columns, from a cluster that is hurt on purpose.
# Usage: RAMHOLD_BIN=target/release/ramhold testing/cluster/screens.sh > docs/operating/screens.md
set -u
cd "$(dirname "$0")/../.." || exit 2
bin=$(readlink -f "${RAMHOLD_BIN:-target/release/ramhold}")
work=$(mktemp -d)
port=${PORT:-27800}
export RAMHOLD_CLUSTER=127.0.0.1:$port NO_COLOR=1
ramhold() { "$bin" "$@"; }
another=
# Killed servers leave their buffers in memory.
clean() {
    for owner in /dev/shm/ramhold-*/*/owner; do
        case "$(cat "$owner" 2> /dev/null)" in "$work"/*) rm -rf "$(dirname "$owner")" ;; esac
    done
    rm -rf "$work"
}
trap '[ -n "$another" ] && kill $another; ramhold stop --dir "$work/cluster" > /dev/null; clean' EXIT

# Shows a command and what it says on a terminal.
screen() {
    echo; echo '```console'; echo "\$ ramhold $*"
    script -qec "stty cols 80; '$bin' $*" /dev/null < /dev/null | tr -d '\r'
    echo '```'
}
# Waits until status says something.
until_says() {
    for _ in $(seq 300); do
        ramhold status | grep -q "$1" && return
        sleep 0.1
    done
    echo "never: $1" >&2; exit 1
}
kill_server() {
    kill -9 "$(pgrep -f "ramhold server --dir $work/cluster/server-$1 ")"
}

mkdir -p "$work/tree/below"
for name in $(seq 40); do head -c $((name * 100)) LICENSE > "$work/tree/below/file-$name"; done
head -c 2000000 /dev/zero > "$work/tree/large.iso"
for name in 1 2 3 4 5; do ln -s below "$work/tree/link-$name"; done
ramhold dev --dir "$work/cluster" --detach --no-respawn --port "$port" --resp-port $((port + 90)) \
    --memory 128MiB > /dev/null || exit 1
ramhold table create notes > /dev/null

cat <<'END'
# What commands show

These screens have 80 columns. `testing/cluster/screens.sh` writes them from a real cluster of `ramhold dev` with five servers, which is hurt on purpose.
The first line of `status` is the verdict: `healthy`, `recovering` (the cluster repairs itself), `degraded` (everything is served, but something needs you) or `critical` (something is lost, refused or not served).
Each finding says what to do. `--wide` shows all figures, and `--json` is for programs.
END
screen import notes --dir "$work/tree" | sed "s|$work|/srv|"
screen scan notes --limit 5
echo; echo "## Healthy"
screen status
echo; echo "## One server is dead"
echo; echo "The other servers serve its data again. The status names the dead server as gone until it is back or an operator forgets it."
kill_server 3
until_says "gone since"
screen status
screen recoveries
screen recoveries last
echo; echo "## Fewer hosts than copies need"
echo; echo "Two of five servers are gone, and three are left. These are too few for three copies on other hosts. Writes are not acknowledged; reads go on."
kill_server 4
until_says "are blocked"
until_says "3 of 5 servers up"
for _ in $(seq 100); do ramhold status | grep -q "being recovered" || break; sleep 0.1; done
screen status
echo; echo "Writes go on when a server starts again on its directory, or when a server starts on another host. Forget a server that never returns."
for gone in s3 s4; do screen server forget "$gone"; done
"$bin" server --coordinator "$RAMHOLD_CLUSTER" --dir "$work/another" --bind 127.0.0.1:$((port + 9)) --label host=another \
    --memory 128MiB > /dev/null 2>&1 &
another=$!
until_says "healthy: 4 of 4"
screen status
echo; echo "## Full"
echo; echo "A server that is full of live data refuses writes. It still serves reads and removes."
"$bin" --timeout 60s bench kv --table fill --objects 6000 --value-bytes 100000 --seconds 1 > /dev/null 2>&1 &
bench=$!
until_says "is full"
screen status
kill "$bench" 2> /dev/null
