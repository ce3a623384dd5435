"""A session of redis-py on a quorum table: what such a table carries out, and what it refuses, asserted.

Database 1 is the quorum table `carts`.
"""

import os
import threading
import time

import redis

SERVERS = [
    (host, int(port))
    for host, port in (address.rsplit(":", 1) for address in os.environ["RAMHOLD_RESP"].split(","))
]


def client(server=0, **options):
    host, port = SERVERS[server % len(SERVERS)]
    return redis.Redis(host=host, port=port, db=1, socket_timeout=20, **options)


def eventually(condition, what):
    """Waits for a condition, not for a time."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, f"not within 10 s: {what}"
        time.sleep(0.005)


def values(r):
    other = client(1)
    every_byte = bytes(range(256)) * 4
    assert r.set("v:binary", every_byte) is True and other.get("v:binary") == every_byte
    assert other.set("v:binary", b"newer") is True and r.get("v:binary") == b"newer"
    assert r.get("v:none") is None and r.strlen("v:none") == 0 and r.strlen("v:binary") == 5
    assert r.getrange("v:binary", 1, -2) == b"ewe" and r.substr("v:binary", 0, 1) == b"ne"
    assert r.type("v:binary") == b"string" and r.type("v:none") == b"none"
    assert r.exists("v:binary", "v:binary", "v:none") == 2 and r.touch("v:binary", "v:none") == 1
    assert r.delete("v:binary", "v:none") == 1 and other.get("v:binary") is None
    assert r.set("v:a", "1") and r.unlink("v:a", "v:a") == 1 and r.exists("v:a") == 0
    large = os.urandom(1_000_000)
    assert r.set("v:large", large) and other.get("v:large") == large
    assert client(0, decode_responses=True).set("v:text", "žluťoučký")
    assert client(1, decode_responses=True).get("v:text") == "žluťoučký"


def many(r):
    pairs = {f"many:{n}": str(n) for n in range(300)}
    assert r.mset(pairs) is True
    assert client(1).mget([*pairs, "many:none"]) == [*(value.encode() for value in pairs.values()), None]
    assert r.exists(*pairs) == 300
    assert r.unlink(*list(pairs)[:100]) == 100 and r.delete(*list(pairs)[100:]) == 200
    assert r.mget(list(pairs)) == [None] * 300


def expiry(r):
    other = client(1)
    assert r.set("e:brief", "x", px=300) and r.setex("e:setex", 1000, "x") and r.psetex("e:psetex", 100_000, "x")
    assert r.set("e:long", "x", ex=1000) and r.set("e:at", "x", exat=4102444800)
    assert r.set("e:pxat", "x", pxat=4102444800_500) and r.set("e:never", "x")
    assert 990 < other.ttl("e:long") <= 1000 and 990 < other.ttl("e:setex") <= 1000
    assert 90_000 < other.pttl("e:psetex") <= 100_000 and other.expiretime("e:at") == 4102444800
    assert other.pexpiretime("e:pxat") == 4102444800_500 and other.ttl("e:never") == -1
    assert other.ttl("e:none") == -2
    eventually(lambda: other.get("e:brief") is None, "the end of a key")
    assert r.exists("e:brief") == 0 and r.ttl("e:brief") == -2
    assert sorted(r.scan_iter(match="e:b*")) == []


def walks(r):
    wanted = sorted(f"walk:{n}".encode() for n in range(1000))
    assert r.mset({name: "x" for name in wanted}) is True
    assert r.set("walked", "x") and r.set("walk:gone", "x") and r.delete("walk:gone") == 1
    for server in range(len(SERVERS)):
        other = client(server)
        for count in (None, 7, 500):
            found = list(other.scan_iter(match="walk:*", count=count))
            assert sorted(found) == wanted, f"{len(found)} keys, {len(set(found))} different ones"
        assert list(other.scan_iter(match="walk:*", _type="list")) == []
        assert sorted(other.keys("walk:*")) == wanted
        assert other.dbsize() == len(set(other.scan_iter(count=1000))) >= 1001
        assert other.exists(other.randomkey()) == 1
    # A client may take up another client's walk, at another server.
    cursor, found = client(0).scan(0, match="walk:*", count=300)
    while cursor != 0:
        cursor, more = client(1).scan(cursor, match="walk:*", count=300)
        found += more
    assert sorted(found) == wanted
    assert r.delete(*wanted) == 1000


def refusals(r):
    """Whatever needs a condition is refused with one clear error, and nothing of it has happened."""
    r.set("r", "5")
    asked = {
        "SET with NX": lambda: r.set("r", "1", nx=True),
        "SET with XX": lambda: r.set("r", "1", xx=True),
        "SET with GET": lambda: r.set("r", "1", get=True),
        "SET with KEEPTTL": lambda: r.set("r", "1", keepttl=True),
        "SETNX": lambda: r.setnx("r", "1"),
        "MSETNX": lambda: r.msetnx({"r": "1"}),
        "GETSET": lambda: r.getset("r", "1"),
        "GETDEL": lambda: r.getdel("r"),
        "GETEX": lambda: r.getex("r", ex=1),
        "INCRBY": lambda: r.incr("r"),
        "DECRBY": lambda: r.decr("r"),
        "INCRBYFLOAT": lambda: r.incrbyfloat("r", 1.5),
        "APPEND": lambda: r.append("r", "1"),
        "SETRANGE": lambda: r.setrange("r", 0, "1"),
        "SETBIT": lambda: r.setbit("r", 0, 1),
        "EXPIRE": lambda: r.expire("r", 1),
        "PEXPIREAT": lambda: r.pexpireat("r", 1),
        "PERSIST": lambda: r.persist("r"),
        "RENAME": lambda: r.rename("r", "s"),
        "COPY": lambda: r.copy("r", "s"),
        "RESTORE": lambda: r.restore("s", 0, b"x"),
        "BITCOUNT": lambda: r.bitcount("r"),
        "OBJECT ENCODING": lambda: r.object("encoding", "r"),
        "WATCH": lambda: r.pipeline().watch("r"),
    }
    for name, ask in asked.items():
        try:
            answer = ask()
        except redis.ResponseError as error:
            text = str(error)
            assert name.split(" ")[0] in text and "'carts'" in text, f"{name}: {text}"
            assert "use an ordinary table" in text, f"{name}: {text}"
        else:
            raise AssertionError(f"{name} was answered: {answer!r}")
        assert (r.get("r"), r.ttl("r"), r.exists("s")) == (b"5", -1, 0), name
    try:
        r.pipeline(transaction=True).set("r", "6").get("r").execute()
        raise AssertionError("a transaction was carried out")
    except redis.ResponseError as error:
        assert "MULTI" in str(error) and "use an ordinary table" in str(error), error
    assert r.get("r") == b"5"
    # The same commands work on an ordinary table over the same connection.
    with r.client() as own:
        own.select(0)
        assert own.incr("counter") >= 1
        own.select(1)
        assert own.get("r") == b"5"


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"pipe:{n}", n)
            pipe.get(f"pipe:{n}")
        assert pipe.execute() == [reply for n in range(1000) for reply in (True, str(n).encode())]
    with r.pipeline(transaction=False) as pipe:
        replies = pipe.set("pipe:w", "1").incr("pipe:w").get("pipe:w").execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == b"1"


def pool(_):
    host, port = SERVERS[0]
    shared = redis.BlockingConnectionPool(host=host, port=port, db=1, max_connections=4, timeout=20)
    r, errors = redis.Redis(connection_pool=shared), []

    def work(number):
        try:
            for n in range(100):
                assert r.set(f"pool:{number}", n) and r.get(f"pool:{number}") == str(n).encode()
        except BaseException as error:  # told in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.disconnect()
    assert not errors, errors[0]


def version_three(_):
    r = client(1, protocol=3)
    assert r.set("three", "x") is True and r.get("three") == b"x" and r.get("three:none") is None
    assert list(r.scan_iter(match="three*")) == [b"three"] and r.delete("three") == 1


def emptied(r):
    """The last topic: the table is emptied."""
    assert r.dbsize() > 0 and r.flushdb() is True
    assert r.dbsize() == 0 and r.randomkey() is None and r.keys() == []
    assert client(1).get("r") is None and client(1).set("r", "7") and r.get("r") == b"7"


failed = 0
for topic in [values, many, expiry, walks, refusals, pipelines, pool, version_three, emptied]:
    try:
        topic(client())
        print(f"  {topic.__name__}: ok", flush=True)
    except Exception as error:  # every topic is tried
        import traceback

        failed += 1
        traceback.print_exc()
        print(f"  {topic.__name__}: FAILED: {error!r}", flush=True)
print(f"redis-py {redis.__version__} on a quorum table: {'ok' if failed == 0 else f'{failed} topics failed'}")
raise SystemExit(1 if failed else 0)
