"""The load of the kill test: threads that set and count, and write down what was acknowledged.

Each key has one writer. It goes on with another server when its own does not answer, and asks again what it has no
answer to. Prints `acknowledged N` now and then; when standard input ends it stops, compares, and prints what it found.
A set that was acknowledged must be there, or a later one of the same writer whose answer got lost; a counter is at least
what was answered last, and at most that and all increments without an answer.
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
THREADS = 10
KEYS = 20
PREFIX = f"kill:{os.getpid()}:"
# Of one command; recoveries are to be shorter by far.
ANSWER_SECONDS = 10
stop = threading.Event()
# Errors by which a server says that it will work later; everything else in capitals is a fault.
LATER = ("LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "UNKNOWN", "TIMEOUT", "UNAVAILABLE")


class Writer:
    def __init__(self, number):
        self.number = number
        self.server = number
        self.client = None
        self.acknowledged = 0
        self.without_answer = 0
        self.errors = {}
        self.longest = 0.0
        self.sets = {}
        self.counters = {}
        self.faults = []

    def ask(self, *command):
        """The answer, or None when there is none."""
        try:
            if self.client is None:
                host, port = SERVERS[self.server % len(SERVERS)]
                self.client = redis.Redis(
                    host=host, port=port, socket_timeout=ANSWER_SECONDS, retry=Retry(NoBackoff(), 0)
                )
            return self.client.execute_command(*command)
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
            text = str(error)
            name = type(error).__name__ if not isinstance(error, redis.ResponseError) else text.split(" ")[0]
            self.errors[name] = self.errors.get(name, 0) + 1
            if isinstance(error, redis.ResponseError) and not text.startswith(LATER) and "unknown" not in text:
                self.faults.append(f"{command[0]} was answered with an error: {text}")
            if not isinstance(error, redis.ResponseError):
                self.client = None
                self.server += 1
            # Nobody is asked again at once.
            stop.wait(0.02)
            return None

    def run(self):
        turn = 0
        while not stop.is_set():
            turn += 1
            began = time.monotonic()
            name = f"{PREFIX}{self.number}:{turn % KEYS}"
            if turn % 2:
                acked, _ = self.sets.get(name, (0, 0))
                self.sets[name] = (acked, turn)
                answered = self.until_answered("SET", name, turn)
                if answered is not None:
                    self.sets[name] = (turn, turn)
            else:
                name += ":n"
                answered = self.until_answered("INCR", name, None)
            if answered is not None:
                self.acknowledged += 1
                self.longest = max(self.longest, time.monotonic() - began)

    def until_answered(self, command, name, value):
        while True:
            low, high = self.counters.get(name, (0, 0))
            answer = self.ask(command, name) if value is None else self.ask(command, name, value)
            if answer is None:
                self.without_answer += 1
                if value is None:
                    # It may have counted, and may count still.
                    self.counters[name] = (low, high + 1)
                if stop.is_set():
                    return None
                continue
            if value is None:
                if not low < answer <= high + 1:
                    self.faults.append(f"INCR {name} answered {answer} after {low} to {high}")
                self.counters[name] = (answer, max(answer, high + 1))
            return answer

    def compare(self):
        reader = redis.Redis(host=SERVERS[-1][0], port=SERVERS[-1][1], socket_timeout=60)
        for name, (acked, tried) in self.sets.items():
            found = int(reader.get(name) or 0)
            if found not in (acked, tried):
                self.faults.append(f"{name} is {found}; {acked} was acknowledged, {tried} tried last")
        for name, (low, high) in self.counters.items():
            found = int(reader.get(name) or 0)
            if not low <= found <= high:
                self.faults.append(f"{name} is {found}; {low} was acknowledged, at most {high} tried")


writers = [Writer(number) for number in range(THREADS)]
threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
for thread in threads:
    thread.start()


def tell():
    told = 0
    while not stop.wait(0.01):
        now = sum(writer.acknowledged for writer in writers)
        if now >= told + 200:
            told = now
            print(f"acknowledged {now}", flush=True)


threading.Thread(target=tell, daemon=True).start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join(60)
    if thread.is_alive():
        print("a writer does not end")
        sys.exit(1)
errors = {}
for writer in writers:
    writer.compare()
    for name, count in writer.errors.items():
        errors[name] = errors.get(name, 0) + count
faults = [fault for writer in writers for fault in writer.faults]
print(
    json.dumps(
        {
            "acknowledged": sum(writer.acknowledged for writer in writers),
            "without_answer": sum(writer.without_answer for writer in writers),
            "longest_seconds": round(max(writer.longest for writer in writers), 3),
            "errors": errors,
            "faults": len(faults),
        }
    )
)
for fault in faults[:20]:
    print(f"FAULT: {fault}")
sys.exit(1 if faults else 0)
