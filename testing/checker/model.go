package main

// What one key may do: a register with versions.
//
// Every mutation gives the key a version above all it had before, also over removes. The version of a mutation whose
// outcome is unknown is not known either, until somebody reads it: until then only a bound is.
//
// A mutation with an unknown outcome takes effect whenever that is possible. That it never does is the same as its
// taking effect after everything else, which is always allowed, since its interval never ends.

import (
	"math"
	"strconv"

	"github.com/anishathalye/porcupine"
)

type state struct {
	value   string
	present bool
	// The version of the object; when not `exact`, its version is above this; when absent, versions to come are.
	version uint64
	exact   bool
}

var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, input, _ interface{}) (bool, interface{}) {
		after, ok := before.(state).step(input.(*operation))
		return ok, after
	},
	DescribeOperation: func(input, _ interface{}) string { return input.(*operation).String() },
}

func (s state) step(op *operation) (state, bool) {
	switch {
	case op.outcome == refused:
		return s.refuse(op)
	case op.kind == read:
		if !op.found {
			return s, !s.present && op.version == 0
		}
		if op.value != s.value {
			return s, false
		}
		return s.observe(op.version)
	case op.outcome == unknown:
		if s.allows(op.condition) {
			return s.perhaps(op), true
		}
		return s, true
	default:
		return s.mutate(op)
	}
}

// Somebody saw that the object has this version.
func (s state) observe(version uint64) (state, bool) {
	switch {
	case !s.present || version == 0:
		return s, false
	case s.exact:
		return s, version == s.version
	default:
		ok := version > s.version
		s.version, s.exact = version, true
		return s, ok
	}
}

// Whether the condition can hold.
func (s state) allows(c condition) bool {
	if (c.exists && !s.present) || (c.absent && s.present) {
		return false
	}
	if c.version == 0 {
		return true
	}
	_, ok := s.observe(c.version)
	return ok
}

// The condition did not hold.
func (s state) refuse(op *operation) (state, bool) {
	switch op.err {
	case notFound:
		return s, !s.present && (op.condition.exists || op.condition.version != 0)
	case exists:
		if !op.condition.absent {
			return s, false
		}
	case wrongVersion:
		if op.condition.version == 0 || op.condition.version == op.version {
			return s, false
		}
	}
	return s.observe(op.version)
}

// A mutation that was acknowledged.
func (s state) mutate(op *operation) (state, bool) {
	if !s.allows(op.condition) {
		return s, false
	}
	if op.kind == remove && op.version == 0 {
		return s, !s.present
	}
	if op.kind == remove && !s.present && !op.timed {
		return s, false
	}
	least := s.least(op)
	after, ok := s.result(op)
	if !ok || (op.kind == incr && op.value != after.value) {
		return s, false
	}
	after.version, after.exact = op.version, true
	return after, op.version >= least
}

// A mutation that may have been carried out, and is.
func (s state) perhaps(op *operation) state {
	if op.kind == remove && !s.present {
		return s
	}
	least := s.least(op)
	after, ok := s.result(op)
	if !ok {
		return s
	}
	after.version, after.exact = least, false
	if after.present {
		// Its version is at least this.
		after.version = least - 1
	}
	return after
}

// The least version that this mutation can have.
func (s state) least(op *operation) uint64 {
	switch {
	case op.timed && s.present && !s.exact:
		return s.version + 1
	case op.timed && s.version > 0:
		return s.version
	case op.condition.version != 0:
		return op.condition.version + 1
	case s.present && !s.exact:
		return s.version + 2
	default:
		return s.version + 1
	}
}

func (s state) result(op *operation) (state, bool) {
	switch op.kind {
	case remove:
		return state{}, true
	case incr:
		before := int64(0)
		if s.present {
			number, err := strconv.ParseInt(s.value, 10, 64)
			if err != nil {
				return s, false
			}
			before = number
		}
		if (op.delta > 0 && before > math.MaxInt64-op.delta) || (op.delta < 0 && before < math.MinInt64-op.delta) {
			return s, false
		}
		return state{present: true, value: strconv.FormatInt(before+op.delta, 10)}, true
	default:
		return state{present: true, value: op.value}, true
	}
}
