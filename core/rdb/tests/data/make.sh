#!/usr/bin/env bash
# Makes the dump files beside this script with the redis-server on the search path (7.0.15 made those that are kept).
# The limits are small, so that few elements bring out every encoding.
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
port=${PORT:-17999}
redis-server --port "$port" --bind 127.0.0.1 --save "" --dir "$dir" --dbfilename all.rdb \
  --hash-max-listpack-entries 4 --zset-max-listpack-entries 4 --set-max-intset-entries 4 \
  --list-max-listpack-size 4 --stream-node-max-entries 3 >/dev/null &
server=$!
trap 'kill "$server"; wait "$server"; rm -r "$dir"' EXIT
cli() { redis-cli -p "$port" "$@" >/dev/null; }
until redis-cli -p "$port" ping >/dev/null 2>&1; do :; done
cli SET text hello
cli SET empty ""
cli SET "" "empty key"
printf 'a\0b\r\n\377' | redis-cli -p "$port" -x SET binary >/dev/null
cli SET int8 -128
cli SET int16 32767
cli SET int32 -2147483648
cli SET int64 9223372036854775807
cli SET almost 007
cli SET compressed "$(printf 'abc%.0s' {1..100})"
cli SET expires later PXAT 4102444800123
cli RPUSH list:packed a 1 2 3 4 5 6
cli RPUSH list:plain a "$(head -c 9000 /dev/zero | tr '\0' x)" b
cli SADD set:ints 1 2 3
cli SADD set:table a b c d e
cli ZADD zset:packed 1 a 2.5 b
cli ZADD zset:table 1 a 2 b 3 c 4 d -inf e inf f
cli HSET hash:packed f v g 1
cli HSET hash:table a 1 b 2 c 3 d 4 e 5
for n in 1 2 3 4 5 6 7; do cli XADD stream "$n-0" field "$n"; done
cli XDEL stream 2-0
cli XGROUP CREATE stream readers 0
cli XREADGROUP GROUP readers alice COUNT 3 STREAMS stream '>'
cli XREADGROUP GROUP readers bob COUNT 1 STREAMS stream '>'
cli XGROUP CREATE stream idle '$'
cli XADD stream:old 1-1 a b
cli GEOADD geo 13.4 52.5 berlin
cli PFADD counter a b c
cli FUNCTION LOAD $'#!lua name=lib\nredis.register_function("f", function() return 1 end)'
cli -n 3 SET other "database three"
cli CONFIG SET maxmemory-policy allkeys-lfu
cli SAVE
cp "$dir/all.rdb" redis-7.0.rdb
cli FLUSHALL
cli FUNCTION FLUSH
cli SET a 1
cli CONFIG SET maxmemory-policy allkeys-lru
cli SAVE
cp "$dir/all.rdb" redis-7.0-idle.rdb
