package ceph

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

// TestHolding: a full pool holds writes, which go on once it has room; until then all of it answers. The write that finds
// that out leaves no object.
func TestHolding(t *testing.T) {
	c := own(t)
	run := func(args ...string) string {
		t.Helper()
		out, err := c.Run(args[0], args[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("ceph", "osd", "pool", "create", "held", "4", "4")
	run("rbd", "pool", "init", "held")
	defer run("ceph", "osd", "pool", "rm", "held", "held", "--yes-i-really-really-mean-it")
	client := connect(t, c)
	defer client.Close()
	wait(t, c)
	s, err := rbd.Open("held/disk", rbd.Config{Client: client, Size: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := run("rados", "-p", "held", "ls")
	want := func(what, pool string) {
		t.Helper()
		wantHolding(t, client, s.Pools(), what, pool)
	}
	want("it has room", "")
	if after := run("rados", "-p", "held", "ls"); after != before {
		t.Errorf("objects before %s, after %s", before, after)
	}
	run("ceph", "osd", "pool", "set-quota", "held", "max_objects", "1")
	for end := time.Now().Add(timeout); !strings.Contains(run("ceph", "osd", "pool", "ls", "detail"), "full_quota"); time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the pool does not become full")
		}
	}
	want("it is full", "held")
	w, written := newWriter(t, s), make(chan error, 1)
	defer w.q.Close()
	go func() { written <- w.do(backend.Request{Op: backend.OpWrite, Length: 4096, Buf: make([]byte, 4096)}) }() // ends when the pool has room
	select {
	case err := <-written:
		t.Fatalf("a full pool has answered a write: %v", err)
	case <-time.After(2 * time.Second):
	}
	want("a write waits", "held")
	run("ceph", "osd", "pool", "set-quota", "held", "max_objects", "0")
	if err := <-written; err != nil {
		t.Error(err)
	}
	want("it has room again", "")
}

// wantHolding waits until the client finds that one of the pools holds writes, or that none does.
func wantHolding(t *testing.T, client *rbd.Client, pools []string, what, pool string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		got, err := client.Holding(ctx, pools...)
		if err == nil && got == pool {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %q, %v", what, got, err)
		}
	}
}

// TestHoldingHung: a pool whose OSDs hang is not one that holds writes.
func TestHoldingHung(t *testing.T) {
	c := own(t)
	client := connect(t, c)
	defer client.Close()
	wait(t, c)
	wantHolding(t, client, []string{"rbd"}, "it answers", "")
	defer wait(t, c)
	for _, osd := range []string{"osd.0", "osd.1"} {
		if err := c.Signal(osd, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer c.Signal(osd, syscall.SIGCONT)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if got, err := client.Holding(ctx, "rbd"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, %v", got, err)
	}
}
