// A session of ioredis: what its users use, asserted.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const servers = process.env.RAMHOLD_RESP.split(",").map((address) => {
  const at = address.lastIndexOf(":");
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
});
const prefix = `io:${process.pid}:`;
const key = (name) => prefix + name;
const open = [];

function client(server = 0, options = {}) {
  const redis = new Redis({ ...servers[server % servers.length], commandTimeout: 20000, ...options });
  open.push(redis);
  return redis;
}

async function eventually(condition, what) {
  const end = Date.now() + 10000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not within 10 s: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

const topics = {
  async values() {
    const [r, other] = [client(0), client(1)];
    const bytes = Buffer.from(Array.from({ length: 1024 }, (_, n) => n % 256));
    assert.equal(await r.set(key("binary"), bytes), "OK");
    assert.deepEqual(await other.getBuffer(key("binary")), bytes);
    assert.equal(await r.get(key("none")), null);
    assert.equal(await r.set(key("a"), "x", "EX", 1000, "NX"), "OK");
    assert.equal(await r.set(key("a"), "y", "NX"), null);
    assert.equal(await r.getdel(key("a")), "x");
    const large = "x".repeat(1000000);
    await r.set(key("large"), large);
    assert.equal((await other.get(key("large"))).length, large.length);
    assert.equal(await r.incrby(key("n"), 42), 42);
    assert.equal(await r.incrbyfloat(key("f"), 0.5), "0.5");
    await assert.rejects(r.incr(key("binary")), /not an integer/);
  },

  async expiry() {
    const [r, other] = [client(0), client(1)];
    await r.set(key("brief"), "x", "PX", 50);
    await eventually(async () => (await other.get(key("brief"))) === null, "the end of a key");
    await r.setex(key("long"), 1000, "x");
    const ttl = await other.ttl(key("long"));
    assert.ok(ttl > 990 && ttl <= 1000, `${ttl}`);
    assert.equal(await r.persist(key("long")), 1);
    assert.equal(await other.ttl(key("long")), -1);
  },

  // All commands of a tick in one write.
  async pipelines() {
    const r = client(0, { enableAutoPipelining: true });
    const numbers = Array.from({ length: 2000 }, (_, n) => n);
    await Promise.all(numbers.map((n) => r.set(key(`auto:${n}`), n)));
    const found = await Promise.all(numbers.map((n) => r.get(key(`auto:${n}`))));
    assert.deepEqual(found, numbers.map(String));
    const plain = client(1);
    const pipe = plain.pipeline();
    for (const n of numbers) pipe.incr(key(`auto:${n}`));
    assert.deepEqual(await pipe.exec(), numbers.map((n) => [null, n + 1]));
    assert.equal(await plain.del(numbers.map((n) => key(`auto:${n}`))), 2000);
  },

  async transactions() {
    const r = client(0);
    const [a, b] = [key("{t}a"), key("{t}b")];
    assert.deepEqual(await r.multi().set(a, 1).incr(a).get(b).exec(), [[null, "OK"], [null, 2], [null, null]]);
    await r.watch(a);
    await client(1).set(a, 10);
    assert.equal(await r.multi().incr(a).exec(), null);
    await r.watch(a);
    assert.deepEqual(await r.multi().incr(a).exec(), [[null, 11]]);
  },

  async scans() {
    const r = client(0);
    const pairs = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [key(`scan:${n}`), `${n}`]));
    assert.equal(await r.mset(pairs), "OK");
    assert.deepEqual(await client(2).mget(Object.keys(pairs)), Object.values(pairs));
    const found = new Set();
    for await (const keys of client(1).scanStream({ match: key("scan:*"), count: 50 })) {
      for (const one of keys) found.add(one);
    }
    assert.deepEqual([...found].sort(), Object.keys(pairs).sort());
  },

  async pubsub() {
    const [listener, speaker] = [client(0), client(1)];
    const heard = [];
    listener.on("message", (channel, message) => heard.push([channel, message]));
    listener.on("pmessage", (pattern, channel, message) => heard.push([pattern, channel, message]));
    assert.equal(await listener.subscribe(key("channel")), 1);
    assert.equal(await listener.psubscribe(key("p*")), 2);
    await eventually(async () => (await speaker.publish(key("channel"), "hello")) === 1, "a subscriber");
    await eventually(async () => (await speaker.publish(key("p1"), "by pattern")) === 1, "a subscriber by pattern");
    await eventually(() => heard.length === 2, "two messages");
    assert.deepEqual(heard, [[key("channel"), "hello"], [key("p*"), key("p1"), "by pattern"]]);
    assert.equal(await listener.unsubscribe(key("channel")), 1);
    assert.equal(await listener.punsubscribe(key("p*")), 0);
    assert.equal(await listener.ping(), "PONG");
  },

  async accounts() {
    const [name, r] = [`js-${process.pid}`, client(0)];
    const password = await r.call("ACL", "GENPASS");
    const rules = ["on", `>${password}`, `~${key("mine:*")}`, "+@read", "+@write", "+@connection", "+info"];
    assert.equal(await r.call("ACL", "SETUSER", name, ...rules), "OK");
    await eventually(async () => (await client(1).call("ACL", "USERS")).includes(name), "the account at another server");
    const own = client(1, { username: name, password });
    assert.equal(await own.set(key("mine:1"), "x"), "OK");
    await assert.rejects(own.get(key("other")), /^ReplyError: NOPERM/);
    await assert.rejects(own.flushall(), /^ReplyError: NOPERM/);
    own.disconnect();
    assert.equal(await r.call("ACL", "DELUSER", name), 1);
  },

  async databases() {
    await client(0, { db: 1 }).set(key("a"), "one");
    await client(0, { db: 2 }).set(key("a"), "two");
    assert.equal(await client(1, { db: 1 }).get(key("a")), "one");
    assert.equal(await client(1, { db: 2 }).get(key("a")), "two");
  },
};

