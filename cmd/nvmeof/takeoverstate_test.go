package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const stateConfig = `version: 1
limits: {shards: 1, polling: never}
listeners:
  - {id: 1, address: ADDR}
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    state: DIR/state
    hosts:
      - {nqn: "HOST0", key-file: DIR/key0}
      - {nqn: "HOST1", key-file: DIR/key1}
    namespaces:
      - {nsid: 1, memory: {size: 1MiB}, block-size: 512}
      - {nsid: 2, file: {path: DIR/disk.img, size: 1MiB}, block-size: 512, reservations: DIR/resv}
      - {nsid: 3, memory: {size: 1MiB}, block-size: 512}
`

// A keptHost is a host that stays connected, with its counters.
type keptHost struct {
	t      *testing.T
	c      *host.Controller
	nqn    nvmeof.NQN
	key    auth.Key
	spaces [4]*host.Namespace // by their NSIDs
	events chan capsule.AsyncEvent
	reads  uint64        // of SMART, as read last
	added  atomic.Uint64 // by compareAndAdd
}

func newKeptHost(t *testing.T, c *configured, i int, key auth.Key) *keptHost {
	dev, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(loopbackAddress())})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: dev, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	k := &keptHost{t: t, nqn: stateHost(i), key: key, events: make(chan capsule.AsyncEvent, 100)}
	k.c, err = h.Connect(t.Context(), host.Options{Traddr: netip.MustParseAddr(c.addr), NQN: testNQN, HostNQN: k.nqn, HostID: capsule.HostID{byte(i + 1)},
		NrIOQueues: 1, DHCHAPSecret: key, Events: k.events})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.c.Disconnect(context.Background()), h.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	for id := 1; id < len(k.spaces); id++ {
		if k.spaces[id], err = k.c.Namespace(t.Context(), capsule.NSID(id)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func stateHost(i int) nvmeof.NQN { return nvmeof.NQN(fmt.Sprintf("nqn.2026-11.org.example:host%d", i)) }

// compareAndAdd adds 1 to a number that others increment concurrently, until stop is closed.
func (k *keptHost) compareAndAdd(stop <-chan struct{}) {
	now, next := make([]byte, 512), make([]byte, 512)
	for {
		select {
		case <-stop:
			return
		default:
		}
		binary.LittleEndian.PutUint64(next, binary.LittleEndian.Uint64(now)+1)
		switch err := k.spaces[1].CompareAndWrite(k.t.Context(), 0, now, next); {
		case err == nil:
			k.added.Add(1)
			copy(now, next)
		case errors.Is(err, backend.ErrMiscompare):
			if _, err := k.spaces[1].ReadAt(now, 0); err != nil {
				k.t.Error(err)
				return
			}
		default:
			k.t.Error(err)
			return
		}
	}
}

// wantEvent waits for the event of a new namespace, and checks the log, whose reading allows the next event.
func (k *keptHost) wantEvent(id capsule.NSID) {
	k.t.Helper()
	for until := time.After(20 * time.Second); ; {
		select {
		case <-k.events:
		case <-k.c.Done():
			k.t.Fatalf("%s has lost its controller: %v", k.nqn, k.c.Err())
		case <-until:
			k.t.Fatalf("%s hears nothing of namespace %d", k.nqn, id)
		}
		ids, err := k.c.Logs().ChangedNamespaces(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		for _, changed := range ids {
			if changed == id {
				return
			}
		}
	}
}

// wantCounted checks that the SMART counters continue.
func (k *keptHost) wantCounted() {
	k.t.Helper()
	s, err := k.c.Logs().SMART(k.t.Context(), capsule.NSIDBroadcast)
	if err != nil || s.HostReads.Lo < k.reads || s.HostReads.Lo == 0 {
		k.t.Errorf("SMART has %d reads, before %d: %v", s.HostReads.Lo, k.reads, err)
	}
	k.reads = s.HostReads.Lo
}

func (k *keptHost) wantStatus(id int, want capsule.Status) {
	k.t.Helper()
	_, err := k.spaces[id].WriteAt(make([]byte, 512), 0)
	var status *host.StatusError
	if want == 0 && err != nil || want != 0 && (!errors.As(err, &status) || status.Status&^(1<<14) != want) {
		k.t.Errorf("%s writes to namespace %d: %v, want %v", k.nqn, id, err, want)
	}
}

// stateKeys writes the keys of both hosts to the files in the configuration.
func stateKeys(t *testing.T, dir string) (keys [2]auth.Key) {
	t.Helper()
	for i := range keys {
		text := strings.TrimSpace(command(t, "gen-dhchap-key").out)
		var err error
		if keys[i], err = auth.ParseKey(text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("key%d", i)), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestTakeoverState has one target after another take over, while two hosts with keys hold a reservation, a write
// protection and outstanding event requests, compare and write in turn, and read the SMART counters: none of that
// state changes.
func TestTakeoverState(t *testing.T) {
	times := 2
	if *long {
		times = 20
	}
	c := configure(t, strings.NewReplacer("HOST0", string(stateHost(0)), "HOST1", string(stateHost(1))).Replace(stateConfig))
	keys := stateKeys(t, c.dir)
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect")
	holder, other := newKeptHost(t, c, 0, keys[0]), newKeptHost(t, c, 1, keys[1])
	r := holder.spaces[2].Reservations()
	err := errors.Join(r.Register(t.Context(), 0xabc, host.RegisterOptions{}), r.Acquire(t.Context(), 0xabc, capsule.ReservationWriteExclusive),
		holder.spaces[3].SetWriteProtection(t.Context(), capsule.WriteProtected))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var adders sync.WaitGroup
	for _, k := range []*keptHost{holder, other} {
		adders.Go(func() { k.compareAndAdd(stop) })
	}
	for i := range times {
		next := startSeparate(t, "target", "--config", c.file, "--takeover")
		next.out.await(t, "nvme connect")
		s.await(t, 10*time.Second)
		s = next
		command(t, words(fmt.Sprintf("namespace add %d -n %s --memory 1MiB", 4+i, testNQN))...).want(t, 0)
		for _, k := range []*keptHost{holder, other} {
			k.wantEvent(capsule.NSID(4 + i))
			k.wantCounted()
			k.wantStatus(3, capsule.StatusNamespaceWriteProtected)
			if err := k.c.Authenticate(t.Context(), k.key, auth.Key{}); err != nil {
				t.Errorf("%s authenticates again: %v", k.nqn, err)
			}
		}
		holder.wantStatus(2, 0)
		other.wantStatus(2, capsule.StatusReservationConflict)
	}
	close(stop)
	adders.Wait()
	b := make([]byte, 512)
	if _, err := holder.spaces[1].ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(b); n != holder.added.Load()+other.added.Load() || holder.added.Load() == 0 || other.added.Load() == 0 {
		t.Errorf("the number is %d, and the hosts have added %d and %d", n, holder.added.Load(), other.added.Load())
	}
	if n := strings.Count(s.errOut.String(), "host connected"); n > 0 {
		t.Errorf("%d hosts have connected to the last target:\n%s", n, s.errOut)
	}
	t.Logf("%d takeovers, %d additions", times, holder.added.Load()+other.added.Load())
	s.signal(t, 15)
	s.await(t, 10*time.Second)
}
