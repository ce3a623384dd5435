package main

// Histories in the format hist/v1: JSON lines, a header, then two lines per operation.
//
//	{"h":"hist/v1","run":"..","seed":4711,"clock":"mono_ns",..}
//	{"e":"i","id":17,"c":3,"t":1002003,"op":"write","tb":1,"k":"a7","v":"3.17","if":{"ver":5}}
//	{"e":"r","id":17,"t":1002950,"st":"ok","ver":6}
//
// Several files are one history: ids are unique over all of them, and one clock is behind all times.
// A file may end in the middle of a line, because its writer was killed. Whatever else is wrong is an error.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
)

const (
	lineBytesMax = 1 << 20
	// Some 4 GB of memory.
	operationCountMax = 10_000_000
)

type kind uint8

const (
	read kind = iota
	write
	remove
	incr
)

var kindNames = map[string]kind{"read": read, "write": write, "delete": remove, "incr": incr}

// Mutations in a quorum table. Their version is a time, so two of different clients may have the same. Bricks do not know
// whether there was an object to remove.
var timedNames = map[string]kind{"put": write, "clear": remove}

func (k kind) String() string {
	for name, other := range kindNames {
		if k == other {
			return name
		}
	}
	return "?"
}

type outcome uint8

const (
	// Unknown is also the outcome of an operation without an answer: it may take effect at any later time, or never.
	unknown outcome = iota
	done
	// Refused by its own condition: an observation.
	refused
	// Surely without effect, for a reason that says nothing of the object.
	failed
)

// What must hold for a mutation to be carried out.
type condition struct {
	version        uint64 // 0: none
	exists, absent bool
}

func (c condition) isNone() bool { return c == condition{} }

// One operation of a client. Times are nanoseconds of one monotonic clock; `end` is the end of time when the outcome is unknown.
type operation struct {
	id, client uint64
	kind       kind
	// In a quorum table: see timedNames.
	timed bool
	table uint64
	key   string
	// Written, or found by a read, or what an increment came to.
	value string
	// Whether a read has found something.
	found      bool
	delta      int64
	condition  condition
	start, end int64
	outcome    outcome
	// Of the object after the operation, as told; 0: not told, or there is no object.
	version uint64
	// What was said when it did not end as done.
	err string
}

type keyName struct {
	table uint64
	key   string
}

func (k keyName) String() string { return fmt.Sprintf("%q of table %d", k.key, k.table) }

type history map[keyName][]operation

// The lines as they are written.
type line struct {
	Header  string      `json:"h,omitempty"`
	Event   string      `json:"e,omitempty"`
	ID      uint64      `json:"id,omitempty"`
	Client  uint64      `json:"c,omitempty"`
	Time    int64       `json:"t,omitempty"`
	Op      string      `json:"op,omitempty"`
	Table   uint64      `json:"tb,omitempty"`
	Key     *string     `json:"k,omitempty"`
	Value   *string     `json:"v,omitempty"`
	Delta   int64       `json:"d,omitempty"`
	If      *conditions `json:"if,omitempty"`
	Status  string      `json:"st,omitempty"`
	Version uint64      `json:"ver,omitempty"`
	Err     string      `json:"err,omitempty"`
}

type conditions struct {
	Version uint64 `json:"ver,omitempty"`
	Exists  bool   `json:"exists,omitempty"`
	Absent  bool   `json:"absent,omitempty"`
}

// A condition that is passed over would make wrong histories right.
func (c *conditions) UnmarshalJSON(text []byte) error {
	type plain conditions
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(c))
}

