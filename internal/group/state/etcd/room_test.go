package etcd

import (
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestRoom: the history of an etcd that does not compact it is compacted before the database is full, but for what is of since the
// last look. One that does not permit that is said.
func TestRoom(t *testing.T) {
	t.Parallel()
	s := newServer()
	log, logged := observer.New(zap.InfoLevel)
	store := open(t, Config{Endpoints: []string{s.member(t, loopback).address, s.member(t, loopback).address}, Log: zap.New(log)})
	if _, err := store.Txn(t.Context(), puts); err != nil {
		t.Fatal(err)
	}
	e, err := store.use()
	if err != nil {
		t.Fatal(err)
	}
	defer store.release(e)
	r := room{most: 100}
	for _, c := range []struct {
		revision, history int64 // of the store then, and what is compacted after that
		refuses           error
		logged            int
	}{{50, 0, nil, 0}, {99, 0, nil, 0}, {1000, 99, nil, 1}, {1001, 1000, nil, 2}, {1002, 1000, nil, 2}, {2000, 1000, rpctypes.ErrGRPCPermissionDenied, 3}, {2001, 2000, nil, 4}} {
		s.do(func() { s.revision, s.refuses = c.revision, c.refuses })
		r.look(store, e)
		s.do(func() {
			if s.history != c.history || logged.Len() != c.logged {
				t.Errorf("at revision %d all before %d is compacted, want %d; logged are %v", c.revision, s.history, c.history, logged.All())
			}
		})
	}
	s.do(func() { s.revision, s.history = 3000, 2500 }) // by another gateway
	r.look(store, e)
	if n := logged.Len(); n != 4 {
		t.Errorf("what another one has compacted is logged: %v", logged.All())
	}
}
