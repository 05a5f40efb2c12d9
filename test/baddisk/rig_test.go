package baddisk

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// A rig is a whole target over softroce, managed like that of the program. Its namespace 1 is a file on the faulty file
// system; 2 and 3 are files on another one.
type rig struct {
	*control.Manager
	t    *testing.T
	disk *faultyfs.FS
	dir  string // of the good files
	addr netip.Addr
	logs *observer.ObservedLogs
	doc  *config.Document
}

const document = `version: 1
listeners:
  - id: 1
    address: ADDR:4420
subsystems:
  - nqn: a
    allow-any-host: true
    namespaces:
      - nsid: 1
        file:
          path: BAD/disk
          size: 4MiB
      - nsid: 2
        file:
          path: GOOD/two
          size: 4MiB
      - nsid: 3
        file:
          path: GOOD/three
          size: 4MiB
`

// lastAddr counts addresses: a process has one endpoint on each.
var lastAddr atomic.Uint32

func address() netip.Addr {
	return netip.AddrFrom4([4]byte{127, 87, byte(os.Getpid() % 250), byte(lastAddr.Add(1))})
}

// newRig starts a target. If disk is nil, edits must replace the file in the document by another export.
func newRig(t *testing.T, disk *faultyfs.FS, edits ...string) *rig {
	t.Helper()
	return begin(t, disk, control.Options{Force: true}, edits...)
}

func begin(t *testing.T, disk *faultyfs.FS, o control.Options, edits ...string) *rig {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	r := &rig{t: t, disk: disk, dir: t.TempDir(), addr: address(), logs: logs}
	tgt, err := target.New(target.Config{Log: zap.New(core), Arena: 16 << 20, Revalidate: 50 * time.Millisecond})
	r.must(err)
	r.Manager = control.New(control.Config{Target: tgt, Settings: &config.Document{Version: 1}, Log: zap.New(core),
		Device: func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
			return softroce.Open(softroce.Config{Addr: a})
		}})
	t.Cleanup(func() {
		r.release()
		if err := r.Close(); err != nil && !strings.Contains(err.Error(), "not connected") {
			t.Error(err)
		}
	})
	r.doc = r.parse(strings.NewReplacer(edits...).Replace(document))
	_, err = r.Apply(r.doc, o)
	r.must(err)
	return r
}

func (r *rig) parse(text string) *config.Document {
	r.t.Helper()
	bad := ""
	if r.disk != nil {
		bad = r.disk.Dir
	}
	text = strings.NewReplacer("ADDR", r.addr.String(), "BAD", bad, "GOOD", r.dir).Replace(text)
	doc, _, err := config.Parse("test", []byte(text))
	r.must(err)
	return doc
}

func (r *rig) release() {
	if r.disk != nil {
		r.disk.Release()
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// file returns the path of the faulty file.
func (r *rig) file() string { return filepath.Join(r.disk.Dir, "disk") }

// A client is a host's connection and its namespaces.
type client struct {
	r      *rig
	c      *host.Controller
	spaces map[capsule.NSID]*host.Namespace
	events chan capsule.AsyncEvent
}

// timeout is much longer than everything that does not hang takes.
const timeout = 10 * time.Second

func (r *rig) connect(change ...func(*host.Options)) *client {
	r.t.Helper()
	c, err := r.tryConnect(change...)
	r.must(err)
	return c
}

func (r *rig) tryConnect(change ...func(*host.Options)) (*client, error) {
	r.t.Helper()
	device, err := softroce.Open(softroce.Config{Addr: address()})
	r.must(err)
	h, err := host.New(host.Config{Device: device})
	r.must(err)
	r.t.Cleanup(func() {
		r.release() // otherwise closing waits for requests that hang
		h.Close()
		device.Close()
	})
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	name := nvmeof.NQN(fmt.Sprintf("nqn.2014-08.org.example:h%d", lastAddr.Load()))
	k := &client{r: r, spaces: map[capsule.NSID]*host.Namespace{}, events: make(chan capsule.AsyncEvent, 16)}
	o := host.Options{Traddr: r.addr, NQN: "a", HostNQN: name, HostID: capsule.HostID{byte(lastAddr.Load())}, Events: k.events,
		EventMask: capsule.EventSMART | capsule.EventNamespaceAttribute, Timeout: -1}
	for _, f := range change {
		f(&o)
	}
	if k.c, err = h.Connect(ctx, o); err != nil {
		return nil, err
	}
	for id := capsule.NSID(1); id <= 3; id++ {
		if k.spaces[id], err = k.c.Namespace(ctx, id); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// do executes one operation and returns its status.
func (k *client) do(id capsule.NSID, op func(context.Context, *host.Namespace) error) capsule.Status {
	k.r.t.Helper()
	ctx, cancel := context.WithTimeout(k.r.t.Context(), timeout)
	defer cancel()
	err := op(ctx, k.spaces[id])
	var s *host.StatusError
	if err != nil && !errors.As(err, &s) {
		k.r.t.Fatalf("namespace %d: %v", id, err)
	}
	if err != nil {
		return s.Status
	}
	return capsule.StatusSuccess
}

func write(ctx context.Context, n *host.Namespace) error {
	_, err := n.WriteAtContext(ctx, make([]byte, 8192), 4096)
	return err
}

func read(ctx context.Context, n *host.Namespace) error {
	_, err := n.ReadAtContext(ctx, make([]byte, 8192), 4096)
	return err
}

func flush(ctx context.Context, n *host.Namespace) error { return n.FlushContext(ctx) }

func (k *client) want(id capsule.NSID, op func(context.Context, *host.Namespace) error, want capsule.Status) {
	k.r.t.Helper()
	if got := k.do(id, op); got != want {
		k.r.t.Errorf("namespace %d: %v, want %v", id, got, want)
	}
}

// well checks that a namespace reads, writes and flushes.
func (k *client) well(id capsule.NSID) {
	k.r.t.Helper()
	k.want(id, write, capsule.StatusSuccess)
	k.want(id, flush, capsule.StatusSuccess)
	k.want(id, read, capsule.StatusSuccess)
}

// await waits until f reports true.
func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	for end := time.Now().Add(timeout); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("it does not come to it: %s", what)
		}
	}
}

// trouble waits until the status reports this trouble of namespace 1; empty: none.
func (r *rig) trouble(want string) {
	r.t.Helper()
	var got []control.Trouble
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got = r.Status().Troubles
		if want == "" && len(got) == 0 || want != "" && len(got) == 1 && got[0].NSID == 1 && strings.Contains(got[0].Why, want) {
			return
		}
	}
	r.t.Errorf("troubles %+v, want %q", got, want)
}
