package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history as a correct store gives it: each operation takes effect at one moment between its start and its end.
func generate(seed int64, kinds []kind) []operation {
	rng := rand.New(rand.NewSource(seed))
	const clients = 5
	busy := [clients]int64{}
	id := [clients]uint64{}
	for c := range id {
		id[c] = uint64(c)
	}
	var s state
	var ops []operation
	seen := uint64(0)
	for n := 1; n <= 150; n++ {
		moment := int64(n * 100)
		c := rng.Intn(clients)
		if busy[c] >= moment {
			continue
		}
		op := operation{id: uint64(n), client: id[c], key: "k", kind: kinds[rng.Intn(len(kinds))], delta: int64(1 + rng.Intn(3))}
		op.start = busy[c] + 1 + rng.Int63n(moment-busy[c])
		op.end = moment + rng.Int63n(400)
		busy[c] = op.end
		op.value = ""
		if op.kind == write {
			op.value = fmt.Sprint("v", n)
		}
		if (op.kind == write || op.kind == remove) && rng.Intn(2) == 0 {
			op.condition = []condition{{version: seen}, {exists: true}, {absent: true}, {}}[rng.Intn(4)]
		}
		carryOut(&s, &op, rng)
		if op.version != 0 {
			seen = op.version
		}
		if op.kind != read && op.outcome == done && rng.Intn(20) == 0 {
			// Carried out, and nobody was told.
			op.outcome, op.end, op.version = unknown, math.MaxInt64, 0
			id[c] += clients
			busy[c] = moment
		} else if op.kind != read && rng.Intn(20) == 0 && op.outcome != done {
			op.outcome, op.end, op.version = unknown, math.MaxInt64, 0
			id[c] += clients
		}
		ops = append(ops, op)
	}
	sortByStart(ops)
	return ops
}

func carryOut(s *state, op *operation, rng *rand.Rand) {
	op.outcome = done
	if op.kind == read {
		op.found = s.present
		if s.present {
			op.value, op.version = s.value, s.version
		}
		return
	}
	c := op.condition
	switch {
	case (c.exists || c.version != 0) && !s.present:
		op.outcome, op.err = refused, notFound
		return
	case c.absent && s.present:
		op.outcome, op.err, op.version = refused, exists, s.version
		return
	case c.version != 0 && c.version != s.version:
		op.outcome, op.err, op.version = refused, wrongVersion, s.version
		return
	case op.kind == remove && !s.present:
		return
	}
	// Versions may have gaps.
	version := s.version + 1 + uint64(rng.Intn(3))
	after, _ := s.result(op)
	if op.kind == incr {
		op.value = after.value
	}
	after.version, after.exact = version, true
	*s, op.version = after, version
}

var registers = []kind{read, read, write, write, remove}
var counters = []kind{read, incr, incr}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

func TestCorrectHistoriesAreAccepted(t *testing.T) {
	for seed := int64(0); seed < 300; seed++ {
		for _, kinds := range [][]kind{registers, counters} {
			ops := generate(seed, kinds)
			if result := judge(ops, soon()); result != porcupine.Ok {
				_, before := firstUnexplained(ops, soon())
				t.Fatalf("seed %d: %v: %v", seed, result, before)
			}
		}
	}
}

func TestEveryMistakeIsFoundInEveryHistoryThatHasAPlaceForIt(t *testing.T) {
	if len(mistakes) < 20 {
		t.Fatalf("only %d kinds of mistakes", len(mistakes))
	}
	for _, m := range mistakes {
		places := 0
		for seed := int64(0); seed < 60; seed++ {
			for _, kinds := range [][]kind{registers, counters} {
				ops := m.make(generate(seed, kinds), seed)
				if ops == nil {
					continue
				}
				places++
				if result := judge(ops, soon()); result != porcupine.Illegal {
					t.Fatalf("%s, seed %d: %v", m.name, seed, result)
				}
			}
		}
		if places < 5 {
			t.Errorf("%s: a place for it in %d histories only", m.name, places)
		}
	}
}

func TestTheUnexplainedAnswerIsNamed(t *testing.T) {
	ops := generate(3, registers)
	last := ops[len(ops)-1].start + 10_000
	ops = append(ops, operation{id: 999, client: 999, key: "k", kind: read, outcome: done, found: true, value: "x", version: 1, start: last, end: last + 1})
	ops = append(ops, operation{id: 1000, client: 1000, key: "k", kind: read, outcome: done, found: true, value: "y", version: 1, start: last + 5, end: last + 6})
	found := checkKey(keyName{0, "k"}, ops, soon())
	if found == nil || found.undecided || found.culprit.id != 999 {
		t.Fatalf("%+v", found)
	}
}

func TestWithoutTimeNothingIsDecided(t *testing.T) {
	h := history{keyName{0, "k"}: generate(1, registers)}
	found := h.check(0)
	if len(found) != 1 || !found[0].undecided {
		t.Fatalf("%+v", found)
	}
}

