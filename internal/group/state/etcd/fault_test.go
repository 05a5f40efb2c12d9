package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

var puts = state.Txn{Then: []state.Op{{Key: "a", Value: []byte("1")}}}

// TestErrors: a refusal is none of ErrUnknown; all others of a transaction are, a full
// database's too.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		refused bool
	}{
		{rpctypes.ErrGRPCPermissionDenied, true},
		{rpctypes.ErrGRPCRequestTooLarge, true},
		{rpctypes.ErrGRPCAuthFailed, true},
		{rpctypes.ErrGRPCNoSpace, false},
		{rpctypes.ErrGRPCTimeout, false},
		{rpctypes.ErrGRPCLeaderChanged, false},
		{rpctypes.ErrGRPCStopped, false},
		{rpctypes.ErrGRPCCorrupt, false},
		{rpctypes.ErrGRPCNotLeader, false},
		{context.DeadlineExceeded, false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			s := newServer()
			cfg := Config{Endpoints: []string{s.member(t, loopback).address}}
			if c.refused {
				s.refuses = c.err
			} else {
				s.failure = c.err
				cfg.Timeout = 200 * time.Millisecond // of Get, which tries again
			}
			store := open(t, cfg)
			_, err := store.Txn(t.Context(), puts)
			if err == nil || errors.Is(err, state.ErrUnknown) == c.refused {
				t.Errorf("Txn: %v", err)
			}
			_, err = store.Get(t.Context(), "")
			if err == nil || errors.Is(err, state.ErrUnavailable) == c.refused {
				t.Errorf("Get: %v", err)
			}
		})
	}
}

// TestLeavesEndpoint: calls and watches go to the next endpoint where one refuses, or hangs.
func TestLeavesEndpoint(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*member){
		"stopped": (*member).stop,
		"frozen":  (*member).freeze,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer()
			first, second := s.member(t, loopback), s.member(t, loopback)
			log, logged := observer.New(zap.InfoLevel)
			store := open(t, Config{Endpoints: []string{first.address, second.address}, Log: zap.New(log)})
			if _, err := store.Txn(t.Context(), puts); err != nil {
				t.Fatal(err)
			}
			changes := make(chan bool, 100)
			go store.Watch(t.Context(), "", func() { changes <- true }) //nolint:errcheck // until the test ends
			<-changes
			<-changes // it has begun
			harm(first)
			if _, err := store.Get(t.Context(), ""); err != nil {
				t.Errorf("Get: %v", err)
			}
			<-changes // it has begun at the other
			if _, err := store.Txn(t.Context(), puts); err != nil {
				t.Errorf("Txn: %v", err)
			}
			<-changes
			if all := logged.FilterMessageSnippet("does not answer").All(); len(all) != 1 || all[0].ContextMap()["endpoint"] != "http://"+first.address {
				t.Errorf("logged %v", all)
			}
		})
	}
}

// TestNobodyAnswers: calls end after their time, and say where nobody answered.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	m := newServer().member(t, loopback)
	m.freeze()
	store := open(t, Config{Endpoints: []string{m.address}, Timeout: 100 * time.Millisecond})
	_, err := store.Txn(t.Context(), puts)
	if !errors.Is(err, state.ErrUnknown) || !strings.Contains(err.Error(), m.address) || !strings.Contains(err.Error(), "100ms") {
		t.Errorf("Txn: %v", err)
	}
	if _, err = store.Get(t.Context(), ""); !errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), m.address) {
		t.Errorf("Get: %v", err)
	}
}

// TestComparesOnly: a member that does not hear the others does not say whether comparisons hold, also of a
// transaction that changes nothing: the gateway that asks may have been fenced since.
func TestComparesOnly(t *testing.T) {
	t.Parallel()
	s := newServer()
	store := open(t, Config{Endpoints: []string{s.member(t, loopback).address}, Timeout: 300 * time.Millisecond})
	r, err := store.Txn(t.Context(), puts)
	if err != nil {
		t.Fatal(err)
	}
	guard := state.Txn{If: []state.Compare{{Key: "a", Revision: r.Revision}}}
	if r, err := store.Txn(t.Context(), guard); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	s.do(func() { s.behind = true })
	if r, err := store.Txn(t.Context(), guard); !errors.Is(err, state.ErrUnknown) {
		t.Errorf("a member that is behind: %+v, %v", r, err)
	}
}

// TestUser: a client logs in when it is first used, and again when its token has expired.
func TestUser(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.token = "first"
	cfg := Config{Endpoints: []string{s.member(t, loopback).address}, User: "gateway", Password: "right"}
	store := open(t, cfg)
	for _, token := range []string{"first", "second"} {
		s.do(func() { s.token = token })
		if r, err := store.Txn(t.Context(), puts); err != nil || !r.Done {
			t.Fatalf("with token %s: %v, %v", token, r, err)
		}
	}
	s.do(func() {
		if s.logins < 2 || s.revision != 3 {
			t.Errorf("%d logins, revision %d", s.logins, s.revision)
		}
	})
	cfg.Password = "wrong"
	_, err := open(t, cfg).Txn(t.Context(), puts)
	if err == nil || errors.Is(err, state.ErrUnknown) || !strings.Contains(err.Error(), "invalid user ID or password") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestRefusals: an etcd that is full, or does not permit what is asked, is said once, is not left for
// another endpoint, and watches go on.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCPermissionDenied} {
		t.Run(refusal.Error(), func(t *testing.T) {
			t.Parallel()
			s := newServer()
			log, logged := observer.New(zap.InfoLevel)
			store := open(t, Config{Endpoints: []string{s.member(t, loopback).address, s.member(t, loopback).address}, Log: zap.New(log)})
			if _, err := store.Txn(t.Context(), puts); err != nil {
				t.Fatal(err)
			}
			s.do(func() { s.refuses = refusal })
			for range 3 {
				if _, err := store.Txn(t.Context(), puts); err == nil {
					t.Error("it is not refused")
				}
				if _, err := store.Get(t.Context(), ""); err == nil {
					t.Error("it is not refused")
				}
			}
			if store.next != 0 || logged.Len() != 1 {
				t.Errorf("at endpoint %d, logged %v", store.next, logged.All())
			}
		})
	}
}

// TestOtherCluster: what an endpoint of another cluster has is not taken for the group's state.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	ours, other := newServer(), newServer()
	ours.id, other.id, other.revision = 1, 2, 1000
	first := ours.member(t, loopback)
	store := open(t, Config{Endpoints: []string{first.address, other.member(t, loopback).address}})
	if _, err := store.Txn(t.Context(), puts); err != nil {
		t.Fatal(err)
	}
	first.stop()
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for range 3 {
		if snap, err := store.Get(soon(), ""); !errors.Is(err, state.ErrUnavailable) {
			t.Fatalf("%+v, %v", snap, err)
		}
		if r, err := store.Txn(soon(), puts); err == nil {
			t.Fatalf("%+v", r)
		}
	}
}