if (process.env.RAMHOLD_RESP_CLUSTER === "1") {
  topics.cluster = async () => {
    const clusterRetryStrategy = (times) => (times < 10 ? 100 : null);
    const r = new Redis.Cluster(servers, { clusterRetryStrategy, redisOptions: { commandTimeout: 20000 } });
    open.push(r);
    // What goes wrong is told by the commands that fail.
    r.on("error", () => {});
    const numbers = Array.from({ length: 500 }, (_, n) => n);
    await Promise.all(numbers.map((n) => r.set(key(`c:${n}`), n)));
    assert.deepEqual(await Promise.all(numbers.map((n) => r.get(key(`c:${n}`)))), numbers.map(String));
    assert.deepEqual(await client(3).mget(numbers.map((n) => key(`c:${n}`))), numbers.map(String));
    assert.deepEqual(await r.multi().set(key("{m}a"), 1).incr(key("{m}a")).exec(), [[null, "OK"], [null, 2]]);
    // Each server shows its own keys, together each once.
    const met = [];
    for (const node of r.nodes("master")) {
      for await (const keys of node.scanStream({ match: key("c:*"), count: 100 })) met.push(...keys);
    }
    assert.deepEqual(met.sort(), numbers.map((n) => key(`c:${n}`)).sort());
  };
}

async function main() {
  let failed = 0;
  for (const [name, topic] of Object.entries(topics)) {
    try {
      await topic();
      console.log(`  ${name}: ok`);
    } catch (error) {
      failed += 1;
      console.log(`  ${name}: FAILED: ${error.stack}`);
    }
  }
  for (const one of open) one.disconnect();
  console.log(`ioredis ${require("ioredis/package.json").version}: ${failed === 0 ? "ok" : `${failed} topics failed`}`);
  process.exit(failed === 0 ? 0 : 1);
}

main();
