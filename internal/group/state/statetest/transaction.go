package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// transactions has keys a, b and c before each row; c is deleted.
func transactions(f *fixture) {
	const absent, present, stale = "absent", "present", "stale" // what is compared
	for n, c := range []struct {
		compare string // keys, as in "a present, d absent"
		then    string // as in "a=1, b delete"
		want    string // the content afterwards; "": nothing was done
	}{
		{"", "a=1", "a=1 b=b"},
		{"a present", "a=1", "a=1 b=b"},
		{"a absent", "a=1", ""},
		{"a stale", "a=1", ""},
		{"d absent", "d=1", "a=a b=b d=1"},
		{"d stale", "d=1", ""},
		{"c absent", "c=1", "a=a b=b c=1"},
		{"c stale", "c=1", ""},
		{"a present, b present", "a=1, b=2", "a=1 b=2"},
		{"a present, b stale", "a=1, b=2", ""},
		{"a stale, b present", "a=1, b=2", ""},
		{"a present, d absent", "b=3", "a=a b=3"},
		{"a present, b absent", "d=3", ""},
		{"", "a delete", "b=b"},
		{"a present", "a delete", "b=b"},
		{"a stale", "a delete", ""},
		{"", "d delete", "a=a b=b"},
		{"", "c delete, a=1", "a=1 b=b"},
		{"a present", "b delete, c=1, d=2", "a=a c=1 d=2"},
		{"a present", "", "a=a b=b"},
		{"a stale", "", ""},
		{"", "a=", "a= b=b"},
		{"a present, a stale", "a=1", ""},
	} {
		at := fmt.Sprintf("row%d/", n)
		before := f.put(at+"a", "old")
		f.txn(state.Txn{Then: []state.Op{put(at+"a", "a"), put(at+"b", "b"), put(at+"c", "c")}})
		f.txn(state.Txn{Then: []state.Op{{Key: at + "c", Delete: true}}})
		var t state.Txn
		for _, s := range fields(c.compare) {
			key, what, _ := strings.Cut(s, " ")
			r := map[string]state.Revision{absent: 0, present: f.revision(at + key), stale: before}[what]
			t.If = append(t.If, state.Compare{Key: at + key, Revision: r})
		}
		for _, s := range fields(c.then) {
			key, value, isPut := strings.Cut(s, "=")
			key, _, _ = strings.Cut(key, " ")
			t.Then = append(t.Then, state.Op{Key: at + key, Value: []byte(value), Delete: !isPut})
		}
		want := c.want
		if want == "" {
			want = "a=a b=b"
		}
		if r := f.txn(t); r.Done != (c.want != "") {
			f.Errorf("if %s then %s: done %v", c.compare, c.then, r.Done)
		}
		if got := contents(f.get(at), at); got != want {
			f.Errorf("if %s then %s: then there is %s, want %s", c.compare, c.then, got, want)
		}
	}
}

func fields(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ", ")
}

func contents(snap state.Snapshot, prefix string) string {
	var all []string
	for _, e := range snap.Entries {
		all = append(all, strings.TrimPrefix(e.Key, prefix)+"="+string(e.Value))
	}
	return strings.Join(all, " ")
}

// revisions increase with each step, and are those of the keys that it put.
func revisions(f *fixture) {
	if snap := f.get(""); len(snap.Entries) != 0 {
		f.Fatalf("a new store has %v", snap.Entries)
	}
	last := f.put("a", "1")
	if last == 0 {
		f.Fatal("the revision of a step is 0")
	}
	for n := range 5 {
		r := f.txn(state.Txn{
			If:   []state.Compare{{Key: "a", Revision: last}},
			Then: []state.Op{put("a", fmt.Sprint(n)), put(fmt.Sprint("b", n), "x")},
		})
		if !r.Done || r.Revision <= last {
			f.Fatalf("step %v after revision %d", r, last)
		}
		last = r.Revision
		if a, b := f.revision("a"), f.revision(fmt.Sprint("b", n)); a != last || b != last {
			f.Errorf("keys of step %d have revisions %d and %d", last, a, b)
		}
	}
	if got := f.get("").Revision; got < last {
		f.Errorf("a snapshot after step %d is of revision %d", last, got)
	}
	if f.revision("b0") == last {
		f.Error("the revision of a key changes without it")
	}
	if r := f.txn(state.Txn{If: []state.Compare{{Key: "a"}}}); r.Done || r.Revision < last {
		f.Errorf("what was not done is %v after step %d", r, last)
	}
	f.txn(state.Txn{Then: []state.Op{{Key: "a", Delete: true}}})
	if again := f.put("a", "1"); again <= last {
		f.Errorf("deleted and put again: revision %d after %d", again, last)
	}
}

