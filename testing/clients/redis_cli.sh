#!/usr/bin/env bash
# A session of redis-cli: every line is compared with what Redis answers.
set -euo pipefail
first=${RAMHOLD_RESP%%,*}
last=${RAMHOLD_RESP##*,}
prefix="cli:$$"
cli() { redis-cli -h "${first%:*}" -p "${first##*:}" "$@"; }
other() { redis-cli -h "${last%:*}" -p "${last##*:}" "$@"; }
expect() {
  local expected=$1 got
  shift
  got=$("$@" 2>&1) || { echo "failed: $*: $got"; exit 1; }
  [ "$got" == "$expected" ] || { printf 'failed: %s\n expected: %q\n got:      %q\n' "$*" "$expected" "$got"; exit 1; }
}
expect PONG cli PING
expect OK cli SET "$prefix:a" "hello world"
expect "hello world" other GET "$prefix:a"
expect '"hello world"' cli --no-raw GET "$prefix:a"
expect '(nil)' cli --no-raw GET "$prefix:none"
expect '(integer) 11' cli --no-raw STRLEN "$prefix:a"
expect '(error) ERR value is not an integer or out of range' cli --no-raw INCR "$prefix:a"
expect "(error) ERR wrong number of arguments for 'get' command" cli --no-raw GET
expect '(nil)' cli --no-raw -3 GET "$prefix:none"
expect OK cli -n 3 SET "$prefix:a" three
expect three other -n 3 GET "$prefix:a"
expect "hello world" cli GET "$prefix:a"
printf 'bytes \0 \r\n \377' | cli -x SET "$prefix:binary" >/dev/null
expect 12 cli STRLEN "$prefix:binary"
expect '"bytes \x00 \r\n \xff"' cli --no-raw GET "$prefix:binary"
# Commands on standard input, on one connection: a transaction.
expect $'OK\nQUEUED\nQUEUED\n1\n2' cli <<<"MULTI
INCR $prefix:n
INCR $prefix:n
EXEC"
expect $'OK\nQUEUED\nOK' cli <<<"MULTI
SET $prefix:n 9
DISCARD"
expect 2 cli GET "$prefix:n"
# Mass insertion: bytes of the protocol through a pipe.
for n in $(seq 1000); do
  key="$prefix:pipe:$n"
  printf '*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%d\r\n' ${#key} "$key" ${#n} "$n"
done | cli --pipe | grep -q 'errors: 0, replies: 1000' || { echo "failed: --pipe"; exit 1; }
[ "$(cli --scan --pattern "$prefix:pipe:*" | sort -u | wc -l)" == 1000 ] || { echo "failed: --scan"; exit 1; }
expect 77 other GET "$prefix:pipe:77"
expect OK cli SET "$prefix:gone" x PX 100000
[ "$(cli TTL "$prefix:gone")" -gt 90 ] || { echo "failed: TTL"; exit 1; }
expect 1 cli DEL "$prefix:gone"
cli INFO memory | grep -q '^used_memory:' || { echo "failed: INFO memory"; exit 1; }
echo "redis-cli: ok"
