// Checks histories of clients for linearizability, independently of everything that made them.
//
//	checker [-within 60s] [-mistakes] [-seed N] [-evidence FILE] [-json] FILE...   judges the history in these files
//	checker -spoil KIND -out FILE [-seed N] FILE...                                writes a copy with one mistake in it
//
// The search is porcupine's (github.com/anishathalye/porcupine); the model of a key is in model.go.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// How a run ends; worse things have precedence in this order: unreadable, violation, blind, undecided.
const (
	exitGood       = 0
	exitViolation  = 1
	exitUnreadable = 2
	exitUndecided  = 3
	exitBlind      = 4
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(arguments []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("checker", flag.ContinueOnError)
	flags.SetOutput(errs)
	within := flags.Duration("within", time.Minute, "for the search in all keys together; what is not decided then counts as failure")
	withMistakes := flags.Bool("mistakes", false, "also make every kind of mistake in a copy, and demand that each is found")
	seed := flags.Int64("seed", 1, "where mistakes are made")
	evidence := flags.String("evidence", "", "write the operations of the first wrong key to this file")
	asJSON := flags.Bool("json", false, "end with a line for programs")
	spoil := flags.String("spoil", "", "the kind of mistake that the copy gets")
	spoiled := flags.String("out", "", "the copy")
	flags.Usage = func() {
		fmt.Fprintln(errs, "checker [-within 60s] [-mistakes] [-seed N] [-evidence FILE] FILE...\nchecker -spoil KIND -out FILE [-seed N] FILE...")
		flags.PrintDefaults()
		fmt.Fprintln(errs, "exit codes: 0 linearizable, 1 not, 2 a file cannot be read, 3 undecided, 4 a mistake was not found\nkinds of mistakes:")
		for _, m := range mistakes {
			fmt.Fprintln(errs, "  "+m.name)
		}
	}
	if err := flags.Parse(arguments); err != nil {
		return exitUnreadable
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return exitUnreadable
	}
	h, err := readFiles(flags.Args())
	if err != nil {
		fmt.Fprintln(errs, "checker:", err)
		return exitUnreadable
	}
	if *spoil != "" {
		return writeSpoiled(h, *spoil, *spoiled, *seed, out, errs)
	}
	sums := h.count()
	code := verdict(h, &sums, *within, *evidence, out, errs)
	if *withMistakes {
		// Beside what is wrong already.
		if blind := findMistakes(h, &sums, *seed, *within, out); code == exitGood {
			code = blind
		}
	}
	if *asJSON {
		if err := json.NewEncoder(out).Encode(sums); err != nil {
			return exitUnreadable
		}
	}
	return code
}

// Judges every key; those that are not good are taken out.
func verdict(h history, sums *counts, within time.Duration, evidence string, out, errs io.Writer) int {
	begun := time.Now()
	findings := h.check(within)
	sums.print(out)
	code := exitGood
	for _, f := range findings {
		if f.undecided {
			sums.Undecided++
			fmt.Fprintf(out, "UNDECIDED: key %v, with %d operations\n", f.name, len(h[f.name]))
			if code == exitGood {
				code = exitUndecided
			}
			continue
		}
		v := violation{Table: f.name.table, Key: f.name.key}
		if f.culprit != nil {
			v.Client = f.culprit.client
		}
		sums.Violations = append(sums.Violations, v)
		tell(f, out)
		if code != exitViolation && evidence != "" {
			if err := (history{f.name: h[f.name]}).writeFile(evidence); err != nil {
				fmt.Fprintln(errs, "checker:", err)
			}
		}
		code = exitViolation
	}
	for _, f := range findings {
		delete(h, f.name)
	}
	if code == exitGood {
		fmt.Fprintf(out, "linearizable: %d keys, in %.1f s\n", len(h), time.Since(begun).Seconds())
	}
	return code
}

// How many operations before the unexplained answer are shown.
const shownCount = 12

func tell(f finding, out io.Writer) {
	fmt.Fprintf(out, "VIOLATION: key %v is not linearizable\n", f.name)
	if f.culprit == nil {
		return
	}
	fmt.Fprintf(out, "  nothing explains  %v\n", *f.culprit)
	from := 0
	if len(f.before) > shownCount {
		from = len(f.before) - shownCount
	}
	for _, op := range f.before[from:] {
		if op.id != f.culprit.id {
			fmt.Fprintf(out, "  before            %v\n", op)
		}
	}
}

// What a run came to.
type counts struct {
	Operations    int         `json:"operations"`
	Done          int         `json:"ok"`
	Refused       int         `json:"refused"`
	Failed        int         `json:"failed"`
	Unknown       int         `json:"unknown"`
	Keys          int         `json:"keys"`
	Violations    []violation `json:"violations"`
	Undecided     int         `json:"undecided"`
	MistakesFound int         `json:"mistakes_found"`
}

// A key that is not linearizable, and the client whose answer nothing explains.
type violation struct {
	Table  uint64 `json:"table"`
	Key    string `json:"key"`
	Client uint64 `json:"client"`
}

func (h history) count() counts {
	c := counts{Keys: len(h), Violations: []violation{}}
	for _, ops := range h {
		for _, op := range ops {
			c.Operations++
			switch op.outcome {
			case done:
				c.Done++
			case refused:
				c.Refused++
			case failed:
				c.Failed++
			case unknown:
				c.Unknown++
			}
		}
	}
	return c
}

func (c counts) print(out io.Writer) {
	fmt.Fprintf(out, "operations %d: %d ok, %d refused by their condition, %d failed, %d unknown\n", c.Operations, c.Done, c.Refused, c.Failed, c.Unknown)
}

// A checker that finds no mistake is blind: tries every kind in a copy of this very history.
func findMistakes(h history, sums *counts, seed int64, within time.Duration, out io.Writer) int {
	var found, missed, absent []string
	deadline := time.Now().Add(within)
	for _, m := range mistakes {
		name, ops := h.mistaken(m, seed)
		if ops == nil {
			absent = append(absent, m.name)
			continue
		}
		f := checkKey(name, ops, deadline)
		if f != nil && !f.undecided {
			found = append(found, m.name)
		} else {
			missed = append(missed, m.name)
			fmt.Fprintf(out, "NOT FOUND: '%s' made in key %v\n", m.name, name)
		}
	}
	sums.MistakesFound = len(found)
	fmt.Fprintf(out, "mistakes made in copies: %d found, %d not found", len(found), len(missed))
	if len(absent) > 0 {
		fmt.Fprintf(out, "; no place for: %s", strings.Join(absent, ", "))
	}
	fmt.Fprintln(out)
	if len(missed) > 0 || len(found) == 0 {
		return exitBlind
	}
	return exitGood
}

func writeSpoiled(h history, kind, path string, seed int64, out, errs io.Writer) int {
	for _, m := range mistakes {
		if m.name != kind {
			continue
		}
		name, ops := h.mistaken(m, seed)
		if ops == nil {
			fmt.Fprintf(errs, "checker: no key has a place for '%s'\n", kind)
			return exitUnreadable
		}
		h[name] = ops
		if err := h.writeFile(path); err != nil {
			fmt.Fprintln(errs, "checker:", err)
			return exitUnreadable
		}
		fmt.Fprintf(out, "made in key %v: %s\n", name, kind)
		return exitGood
	}
	fmt.Fprintf(errs, "checker: there is no kind of mistake '%s'\n", kind)
	return exitUnreadable
}