func limits(f *fixture) {
	large := bytes.Repeat([]byte{'v'}, state.MaxValue)
	key := strings.Repeat("k", state.MaxKey)
	ops := func(n int) (all []state.Op) {
		for i := range n {
			all = append(all, put(fmt.Sprintf("%s%03d", key[3:], i), "v"))
		}
		return all
	}
	for name, c := range map[string]struct {
		t       state.Txn
		refused bool
		large   bool
	}{
		"largest value":   {state.Txn{Then: []state.Op{{Key: key, Value: large}}}, false, false},
		"most operations": {state.Txn{Then: ops(state.MaxOps)}, false, false},
		"most bytes": {state.Txn{Then: []state.Op{{Key: "a", Value: large},
			{Key: "b", Value: large[:state.MaxTxn-state.MaxValue-2]}}}, false, false},
		"value":                {state.Txn{Then: []state.Op{{Key: "a", Value: append(large, 0)}}}, true, true},
		"key":                  {state.Txn{Then: []state.Op{put(key+"k", "v")}}, true, true},
		"key compared":         {state.Txn{If: []state.Compare{{Key: key + "k"}}}, true, true},
		"operations":           {state.Txn{Then: ops(state.MaxOps + 1)}, true, true},
		"comparisons count":    {state.Txn{If: []state.Compare{{Key: "a"}}, Then: ops(state.MaxOps)}, true, true},
		"bytes":                {state.Txn{Then: []state.Op{{Key: "a", Value: large}, {Key: "b", Value: large[:state.MaxTxn-state.MaxValue-1]}}}, true, true},
		"empty key":            {state.Txn{Then: []state.Op{put("", "v")}}, true, false},
		"empty key compared":   {state.Txn{If: []state.Compare{{}}}, true, false},
		"two on the same key":  {state.Txn{Then: []state.Op{put("a", "v"), {Key: "a", Delete: true}}}, true, false},
		"two puts on the same": {state.Txn{Then: []state.Op{put("a", "v"), put("a", "w")}}, true, false},
	} {
		before := f.get("")
		r, err := f.s.Txn(f.ctx, c.t)
		switch {
		case !c.refused && (err != nil || !r.Done):
			f.Errorf("%s: %v, %v", name, r, err)
		case c.refused && (err == nil || errors.Is(err, state.ErrUnknown) || errors.Is(err, state.ErrTooLarge) != c.large):
			f.Errorf("%s: %v", name, err)
		case c.refused && f.get("").Revision != before.Revision:
			f.Errorf("%s was refused, and carried out", name)
		}
		for key := range maps.Keys(keys(c.t)) {
			f.txn(state.Txn{Then: []state.Op{{Key: key, Delete: true}}})
		}
	}
}

// keys returns the keys that a transaction may have put.
func keys(t state.Txn) map[string]bool {
	all := map[string]bool{}
	for _, o := range t.Then {
		if t.Check() == nil {
			all[o.Key] = true
		}
	}
	return all
}

func prefixes(f *fixture) {
	for _, key := range []string{"a/1", "a", "b", "a/2", "a0", "a/\xff", "ab", "A/1", "a/ü"} {
		f.put(key, key)
	}
	for prefix, want := range map[string][]string{
		"":       {"A/1", "a", "a/1", "a/2", "a/ü", "a/\xff", "a0", "ab", "b"},
		"a":      {"a", "a/1", "a/2", "a/ü", "a/\xff", "a0", "ab"},
		"a/":     {"a/1", "a/2", "a/ü", "a/\xff"},
		"a/\xff": {"a/\xff"},
		"a/1":    {"a/1"},
		"c":      nil,
		"a/1/":   nil,
	} {
		var got []string
		for _, e := range f.get(prefix).Entries {
			got = append(got, e.Key)
			if string(e.Value) != e.Key {
				f.Errorf("%q has the value %q", e.Key, e.Value)
			}
		}
		if !slices.Equal(got, want) {
			f.Errorf("Get(%q): %q, want %q", prefix, got, want)
		}
	}
}

// ownValues: both sides may modify what they have passed or received.
func ownValues(f *fixture) {
	value := []byte("before")
	f.txn(state.Txn{Then: []state.Op{{Key: "a", Value: value}}})
	copy(value, "WRONG!")
	for range 2 {
		got := f.get("a").Entries[0].Value
		if string(got) != "before" {
			f.Fatalf("the value is %q", got)
		}
		copy(got, "WRONG!")
	}
}
