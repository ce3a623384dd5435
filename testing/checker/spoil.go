package main

// Histories made wrong on purpose: a checker that accepts one of them is blind.
//
// Each kind of mistake takes the operations of one key and makes one change after which they are wrong for certain,
// whatever was concurrent. It gives nothing when the key has no place for it.

import (
	"math"
	"math/rand"
	"sort"
	"strconv"
)

type mistake struct {
	name  string
	spoil func(k *keyOps) bool
}

// The operations of one key, with what the mistakes look for.
type keyOps struct {
	all []operation
	rng *rand.Rand
	// Indices of acknowledged mutations with a version, by version.
	mutations []int
	// Of reads that found something.
	reads  []int
	byVers map[uint64]int
}

func newKeyOps(ops []operation, rng *rand.Rand) *keyOps {
	k := &keyOps{all: append([]operation(nil), ops...), rng: rng, byVers: map[uint64]int{}}
	for i, op := range k.all {
		switch {
		case op.outcome == done && op.kind == read && op.found:
			k.reads = append(k.reads, i)
		case op.outcome == done && op.kind != read && op.version > 0:
			k.mutations = append(k.mutations, i)
			k.byVers[op.version] = i
		}
	}
	sort.Slice(k.mutations, func(a, b int) bool { return k.all[k.mutations[a]].version < k.all[k.mutations[b]].version })
	return k
}

// The first pair from a random place on that fits, as operations that may be changed.
func (k *keyOps) pair(as, bs []int, fits func(a, b *operation) bool) (*operation, *operation) {
	if len(as) == 0 || len(bs) == 0 {
		return nil, nil
	}
	from := k.rng.Intn(len(bs))
	for j := range bs {
		b := &k.all[bs[(from+j)%len(bs)]]
		start := k.rng.Intn(len(as))
		// A key may have many operations: the first few hundred are enough to find one.
		for i := 0; i < len(as) && i < 300; i++ {
			if a := &k.all[as[(start+i)%len(as)]]; a != b && fits(a, b) {
				return a, b
			}
		}
	}
	return nil, nil
}

func (k *keyOps) add(op operation) {
	// Nobody's in the whole history.
	op.id = 1<<62 + uint64(len(k.all))
	op.client = 1<<61 + uint64(len(k.all))
	k.all = append(k.all, op)
}

// Whether some removal, of whatever outcome, may have taken effect between these times.
func (k *keyOps) removedBetween(from, to int64) bool {
	for _, op := range k.all {
		mayHappen := op.outcome == done || op.outcome == unknown
		if op.kind == remove && mayHappen && op.end >= from && op.start <= to {
			return true
		}
	}
	return false
}

// The acknowledged write of what a read has found.
func (k *keyOps) written(r *operation) *operation {
	if i, ok := k.byVers[r.version]; ok && k.all[i].kind == write && k.all[i].value == r.value {
		return &k.all[i]
	}
	return nil
}

func isWrite(op *operation) bool { return op.kind == write }

// `a` was acknowledged before `b` began.
func precedes(a, b *operation) bool { return a.end < b.start }

