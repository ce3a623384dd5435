"""A session of redis-py: what its users use, asserted."""

import os
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

SERVERS = [
    (host, int(port))
    for host, port in (address.rsplit(":", 1) for address in os.environ["RAMHOLD_RESP"].split(","))
]
PREFIX = f"py:{os.getpid()}:"


def client(server=0, **options):
    host, port = SERVERS[server % len(SERVERS)]
    return redis.Redis(host=host, port=port, socket_timeout=20, **options)


def key(name):
    return PREFIX + name


def eventually(condition, what):
    """Waits for a condition, not for a time."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, f"not within 10 s: {what}"
        time.sleep(0.005)


def values(r):
    every_byte = bytes(range(256)) * 4
    assert r.set(key("binary"), every_byte) is True
    assert client(1).get(key("binary")) == every_byte
    assert r.get(key("none")) is None
    assert r.set(key("a"), "x", nx=True) is True
    assert r.set(key("a"), "y", nx=True) is None
    assert r.set(key("a"), "z", xx=True, get=True) == b"x"
    assert r.getrange(key("binary"), 0, 2) == b"\x00\x01\x02"
    assert r.append(key("a"), "123") == 4 and r.strlen(key("a")) == 4
    assert r.setrange(key("a"), 1, "--") == 4 and r.get(key("a")) == b"z--3"
    assert r.getdel(key("a")) == b"z--3" and r.exists(key("a")) == 0
    large = os.urandom(1_000_000)
    r.set(key("large"), large)
    assert client(2).get(key("large")) == large
    assert client(1, decode_responses=True).set(key("text"), "žluťoučký") and client(
        2, decode_responses=True
    ).get(key("text")) == "žluťoučký"


def numbers(r):
    assert r.incr(key("n")) == 1 and r.incr(key("n"), 41) == 42 and r.decr(key("n"), 2) == 40
    assert r.incrbyfloat(key("f"), 0.1) == 0.1 and r.incrbyfloat(key("f"), 0.2) == 0.3
    r.set(key("word"), "abc")
    try:
        r.incr(key("word"))
        raise AssertionError("INCR of a word is an error")
    except redis.ResponseError as error:
        assert "not an integer" in str(error)


def many(r):
    pairs = {key(f"many:{n}"): str(n) for n in range(300)}
    assert r.mset(pairs) is True
    assert r.mget(list(pairs)) == [value.encode() for value in pairs.values()]
    assert r.exists(*pairs) == 300 and r.touch(*pairs) == 300
    found = set(client(1).scan_iter(match=key("many:*"), count=50))
    assert found == {name.encode() for name in pairs}
    assert r.unlink(*list(pairs)[:100]) == 100 and r.delete(*list(pairs)[100:]) == 200
    assert not list(r.scan_iter(match=key("many:*")))


def expiry(r):
    r.set(key("brief"), "x", px=50)
    eventually(lambda: client(1).get(key("brief")) is None, "the end of a key")
    r.set(key("long"), "x", ex=1000)
    assert 990 < client(1).ttl(key("long")) <= 1000
    assert r.persist(key("long")) is True and r.ttl(key("long")) == -1
    assert r.expireat(key("long"), 4102444800) is True and r.expiretime(key("long")) == 4102444800
    assert r.expire(key("long"), 100, lt=True) is True and r.ttl(key("none")) == -2
    assert r.getex(key("long"), persist=True) == b"x" and r.pttl(key("long")) == -1


def bits(r):
    assert r.setbit(key("bits"), 7, 1) == 0 and r.get(key("bits")) == b"\x01"
    assert r.bitcount(key("bits")) == 1 and r.bitpos(key("bits"), 1) == 7
    field = r.bitfield(key("bits"))
    assert field.set("u8", "#1", 200).incrby("u8", "#1", 100, overflow="SAT").execute() == [0, 255]


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for n in range(2000):
            pipe.set(key(f"pipe:{n}"), n)
            pipe.get(key(f"pipe:{n}"))
        replies = pipe.execute()
    assert replies == [reply for n in range(2000) for reply in (True, str(n).encode())]
    with r.pipeline() as pipe:
        tagged = key("{tag}:")
        pipe.set(tagged + "a", 1).incr(tagged + "a").get(tagged + "b")
        assert pipe.execute() == [True, 2, None]
    try:
        with r.pipeline(transaction=False) as pipe:
            pipe.set(key("w"), "word").incr(key("w")).execute()
        raise AssertionError("an error in a pipeline is raised")
    except redis.ResponseError:
        pass


def watch(_):
    """Transactions of eight threads on all servers: every increment counts once."""
    counter = key("{w}counter")
    client().set(counter, 0)

    def work(number):
        own = client(number)

        def add(pipe):
            value = int(pipe.get(counter))
            pipe.multi()
            pipe.set(counter, value + 1)

        for _ in range(20):
            own.transaction(add, counter)

    run_threads(work, 8)
    assert client().get(counter) == b"160"


def pool(_):
    host, port = SERVERS[0]
    shared = redis.BlockingConnectionPool(host=host, port=port, max_connections=4, timeout=20)
    r = redis.Redis(connection_pool=shared)

    def work(number):
        for n in range(200):
            assert r.incr(key(f"pool:{number}")) == n + 1

    run_threads(work, 8)
    shared.disconnect()


def run_threads(work, count):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # told in the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def pubsub(_, protocol=2):
    """Subscribed at one server, published at another."""
    listener = client(0, protocol=protocol).pubsub()
    channel, other = key(f"channel{protocol}"), key(f"pattern{protocol}")
    listener.subscribe(channel)
    listener.psubscribe(other + "*")
    replies = [listener.get_message(timeout=10) for _ in range(2)]
    assert [reply["type"] for reply in replies] == ["subscribe", "psubscribe"], replies
    speaker = client(1, protocol=protocol)
    # Other servers hear of a subscription a moment later.
    eventually(lambda: speaker.publish(channel, "are you there") == 1, "a subscriber")
    eventually(lambda: speaker.publish(other + "1", b"\x00\xff") == 1, "a subscriber by pattern")
    heard = [listener.get_message(timeout=10) for _ in range(2)]
    assert (heard[0]["type"], heard[0]["data"]) == ("message", b"are you there"), heard
    assert (heard[1]["type"], heard[1]["data"]) == ("pmessage", b"\x00\xff"), heard
    listener.unsubscribe()
    listener.close()


def databases(_):
    client(0, db=1).set(key("a"), "one")
    client(0, db=2).set(key("a"), "two")
    assert client(1, db=1).get(key("a")) == b"one" and client(1, db=2).get(key("a")) == b"two"


def version_three(_):
    r = client(1, protocol=3)
    assert r.set(key("three"), "x") is True and r.get(key("three")) == b"x" and r.get(key("none")) is None
    assert r.execute_command("HELLO", "3")[b"proto"] == 3
    with r.pipeline() as pipe:
        assert pipe.set(key("{t}a"), "1").incr(key("{t}a")).execute() == [True, 2]
    pubsub(r, protocol=3)


def server(r):
    assert r.ping() is True and r.echo("hi") == b"hi"
    r.client_setname("session")
    assert r.client_getname() == "session" and r.client_id() > 0
    assert r.info("server")["redis_version"]
    assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert r.type(key("server:none")) == b"none" and r.time()[0] > 1_700_000_000


def accounts(r):
    """An account of its own, at all servers: made, tried, changed and removed."""
    name, password = f"py-{os.getpid()}", r.acl_genpass()
    assert r.acl_setuser(
        name, enabled=True, passwords=[f"+{password}"], categories=["+@read", "+@write"], keys=[key("mine:*")]
    )
    assert name in r.acl_users() and any(line.startswith(f"user {name} on") for line in r.acl_list())
    told = r.acl_getuser(name)
    assert "on" in told["flags"] and told["keys"] == ["~" + key("mine:*")] and len(told["passwords"]) == 1, told
    for protocol in (2, 3):
        own = client(1, username=name, password=password, protocol=protocol)
        eventually(lambda: logs_in(own), "the account at another server")
        assert own.set(key("mine:1"), "x") is True and own.get(key("mine:1")) in (b"x", "x")
        for forbidden in (lambda: own.get(key("other")), lambda: own.flushall(), lambda: own.acl_whoami()):
            try:
                forbidden()
                raise AssertionError("it is not allowed")
            except redis.exceptions.NoPermissionError:
                pass
        with own.pipeline(transaction=False) as pipe:
            replies = pipe.set(key("mine:2"), 1).get(key("other")).execute(raise_on_error=False)
        assert replies[0] is True and isinstance(replies[1], redis.exceptions.NoPermissionError)
    assert r.acl_dryrun(name, "get", key("mine:1")) in (b"OK", "OK")
    try:
        client(2, username=name, password="wrong").ping()
        raise AssertionError("a wrong password is refused")
    except redis.exceptions.AuthenticationError:
        pass
    assert client(1).acl_log() and client(1).acl_log_reset()
    assert r.acl_deluser(name) == 1 and name not in r.acl_users()
    eventually(lambda: not logs_in(client(1, username=name, password=password)), "the end of the account")


def logs_in(own):
    try:
        own.get(key("mine:1"))
        return True
    except redis.exceptions.RedisError:
        return False


def cluster(_):
    nodes = [ClusterNode(host, port) for host, port in SERVERS]
    r = RedisCluster(startup_nodes=nodes, socket_timeout=20)
    assert r.cluster_info()["cluster_state"] == "ok"
    for n in range(500):
        assert r.set(key(f"c:{n}"), n) is True
    assert all(r.get(key(f"c:{n}")) == str(n).encode() for n in range(500))
    # Any other client sees the same.
    assert client(3).mget([key(f"c:{n}") for n in range(500)]) == [str(n).encode() for n in range(500)]
    with r.pipeline() as pipe:
        for n in range(500):
            pipe.incr(key(f"c:{n}"))
        assert pipe.execute() == [n + 1 for n in range(500)]
    assert r.keyslot("foo{bar}") == 5061 == client().execute_command("CLUSTER", "KEYSLOT", "foo{bar}")
    wanted = sorted(key(f"c:{n}").encode() for n in range(500))
    found = list(r.scan_iter(match=key("c:*"), count=100))
    assert sorted(found) == wanted, f"{len(found)} keys met, {len(set(found))} different ones"
    assert sorted(r.keys(key("c:*"), target_nodes=RedisCluster.PRIMARIES)) == wanted
    assert r.dbsize(target_nodes=RedisCluster.PRIMARIES) == client(2).dbsize() >= 500
    # A plain client sees all at any server.
    assert all(sorted(client(n).scan_iter(match=key("c:*"), count=100)) == wanted for n in range(len(SERVERS)))
    assert r.delete(*found) == 500
    r.close()


TOPICS = [values, numbers, many, expiry, bits, pipelines, watch, pool, pubsub, databases, version_three, server, accounts]
if os.environ.get("RAMHOLD_RESP_CLUSTER") == "1":
    TOPICS.append(cluster)
failed = 0
for topic in TOPICS:
    try:
        topic(client())
        print(f"  {topic.__name__}: ok", flush=True)
    except Exception as error:  # every topic is tried
        import traceback

        failed += 1
        traceback.print_exc()
        print(f"  {topic.__name__}: FAILED: {error!r}", flush=True)
print(f"redis-py {redis.__version__}: {'ok' if failed == 0 else f'{failed} topics failed'}")
raise SystemExit(1 if failed else 0)
