package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// waitForHost is how long a host may take on a busy machine.
const waitForHost = 20 * time.Second

// opens returns a function that opens stores after calling before.
func opens(before func(*config.Namespace)) func(*config.Namespace, *memory.Pool) (backend.Store, []string, error) {
	return func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
		before(n)
		return OpenStore(n, pool)
	}
}

// A returner is a host that connects repeatedly, like one that has lost its controller.
type returner struct {
	t       *testing.T
	host    *host.Host
	options host.Options
}

func newReturner(r *rig) *returner {
	r.t.Helper()
	dev, err := softroce.Open(softroce.Config{Addr: netip.AddrFrom4([4]byte{127, 86, byte(os.Getpid() % 250), byte(lastAddr.Add(1))})})
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: dev, Shards: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(h.Close(), dev.Close()); err != nil {
			r.t.Error(err)
		}
	})
	return &returner{r.t, h, host.Options{Traddr: r.addr, NQN: "a", HostNQN: "h1", NrIOQueues: 1}}
}

// connect tries once. A refusal with Do Not Retry, which makes a Linux host remove its disks, fails the test.
func (h *returner) connect(limit time.Duration) (*host.Controller, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	c, err := h.host.Connect(ctx, h.options)
	var status *host.StatusError
	if errors.As(err, &status) && status.Status.DNR() {
		h.t.Errorf("refused for good: %v", err)
	}
	return c, err
}

// until tries to connect until it succeeds.
func (h *returner) until(limit time.Duration) *host.Controller {
	h.t.Helper()
	for end := time.Now().Add(limit); ; {
		c, err := h.connect(time.Second)
		if err == nil {
			return c
		}
		if time.Now().After(end) {
			h.t.Fatalf("not within %v: %v", limit, err)
		}
	}
}

// manyNamespaces returns a document of 3 subsystems. A host may use a few namespaces of the last.
func manyNamespaces(each int) string {
	var b strings.Builder
	b.WriteString("version: 1\nlisteners:\n  - id: 1\n    address: ADDR:4420\nsubsystems:\n")
	for _, nqn := range []string{"c", "b", "a"} {
		fmt.Fprintf(&b, "  - nqn: %s\n    hosts:\n      - nqn: h1\n        access: none\n        namespaces:\n", nqn)
		for _, id := range []int{1, each} {
			fmt.Fprintf(&b, "          - nsid: %d\n            access: write\n", id)
		}
		b.WriteString("    namespaces:\n")
		for id := 1; id <= each; id++ {
			fmt.Fprintf(&b, "      - nsid: %d\n        memory:\n          size: 4KiB\n", id)
		}
	}
	return b.String()
}

// TestRestart: while a target with 3,000 namespaces, 300 in the quick form, ends and starts, a host that connects
// all the time is accepted or told to retry, and what it finds is complete.
func TestRestart(t *testing.T) {
	t.Parallel()
	each := 100
	if *long {
		each = 1000
	}
	text := manyNamespaces(each)
	var h *returner
	for range 2 {
		r := newRig(t)
		if h == nil {
			h = newReturner(r)
		} else {
			r.addr = h.options.Traddr
		}
		found := make(chan *host.Controller)
		go func() { found <- h.until(time.Minute) }()
		if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
			t.Fatal(err)
		}
		c := <-found
		ids, err := c.Namespaces(t.Context())
		if err != nil || len(ids) != 2 || ids[0] != 1 || int(ids[1]) != each {
			t.Errorf("the host finds namespaces %v, %v", ids, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = c.Disconnect(t.Context()) // the target has gone
	}
}

// TestHostDuringChanges: no host is answered before everything is there, and a host that a step excludes connects
// again.
func TestHostDuringChanges(t *testing.T) {
	t.Parallel()
	var r *rig
	var h *returner
	opened := 0
	r = newRig(t, func(c *Config) {
		c.Open = opens(func(n *config.Namespace) {
			if h == nil || n.NSID != 1 {
				return
			}
			opened++
			if c, err := h.connect(300 * time.Millisecond); err == nil {
				t.Error("the host is accepted before its namespaces are there")
				_ = c.Disconnect(t.Context())
			}
		})
	})
	h = newReturner(r)
	r.apply(r.doc(first))
	_ = h.until(waitForHost).Disconnect(t.Context())
	// The host is no longer in the list, and may finally connect as any host, when a file has been opened with
	// other options.
	other := strings.NewReplacer("    hosts:\n      - nqn: h1\n", "    allow-any-host: true\n    hosts:\n", "size: 1MiB\n      - nsid: 2", "size: 1MiB\n          buffered: true\n      - nsid: 2").Replace(first)
	r.apply(r.doc(other))
	_ = h.until(waitForHost).Disconnect(t.Context())
	if opened != 2 {
		t.Errorf("the host tried %d times during a change, want 2", opened)
	}
}