var mistakes = []mistake{
	{"stale read", func(k *keyOps) bool {
		// Another mutation was acknowledged before the read that finds what was there before it.
		old, r := k.pair(k.mutations, k.reads, func(old, r *operation) bool {
			return isWrite(old) && old.version < r.version && k.written(r) != nil && precedes(k.written(r), r)
		})
		return r != nil && set(r, old.value, old.version)
	}},
	{"stale read of nothing", func(k *keyOps) bool {
		w, r := k.pair(k.mutations, k.reads, func(w, r *operation) bool {
			return isWrite(w) && precedes(w, r) && !k.removedBetween(w.start, r.end)
		})
		return w != nil && clear(r)
	}},
	{"lost last write", func(k *keyOps) bool {
		// Whoever reads at the end finds the mutation before it.
		var end int64
		for _, op := range k.all {
			if op.end != math.MaxInt64 && op.end > end {
				end = op.end
			}
		}
		for i := len(k.mutations) - 1; i > 0; i-- {
			if before := k.all[k.mutations[i-1]]; isWrite(&before) {
				k.add(operation{kind: read, table: before.table, key: before.key, outcome: done, found: true,
					value: before.value, version: before.version, start: end + 1, end: end + 2})
				return true
			}
		}
		return false
	}},
	{"lost write", func(k *keyOps) bool {
		// It was acknowledged, and the next conditional write finds the version before it.
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return isWrite(a) && isWrite(b) && a.version < b.version && precedes(a, b)
		})
		if a == nil {
			return false
		}
		k.add(operation{kind: write, table: a.table, key: a.key, value: "new", condition: condition{version: a.version},
			outcome: done, version: b.version + 1, start: b.end + 1, end: b.end + 2})
		return true
	}},
	{"resurrection", func(k *keyOps) bool {
		d, r := k.pair(k.mutations, k.reads, func(d, r *operation) bool { return d.kind == remove && precedes(d, r) })
		if d == nil {
			return false
		}
		for _, i := range k.mutations {
			if w := k.all[i]; isWrite(&w) && w.version < d.version {
				return set(r, w.value, w.version)
			}
		}
		return false
	}},
	{"doubled write", func(k *keyOps) bool {
		// What was written once comes back with another version.
		w, r := k.pair(k.mutations, k.reads, func(w, r *operation) bool {
			return isWrite(w) && w.version < r.version && w.value != r.value && precedes(w, r)
		})
		return w != nil && set(r, w.value, r.version+1)
	}},
	{"doubled remove", func(k *keyOps) bool {
		for _, i := range k.mutations {
			if d := k.all[i]; d.kind == remove && !d.timed {
				d.start, d.end = d.end+1, d.end+2
				k.add(d)
				return true
			}
		}
		return false
	}},
	{"doubled conditional write", func(k *keyOps) bool {
		// Two of them find the same version.
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return isWrite(b) && b.condition.isNone() && a.version < b.version && precedes(a, b)
		})
		if a == nil {
			return false
		}
		again := *b
		again.condition = condition{version: a.version}
		again.value, again.version = "new", b.version+1
		again.start, again.end = b.end+1, b.end+2
		k.add(again)
		return true
	}},
	{"read of what nobody wrote", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool { return set(r, "nobody's", r.version) })
	}},
	{"read of the future", func(k *keyOps) bool {
		w, r := k.pair(k.mutations, k.reads, func(w, r *operation) bool { return isWrite(w) && r.end < w.start })
		return w != nil && set(r, w.value, w.version)
	}},
	{"read before its write", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool {
			w := k.written(r)
			if w == nil || w.start < 2 {
				return false
			}
			r.start, r.end = w.start-2, w.start-1
			// The one that it was may have been at something else then.
			r.client = 1<<61 + r.id
			return true
		})
	}},
	{"values swapped", func(k *keyOps) bool {
		a, b := k.pair(k.reads, k.reads, func(a, b *operation) bool {
			return a.value != b.value && k.written(a) != nil && k.written(b) != nil
		})
		return a != nil && set(a, b.value, a.version)
	}},
	{"version of nobody", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool { return k.written(r) != nil && set(r, r.value, r.version+1_000_000) })
	}},
	{"read without a version", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool { return set(r, r.value, 0) })
	}},
	{"version goes back", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return a.version > 1 && a.version < b.version && precedes(a, b)
		})
		if a == nil {
			return false
		}
		b.version = a.version - 1
		return true
	}},
	{"version given twice", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return !b.timed && a.version < b.version && precedes(a, b)
		})
		if a == nil {
			return false
		}
		b.version = a.version
		return true
	}},
	{"writes reordered", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool { return a.version < b.version && precedes(a, b) })
		if a == nil {
			return false
		}
		a.version, b.version = b.version, a.version
		return true
	}},
	{"failed and carried out", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool {
			w := k.written(r)
			if w == nil {
				return false
			}
			w.outcome, w.version, w.err = failed, 0, "unreachable"
			return true
		})
	}},
	{"refused and carried out", func(k *keyOps) bool {
		return k.anyRead(func(r *operation) bool {
			w := k.written(r)
			if w == nil {
				return false
			}
			w.condition = condition{version: w.version + 1}
			w.outcome, w.err = refused, wrongVersion
			return true
		})
	}},
	{"refused for the version it has", func(k *keyOps) bool {
		for _, i := range k.mutations {
			if w := &k.all[i]; w.condition.version != 0 {
				w.outcome, w.err, w.version = refused, wrongVersion, w.condition.version
				return true
			}
		}
		return false
	}},
	{"condition on a version that is gone", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return a.version < b.version && precedes(a, b) && b.version-a.version > 1
		})
		if a == nil {
			return false
		}
		// Another mutation has come between them, and was acknowledged before.
		for _, i := range k.mutations {
			c := &k.all[i]
			if c.version > a.version && c.version < b.version && precedes(c, b) {
				b.condition = condition{version: a.version}
				return true
			}
		}
		return false
	}},
	{"made though it was there", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, func(a, b *operation) bool {
			return isWrite(a) && isWrite(b) && precedes(a, b) && !k.removedBetween(a.start, b.end)
		})
		if a == nil {
			return false
		}
		b.condition = condition{absent: true}
		return true
	}},
	{"nothing to remove though it was there", func(k *keyOps) bool {
		w, r := k.pair(k.mutations, k.reads, func(w, r *operation) bool {
			return isWrite(w) && precedes(w, r) && !k.removedBetween(w.start, r.end)
		})
		if w == nil {
			return false
		}
		k.add(operation{kind: remove, table: w.table, key: w.key, outcome: done, start: r.start, end: r.end})
		return true
	}},
	{"not found though it was there", func(k *keyOps) bool {
		w, r := k.pair(k.mutations, k.reads, func(w, r *operation) bool {
			return isWrite(w) && precedes(w, r) && !k.removedBetween(w.start, r.end)
		})
		if w == nil {
			return false
		}
		k.add(operation{kind: write, table: w.table, key: w.key, value: "new", condition: condition{exists: true},
			outcome: refused, err: notFound, start: r.start, end: r.end})
		return true
	}},
	{"doubled increment", func(k *keyOps) bool {
		// More than all of them together.
		sum := int64(0)
		for _, op := range k.all {
			sum += op.delta
		}
		return k.onlyGrows() && k.anyMutation(func(op *operation) bool {
			op.value = strconv.FormatInt(sum+1, 10)
			return true
		})
	}},
	{"lost increment", func(k *keyOps) bool {
		a, b := k.pair(k.mutations, k.mutations, precedes)
		if a == nil || !k.onlyGrows() {
			return false
		}
		b.value = a.value
		return true
	}},
}

