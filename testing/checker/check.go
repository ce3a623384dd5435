package main

// Every key by itself: a history is linearizable when each of its keys is.

import (
	"math"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

type finding struct {
	name keyName
	// The search did not end in time. That is no success.
	undecided bool
	// The first answer that nothing explains, and what was seen of the key before it; not for what is undecided.
	culprit *operation
	before  []operation
}

// Checks all keys within a time for all together. Findings are in the order of their names.
func (h history) check(within time.Duration) []finding {
	names := h.names()
	// The longest first, so that none of them begins last.
	sort.SliceStable(names, func(a, b int) bool { return len(h[names[a]]) > len(h[names[b]]) })
	deadline := time.Now().Add(within)
	work := make(chan keyName)
	var lock sync.Mutex
	var findings []finding
	var workers sync.WaitGroup
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for name := range work {
				if found := checkKey(name, h[name], deadline); found != nil {
					lock.Lock()
					findings = append(findings, *found)
					lock.Unlock()
				}
			}
		}()
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
	sort.Slice(findings, func(a, b int) bool { return less(findings[a].name, findings[b].name) })
	return findings
}

func (h history) names() []keyName {
	names := make([]keyName, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return less(names[a], names[b]) })
	return names
}

func less(a, b keyName) bool {
	if a.table != b.table {
		return a.table < b.table
	}
	return a.key < b.key
}

func checkKey(name keyName, ops []operation, deadline time.Time) *finding {
	switch judge(ops, deadline) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		culprit, before := firstUnexplained(ops, deadline)
		return &finding{name: name, culprit: culprit, before: before}
	default:
		return &finding{name: name, undecided: true}
	}
}

func judge(ops []operation, deadline time.Time) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		// To the library no time means no bound.
		return porcupine.Unknown
	}
	var events []porcupine.Operation
	for i := range ops {
		op := &ops[i]
		// A read without an answer says nothing, and neither does what surely had no effect.
		if op.outcome == failed || (op.kind == read && op.outcome == unknown) {
			continue
		}
		events = append(events, porcupine.Operation{ClientId: int(op.client), Input: op, Call: op.start, Return: op.end})
	}
	return porcupine.CheckOperationsTimeout(model, events, left)
}

// The answer that made a history wrong: without it and those after it, nothing is. `ops` are wrong as a whole.
func firstUnexplained(ops []operation, deadline time.Time) (*operation, []operation) {
	var ends []int64
	for _, op := range ops {
		if op.end != math.MaxInt64 {
			ends = append(ends, op.end)
		}
	}
	sort.Slice(ends, func(a, b int) bool { return ends[a] < ends[b] })
	first := sort.Search(len(ends)-1, func(i int) bool {
		return judge(until(ops, ends[i]), deadline) == porcupine.Illegal
	})
	for i := range ops {
		if ops[i].end == ends[first] {
			return &ops[i], until(ops, ends[first])
		}
	}
	return nil, ops
}

// What was known at a time: answers that came later have not come.
func until(ops []operation, time int64) []operation {
	var known []operation
	for _, op := range ops {
		if op.start > time {
			continue
		}
		if op.end > time {
			op.end, op.outcome, op.version, op.err = math.MaxInt64, unknown, 0, "no answer yet"
		}
		known = append(known, op)
	}
	return known
}
