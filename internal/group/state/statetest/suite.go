package statetest

import (
	"context"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A System is an empty store under test.
type System struct {
	Open func() state.Store // opens another client, which the test closes

	// Faults that affect all clients from on to off. If a function is nil, its tests are skipped.
	LoseReplies func(on bool) // transactions are executed, but replies are lost
	Cut         func(on bool) // the store cannot be reached

	Within time.Duration // maximum delay of a watch; 0: the second of the contract
}

// A Suite configures the tests of an implementation.
type Suite struct {
	New func(t *testing.T) System
	// In runs a test, for example in a testing/synctest bubble. If nil, the test is called directly.
	In func(t *testing.T, test func(*testing.T))
	// Parallel tests run concurrently: faults of one must not affect others.
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

// A fixture is the state of one test.
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
	f.Cleanup(func() { s.Close() }) //nolint:errcheck // another test checks the error
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

// revision returns the revision of a key.
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