func set(r *operation, value string, version uint64) bool {
	r.value, r.version = value, version
	return true
}

func clear(r *operation) bool {
	r.found, r.value, r.version = false, "", 0
	return true
}

func (k *keyOps) anyRead(change func(r *operation) bool) bool {
	for _, j := range k.rng.Perm(len(k.reads)) {
		if change(&k.all[k.reads[j]]) {
			return true
		}
	}
	return false
}

func (k *keyOps) anyMutation(change func(op *operation) bool) bool {
	return len(k.mutations) > 0 && change(&k.all[k.mutations[k.rng.Intn(len(k.mutations))]])
}

// A key of increments by more than nothing, and reads.
func (k *keyOps) onlyGrows() bool {
	for _, op := range k.all {
		if op.kind != read && (op.kind != incr || op.delta <= 0) {
			return false
		}
	}
	return true
}

// Makes one mistake of a kind in a copy of a key's operations; nil when there is no place for it.
func (m mistake) make(ops []operation, seed int64) []operation {
	k := newKeyOps(ops, rand.New(rand.NewSource(seed)))
	if !m.spoil(k) {
		return nil
	}
	sortByStart(k.all)
	return k.all
}

// One mistake somewhere in a history: in which key, and its operations with it; none when no key has a place for it.
func (h history) mistaken(m mistake, seed int64) (keyName, []operation) {
	names := h.names()
	for _, i := range rand.New(rand.NewSource(seed)).Perm(len(names)) {
		if ops := m.make(h[names[i]], seed); ops != nil {
			return names[i], ops
		}
	}
	return keyName{}, nil
}
