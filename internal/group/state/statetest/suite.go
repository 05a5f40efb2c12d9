package statetest

import (
	"context"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A System is a store as a test meets it, with nothing in it.
type System struct {
	Open func() state.Store // another client, which the test closes

	// What befalls all clients from on to off. Tests of what is nil are skipped.
	LoseReplies func(on bool) // transactions are carried out, and nobody hears of it
	Cut         func(on bool) // the store cannot be reached

	Within time.Duration // what a watch may take; 0: the second of the contract
}

// A Suite is how an implementation is tested.
type Suite struct {
	New func(t *testing.T) System
	// In runs a test, in a bubble of testing/synctest perhaps. nil: it is called.
	In func(t *testing.T, test func(*testing.T))
	// Parallel tests run at the same time: faults of one befall no other.
	Parallel bool
}

// Run runs all tests.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"Transactions", transactions},
		{"Revisions", revisions},
		{"Limits", limits},
		{"Prefixes", prefixes},
		{"WholeSnapshots", wholeSnapshots},
		{"OwnValues", ownValues},
		{"Watch", watches},
		{"WatchEachChange", watchEachChange},
		{"Contexts", contexts},
		{"Close", closes},
		{"CloseUnderWay", closeUnderWay},
		{"LostReplies", lostReplies},
		{"Cut", cut},
		{"WatchAfterCut", watchAfterCut},
		{"Linearizable", linearizable},
		{"LinearizableWithLostReplies", linearizableWithLostReplies},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s.Parallel {
				t.Parallel()
			}
			test := func(t *testing.T) { c.test(s.fixture(t)) }
			if s.In == nil {
				test(t)
			} else {
				s.In(t, test)
			}
		})
	}
}

// A fixture is what one test has.
type fixture struct {
	*testing.T
	System
	ctx context.Context
	s   state.Store // the first client
}

func (s Suite) fixture(t *testing.T) *fixture {
	f := &fixture{T: t, System: s.New(t), ctx: t.Context()}
	if f.Within == 0 {
		f.Within = time.Second
	}
	f.s = f.open()
	return f
}

func (f *fixture) open() state.Store {
	s := f.Open()
	f.Cleanup(func() { s.Close() }) //nolint:errcheck // its own test looks at that
	return s
}

func (f *fixture) get(prefix string) state.Snapshot {
	f.Helper()
	snap, err := f.s.Get(f.ctx, prefix)
	if err != nil {
		f.Fatalf("Get(%q): %v", prefix, err)
	}
	return snap
}

// revision is that of a key.
func (f *fixture) revision(key string) state.Revision {
	f.Helper()
	for _, e := range f.get(key).Entries {
		if e.Key == key {
			return e.Revision
		}
	}
	return 0
}

func (f *fixture) txn(t state.Txn) state.Result {
	f.Helper()
	r, err := f.s.Txn(f.ctx, t)
	if err != nil {
		f.Fatalf("Txn(%v): %v", t, err)
	}
	return r
}

func put(key, value string) state.Op { return state.Op{Key: key, Value: []byte(value)} }

func (f *fixture) put(key, value string) state.Revision {
	f.Helper()
	r := f.txn(state.Txn{Then: []state.Op{put(key, value)}})
	if !r.Done {
		f.Fatalf("a transaction without comparisons was not done: %v", r)
	}
	return r.Revision
}
