"""The load of the test that kills bricks: threads that use a quorum table, and count what fails.

Database 1 is the quorum table `carts`. Each key has one writer, so a read must show what was written last. No command is
tried a second time: whatever is not answered as it must be is a failure. Prints `acknowledged N` now and then; when
standard input ends it stops, looks at all keys again, and prints what it found.
"""

import json
import os
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SERVERS = [
    (host, int(port))
    for host, port in (address.rsplit(":", 1) for address in os.environ["RAMHOLD_RESP"].split(","))
]
THREADS = 8
KEYS = 20
ANSWER_SECONDS = 20
stop = threading.Event()


class User:
    def __init__(self, number):
        self.number = number
        host, port = SERVERS[number % len(SERVERS)]
        self.client = redis.Redis(
            host=host, port=port, db=1, socket_timeout=ANSWER_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        self.values = {}
        self.acknowledged = 0
        self.times = []
        self.failures = []

    def name(self, turn):
        return f"load:{self.number}:{turn % KEYS}"

    def timed(self, ask, wanted, what):
        """Carries one command out, and compares its answer."""
        began = time.monotonic()
        try:
            answer = ask()
        except redis.RedisError as error:
            self.failures.append(f"{what}: {type(error).__name__} {error}")
            return
        self.times.append(time.monotonic() - began)
        if answer == wanted:
            self.acknowledged += 1
        else:
            self.failures.append(f"{what} answered {answer!r}, not {wanted!r}")

    def run(self):
        r, turn = self.client, 0
        while not stop.is_set():
            turn += 1
            name, value = self.name(turn), f"{turn}".encode()
            self.values[name] = value
            self.timed(lambda: r.set(name, value, ex=100_000), True, "SET")
            self.timed(lambda: r.get(name), value, "GET")
            if turn % 5 == 0:
                pairs = {self.name(turn + n): f"{turn}:{n}".encode() for n in range(1, 5)}
                self.values.update(pairs)
                self.timed(lambda: r.mset(pairs), True, "MSET")
                self.timed(lambda: r.mget(list(pairs)), list(pairs.values()), "MGET")
            if turn % 7 == 0:
                self.values.pop(name)
                self.timed(lambda: r.delete(name), 1, "DEL")
                self.timed(lambda: r.exists(name), 0, "EXISTS")
            if turn % 50 == 0:
                self.walk()

    def walk(self):
        mine = sorted(name.encode() for name in self.values)
        pattern = f"load:{self.number}:*"
        self.timed(lambda: sorted(self.client.scan_iter(match=pattern, count=100)), mine, "SCAN")

    def compare(self):
        for name, value in self.values.items():
            self.timed(lambda: self.client.get(name), value, "the last GET")
        self.walk()


users = [User(number) for number in range(THREADS)]
threads = [threading.Thread(target=user.run, daemon=True) for user in users]
for thread in threads:
    thread.start()


def tell():
    told = 0
    while not stop.wait(0.01):
        now = sum(user.acknowledged for user in users)
        if now >= told + 200:
            told = now
            print(f"acknowledged {now}", flush=True)


threading.Thread(target=tell, daemon=True).start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join(60)
    if thread.is_alive():
        print("a user does not end")
        sys.exit(1)
for user in users:
    user.compare()
failures = [failure for user in users for failure in user.failures]
times = sorted(time for user in users for time in user.times)
print(
    json.dumps(
        {
            "acknowledged": sum(user.acknowledged for user in users),
            "failures": len(failures),
            "p999_milliseconds": round(1000 * times[len(times) * 999 // 1000], 1),
            "longest_milliseconds": round(1000 * times[-1], 1),
        }
    )
)
for failure in failures[:20]:
    print(f"FAILURE: {failure}")
sys.exit(1 if failures else 0)