// Reads several files as one history.
func readFiles(paths []string) (history, error) {
	operations := map[uint64]*operation{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		err = readInto(operations, file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := checkClients(operations); err != nil {
		return nil, err
	}
	return byKey(operations), nil
}

// A client does one operation at a time, and none after one whose end it does not know: otherwise whoever wrote the
// history has made a mistake.
func checkClients(operations map[uint64]*operation) error {
	byClient := map[uint64][]*operation{}
	for _, op := range operations {
		byClient[op.client] = append(byClient[op.client], op)
	}
	for client, ops := range byClient {
		sort.Slice(ops, func(a, b int) bool { return ops[a].start < ops[b].start })
		for i := 1; i < len(ops); i++ {
			if ops[i-1].end > ops[i].start {
				return fmt.Errorf("client %d begins operation %d during %d, or after its unknown end", client, ops[i].id, ops[i-1].id)
			}
		}
	}
	return nil
}

func byKey(operations map[uint64]*operation) history {
	h := history{}
	for _, op := range operations {
		name := keyName{op.table, op.key}
		h[name] = append(h[name], *op)
	}
	for _, ops := range h {
		sortByStart(ops)
	}
	return h
}

func sortByStart(ops []operation) {
	sort.Slice(ops, func(a, b int) bool {
		if ops[a].start != ops[b].start {
			return ops[a].start < ops[b].start
		}
		return ops[a].id < ops[b].id
	})
}

func readInto(operations map[uint64]*operation, file io.Reader) error {
	reader := bufio.NewReaderSize(file, lineBytesMax)
	for number := 1; ; number++ {
		text, err := reader.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			// What follows the last end of line was being written when the writer was killed.
			if number == 1 {
				return errors.New("no header")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := take(operations, number, text); err != nil {
			return fmt.Errorf("line %d: %w: %s", number, err, bytes.TrimSpace(text))
		}
	}
}

func take(operations map[uint64]*operation, number int, text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case number == 1:
		if l.Header != "hist/v1" {
			return errors.New("not a history in the format hist/v1")
		}
		return nil
	case l.Event == "i":
		return begin(operations, &l)
	case l.Event == "r":
		return end(operations, &l)
	default:
		return errors.New("neither an invocation nor a response")
	}
}

func begin(operations map[uint64]*operation, l *line) error {
	kind, ok := kindNames[l.Op]
	timed := false
	if !ok {
		kind, timed = timedNames[l.Op]
	}
	if !ok && !timed {
		return fmt.Errorf("operation %q is not known here", l.Op)
	}
	if l.Key == nil {
		return errors.New("no key")
	}
	if operations[l.ID] != nil {
		return fmt.Errorf("id %d is used twice", l.ID)
	}
	if len(operations) >= operationCountMax {
		return fmt.Errorf("more than %d operations", operationCountMax)
	}
	op := &operation{
		id: l.ID, client: l.Client, kind: kind, timed: timed, table: l.Table, key: *l.Key,
		delta: l.Delta, start: l.Time, end: math.MaxInt64, err: "no answer",
	}
	if kind == write {
		if l.Value == nil {
			return errors.New("a write without a value")
		}
		op.value = *l.Value
	}
	if l.If != nil {
		op.condition = condition{l.If.Version, l.If.Exists, l.If.Absent}
		if kind == read || kind == incr || timed {
			return fmt.Errorf("a condition of a %s is not known here", kind)
		}
	}
	operations[l.ID] = op
	return nil
}

func end(operations map[uint64]*operation, l *line) error {
	op := operations[l.ID]
	if op == nil || op.end != math.MaxInt64 || op.err != "no answer" {
		return fmt.Errorf("a response to %d, which is not under way", l.ID)
	}
	if l.Time < op.start {
		return errors.New("a response before its invocation")
	}
	op.err = l.Err
	op.version = l.Version
	switch l.Status {
	case "ok":
		op.outcome, op.end = done, l.Time
		if op.kind == read || op.kind == incr {
			op.found = l.Value != nil
			if op.found {
				op.value = *l.Value
			}
		}
		if op.kind == incr && !op.found {
			return errors.New("an increment without its result")
		}
	case "fail":
		op.outcome, op.end = failed, l.Time
		if !op.condition.isNone() && isRefusal(l.Err) {
			op.outcome = refused
		}
	case "info":
		op.outcome, op.version = unknown, 0
	default:
		return fmt.Errorf("status %q is not known here", l.Status)
	}
	return nil
}

// What conditions are refused with.
const (
	wrongVersion = "wrong_version"
	notFound     = "not_found"
	exists       = "exists"
)

func isRefusal(err string) bool { return err == wrongVersion || err == notFound || err == exists }

// One line, to be written.
type fields map[string]interface{}

// Writes a history as one file, in the order of time.
func (h history) writeFile(path string) error {
	type event struct {
		time int64
		line fields
	}
	var events []event
	for _, ops := range h {
		for _, op := range ops {
			began, ended := op.lines()
			events = append(events, event{op.start, began})
			if ended != nil {
				events = append(events, event{op.end, ended})
			}
		}
	}
	// Invocations were put before their responses, and stay there.
	sort.SliceStable(events, func(a, b int) bool { return events[a].time < events[b].time })
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	if err := encoder.Encode(map[string]string{"h": "hist/v1", "clock": "mono_ns"}); err != nil {
		return err
	}
	for _, event := range events {
		if err := encoder.Encode(event.line); err != nil {
			return err
		}
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// The invocation, and the response when there is one.
func (op *operation) lines() (fields, fields) {
	began := fields{"e": "i", "id": op.id, "c": op.client, "t": op.start, "op": op.kind.String(), "tb": op.table, "k": op.key}
	for name, kind := range timedNames {
		if op.timed && op.kind == kind {
			began["op"] = name
		}
	}
	switch op.kind {
	case write:
		began["v"] = op.value
	case incr:
		began["d"] = op.delta
	}
	if !op.condition.isNone() {
		began["if"] = conditions{op.condition.version, op.condition.exists, op.condition.absent}
	}
	if op.end == math.MaxInt64 {
		return began, nil
	}
	ended := fields{"e": "r", "id": op.id, "t": op.end}
	switch {
	case op.outcome == done && op.kind == read && !op.found:
		ended["st"], ended["ver"], ended["v"] = "ok", op.version, nil
	case op.outcome == done && (op.kind == read || op.kind == incr):
		ended["st"], ended["ver"], ended["v"] = "ok", op.version, op.value
	case op.outcome == done:
		ended["st"], ended["ver"] = "ok", op.version
	case op.outcome == refused:
		ended["st"], ended["err"], ended["ver"] = "fail", op.err, op.version
	default:
		ended["st"], ended["err"] = "fail", op.err
	}
	return began, ended
}

// One operation in words.
func (op operation) String() string {
	text := fmt.Sprintf("#%d client %d: %s", op.id, op.client, op.kind)
	if op.kind == write {
		text += " " + op.value
	}
	if op.kind == incr {
		text += fmt.Sprintf(" by %d", op.delta)
	}
	switch {
	case op.condition.version != 0:
		text += fmt.Sprintf(" if version %d", op.condition.version)
	case op.condition.exists:
		text += " if it exists"
	case op.condition.absent:
		text += " if it is absent"
	}
	switch op.outcome {
	case done:
		switch {
		case op.kind == read && !op.found:
			text += " -> nothing"
		case op.kind == read || op.kind == incr:
			text += fmt.Sprintf(" -> %s, version %d", op.value, op.version)
		default:
			text += fmt.Sprintf(" -> version %d", op.version)
		}
	case refused:
		text += fmt.Sprintf(" -> refused: %s, version %d", op.err, op.version)
	case failed:
		text += " -> failed: " + op.err
	case unknown:
		return text + fmt.Sprintf(" -> unknown (%s) [%d ..", op.err, op.start)
	}
	return text + fmt.Sprintf(" [%d .. %d]", op.start, op.end)
}
