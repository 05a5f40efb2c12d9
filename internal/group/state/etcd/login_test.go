package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A secret is a password in a file.
type secret struct {
	mu   sync.Mutex
	text string
	err  error
}

func (s *secret) set(text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err = text, err
}

func (s *secret) read(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.err
}

// TestPasswordChanges: after a change of the password, of which etcd and the file are told in any order, calls and watches
// continue.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	for _, fileFirst := range []bool{false, true} {
		s := newServer()
		s.token = "first"
		file := &secret{text: "right"}
		log, logged := observer.New(zap.InfoLevel)
		m := s.member(t, loopback)
		store := open(t, Config{Endpoints: []string{m.address}, User: "gateway", Password: "right", Reread: file.read, Log: zap.New(log)})
		changes := make(chan bool, 100)
		go store.Watch(t.Context(), "", func() { changes <- true }) //nolint:errcheck // until the test ends
		changed := func(when string) {
			t.Helper()
			if r, err := store.Txn(t.Context(), puts); err != nil || !r.Done {
				t.Fatalf("%s: %v, %v", when, r, err)
			}
			if _, err := store.Get(t.Context(), ""); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		changed("before")
		if fileFirst {
			file.set("new", nil)
			changed("the file has it")
		}
		s.do(func() { s.token, s.password = "second", "new" }) // etcdctl user passwd makes tokens invalid
		if !fileFirst {
			_, err := store.Txn(t.Context(), puts)
			_, err1 := store.Get(t.Context(), "")
			if !errors.Is(err, state.ErrRefused) || errors.Is(err, state.ErrUnknown) || !errors.Is(err1, state.ErrRefused) {
				t.Errorf("etcd has it: %v; %v", err, err1)
			}
			file.set("", errors.New("no such file"))
			if _, err := store.Get(t.Context(), ""); !errors.Is(err, state.ErrRefused) || !strings.Contains(err.Error(), "no such file") {
				t.Errorf("without the file: %v", err)
			}
			file.set("new", nil)
		}
		changed("both have it")
		for len(changes) > 0 {
			<-changes
		}
		changed("later")
		<-changes // of the watch, which has begun again
		if n := logged.FilterMessageSnippet("has changed").Len(); n != 1 {
			t.Errorf("logged %v", logged.All())
		}
	}
}

// TestUserNotNeeded: calls and watches of a store with a user reach an etcd that asks for none.
func TestUserNotNeeded(t *testing.T) {
	t.Parallel()
	store := open(t, Config{Endpoints: []string{newServer().member(t, loopback).address}, User: "gateway", Password: "right"})
	changes := make(chan bool, 100)
	go store.Watch(t.Context(), "", func() { changes <- true }) //nolint:errcheck // until the test ends
	<-changes
	<-changes // the watch has begun
	if r, err := store.Txn(t.Context(), puts); err != nil || !r.Done {
		t.Errorf("%v, %v", r, err)
	}
	<-changes
}