// Small histories by hand, as lines: what is allowed and what is not.
func TestHistoriesByHand(t *testing.T) {
	const head = `{"h":"hist/v1","run":"r"}` + "\n"
	write := func(id int, from, to int, more, end string) string {
		return fmt.Sprintf(`{"e":"i","id":%d,"c":%d,"t":%d,"op":"write","tb":1,"k":"a","v":"v%d"%s}
{"e":"r","id":%d,"t":%d,%s}
`, id, id, from, id, more, id, to, end)
	}
	read := func(id int, from, to int, end string) string {
		return fmt.Sprintf(`{"e":"i","id":%d,"c":%d,"t":%d,"op":"read","tb":1,"k":"a"}
{"e":"r","id":%d,"t":%d,%s}
`, id, id, from, id, to, end)
	}
	ok := func(version int) string { return fmt.Sprintf(`"st":"ok","ver":%d`, version) }
	found := func(value string, version int) string {
		return fmt.Sprintf(`"st":"ok","ver":%d,"v":%q`, version, value)
	}
	const nothing, info = `"st":"ok","ver":0,"v":null`, `"st":"info","err":"timeout"`
	const unreachable = `"st":"fail","err":"unreachable"`
	cases := []struct {
		name, lines string
		code        int
	}{
		{"read what was written", write(1, 1, 2, "", ok(5)) + read(2, 3, 4, found("v1", 5)), exitGood},
		{"a read beside a write may find either", write(1, 1, 9, "", ok(5)) + read(2, 3, 4, nothing) + read(3, 5, 6, found("v1", 5)), exitGood},
		{"but not go back", write(1, 1, 9, "", ok(5)) + read(2, 3, 4, found("v1", 5)) + read(3, 5, 6, nothing), exitViolation},
		{"unknown may be carried out late", write(1, 1, 2, "", info) + read(2, 3, 4, nothing) + read(3, 5, 6, found("v1", 5)), exitGood},
		{"but once", write(1, 1, 2, "", info) + read(3, 5, 6, found("v1", 5)) + write(4, 7, 8, "", ok(6)) + read(5, 9, 10, found("v1", 7)), exitViolation},
		{"unknown keeps its version", write(1, 1, 2, "", info) + read(3, 5, 6, found("v1", 5)) + read(5, 9, 10, found("v1", 6)), exitViolation},
		{"failed is never carried out", write(1, 1, 2, "", unreachable) + read(3, 5, 6, found("v1", 5)), exitViolation},
		{"failed says nothing", write(1, 1, 2, "", unreachable) + read(3, 5, 6, nothing), exitGood},
		{"a condition that holds", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":5}`, ok(6)), exitGood},
		{"a condition that does not", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":4}`, ok(6)), exitViolation},
		{"refused rightly", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":4}`, `"st":"fail","err":"wrong_version","ver":5`), exitGood},
		{"refused wrongly", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":5}`, `"st":"fail","err":"wrong_version","ver":5`), exitViolation},
		{"refused with a version it does not have", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":4}`, `"st":"fail","err":"wrong_version","ver":6`), exitViolation},
		{"refused as there, which it is not", write(2, 3, 4, `,"if":{"absent":true}`, `"st":"fail","err":"exists","ver":6`), exitViolation},
		{"an own effect refuses nothing", write(2, 3, 4, `,"if":{"absent":true}`, `"st":"fail","err":"exists","ver":6`) + read(3, 5, 6, found("v2", 6)), exitViolation},
		{"an unknown condition that held", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":5}`, info) + read(3, 5, 6, found("v2", 8)), exitGood},
		{"an unknown condition that did not", write(1, 1, 2, "", ok(5)) + write(2, 3, 4, `,"if":{"ver":4}`, info) + read(3, 5, 6, found("v2", 8)), exitViolation},
		{"no answer at all", `{"e":"i","id":1,"c":1,"t":1,"op":"write","tb":1,"k":"a","v":"v1"}` + "\n" + read(3, 5, 6, found("v1", 8)), exitGood},
		{"a last line that was cut", read(3, 5, 6, nothing) + `{"e":"i","id":7,"c`, exitGood},
		{"a line in the middle that was cut", `{"e":"i","id":7,"c` + "\n" + read(3, 5, 6, nothing), exitUnreadable},
		{"an id used twice", read(3, 5, 6, nothing) + read(3, 5, 6, nothing), exitUnreadable},
		{"a response without an invocation", `{"e":"r","id":7,"t":1,"st":"ok"}` + "\n", exitUnreadable},
		{"two responses", read(3, 5, 6, nothing) + `{"e":"r","id":3,"t":7,"st":"ok"}` + "\n", exitUnreadable},
		{"a response from before", read(3, 6, 5, nothing), exitUnreadable},
		{"an operation that nobody checks", `{"e":"i","id":1,"c":1,"t":1,"op":"scan","tb":1,"k":"a"}` + "\n", exitUnreadable},
		{"a status that nobody knows", read(3, 5, 6, `"st":"maybe"`), exitUnreadable},
		{"a condition that nobody knows", write(2, 3, 4, `,"if":{"at_most":4}`, ok(6)), exitUnreadable},
		{"a client that does two things at once", strings.ReplaceAll(read(3, 5, 8, nothing)+read(4, 7, 9, nothing), `"c":4`, `"c":3`), exitUnreadable},
		{"a client that goes on after an unknown end", strings.ReplaceAll(write(3, 5, 8, "", info)+read(4, 9, 10, nothing), `"c":4`, `"c":3`), exitUnreadable},
		{"increments", incrLines(1, 1, 2, 2, "2", 5) + incrLines(2, 3, 4, 3, "5", 6), exitGood},
		{"an increment that counted twice", incrLines(1, 1, 2, 2, "2", 5) + incrLines(2, 3, 4, 3, "8", 6), exitViolation},
		{"a clear of nothing", clearLines(1, 1, 2, 5) + read(3, 5, 6, nothing) + write(4, 7, 8, "", ok(6)), exitGood},
		{"a clear of something", write(1, 1, 2, "", ok(5)) + clearLines(2, 3, 4, 6) + read(3, 5, 6, nothing), exitGood},
		{"what was cleared comes back", write(1, 1, 2, "", ok(5)) + clearLines(2, 3, 4, 6) + read(3, 5, 6, found("v1", 5)), exitViolation},
		{"a clear with an old version", write(1, 1, 2, "", ok(5)) + clearLines(2, 3, 4, 4), exitViolation},
		{"puts of one microsecond", putLines(1, 1, 2, 5) + putLines(2, 3, 4, 5) + read(3, 5, 6, found("v2", 5)), exitGood},
		{"a put is found before the one that it followed", putLines(1, 1, 2, 5) + putLines(2, 3, 4, 5) + read(3, 5, 6, found("v1", 5)), exitViolation},
		{"an unknown put of a new key is found", strings.Replace(putLines(1, 1, 2, 5), `"st":"ok","ver":5`, info, 1) + read(3, 5, 6, found("v1", 7)), exitGood},
		{"a put with an old version", putLines(1, 1, 2, 5) + putLines(2, 3, 4, 4), exitViolation},
		{"no header", "", exitUnreadable},
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		text := head + c.lines
		if c.name == "no header" {
			text = ""
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := run([]string{path}, &out, &out); code != c.code {
			t.Errorf("%s: exit code %d\n%s", c.name, code, out.String())
		}
	}
}

func putLines(id, from, to, version int) string {
	return fmt.Sprintf(`{"e":"i","id":%d,"c":%d,"t":%d,"op":"put","tb":1,"k":"a","v":"v%d"}
{"e":"r","id":%d,"t":%d,"st":"ok","ver":%d}
`, id, id, from, id, id, to, version)
}

func clearLines(id, from, to, version int) string {
	return fmt.Sprintf(`{"e":"i","id":%d,"c":%d,"t":%d,"op":"clear","tb":1,"k":"a"}
{"e":"r","id":%d,"t":%d,"st":"ok","ver":%d}
`, id, id, from, id, to, version)
}

func incrLines(id, from, to, by int, value string, version int) string {
	return fmt.Sprintf(`{"e":"i","id":%d,"c":%d,"t":%d,"op":"incr","tb":1,"k":"n","d":%d}
{"e":"r","id":%d,"t":%d,"st":"ok","ver":%d,"v":%q}
`, id, id, from, by, id, to, version, value)
}

func TestASpoiledCopyIsAFileThatIsRejected(t *testing.T) {
	dir := t.TempDir()
	good, bad, evidence := filepath.Join(dir, "good"), filepath.Join(dir, "bad"), filepath.Join(dir, "evidence")
	h := history{}
	for seed := int64(0); seed < 10; seed++ {
		name := keyName{1, fmt.Sprint("k", seed)}
		ops := generate(seed, registers)
		for i := range ops {
			ops[i].table, ops[i].key = name.table, name.key
			ops[i].id += uint64(seed) * 1000
			ops[i].client += uint64(seed) * 1000
		}
		h[name] = ops
	}
	if err := h.writeFile(good); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run([]string{"-mistakes", good}, &out, &out); code != exitGood {
		t.Fatalf("%d: %s", code, out.String())
	}
	if code := run([]string{"-spoil", "stale read", "-out", bad, good}, &out, &out); code != exitGood {
		t.Fatalf("%d: %s", code, out.String())
	}
	out.Reset()
	if code := run([]string{"-evidence", evidence, bad}, &out, &out); code != exitViolation || !strings.Contains(out.String(), "nothing explains") {
		t.Fatalf("%d: %s", code, out.String())
	}
	// The evidence is a history too, and wrong by itself.
	if code := run([]string{evidence}, &out, &out); code != exitViolation {
		t.Fatalf("%d: %s", code, out.String())
	}
	if code := run([]string{"-within", "0s", good}, &out, &out); code != exitUndecided {
		t.Fatalf("%d: %s", code, out.String())
	}
}
