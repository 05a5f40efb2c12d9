package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A cutRig has two nodes and a target in an in-memory network, in which the first node can be cut off from the target.
type cutRig struct {
	*services // of the node that is cut off
	other     *services
	network   *softroce.Network
	dir       string
	api       *control.Client
}

var cutNode, otherNode, cutTarget = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.9")

// newCutRig makes a cutRig. A peer that does not respond for eight times ack is lost; 0 stands for half a second.
func newCutRig(t *testing.T, ack time.Duration) *cutRig {
	t.Helper()
	r := &cutRig{network: softroce.NewNetwork(1)}
	c := newConsole(t, softroce.Config{Network: r.network, AckTimeout: ack}, cutTarget.String(), nil)
	r.dir = c.dir
	c.put(t, "token", "admin")
	set, err := volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "t", Control: c.URL, TokenFile: c.dir + "/token", CAFile: c.dir + "/ca.pem",
		Subsystem: subsystemNQN, Directory: c.dir}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	token := func() (string, error) { return "admin", nil }
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate())
	if r.api, err = control.NewRemoteClient(c.URL, token, &tls.Config{RootCAs: pool}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.api.Close)
	r.services = newServices(t, set, newMachineOn(t, softroce.Config{Addr: cutNode, Network: r.network, AckTimeout: ack}, 1))
	r.other = newServices(t, set, newMachineOn(t, softroce.Config{Addr: otherNode, Network: r.network, AckTimeout: ack}, 2))
	return r
}

// Directions in which packets of the first node are lost.
const (
	none = iota
	toNode
	both
)

// lose drops the packets of the first node in the given directions.
func (r *cutRig) lose(ways int) {
	r.network.SetFaults(func(from, to netip.Addr) softroce.Faults {
		if ways != none && to == cutNode || ways == both && from == cutNode {
			return softroce.Faults{Loss: 1}
		}
		return softroce.Faults{}
	})
}

// cutOff cuts the first node off and starts a write on it, which ends when the node is back. With begun set, the
// target has started the write, and waits for its data.
func (r *cutRig) cutOff(d *disk, begun bool) (dirty chan error) {
	r.t.Helper()
	r.lose(both)
	if begun {
		r.lose(toNode)
	}
	dirty = make(chan error, 1)
	go func() {
		_, err := d.namespace.WriteAt(bytes.Repeat([]byte{6}, 128<<10), 0)
		dirty <- err
	}()
	for end := time.Now().Add(time.Minute); begun; time.Sleep(time.Millisecond) {
		var all []control.Controller
		if err := r.api.Do(r.t.Context(), "GET", "/v1/controllers", nil, nil, &all); err != nil {
			r.t.Fatal(err)
		}
		begun = !slices.ContainsFunc(all, func(c control.Controller) bool { return c.Host == r.m.nqn && c.Queues[0].InFlight > 0 })
		if time.Now().After(end) {
			r.t.Fatal("the write does not begin")
		}
	}
	r.lose(both)
	return dirty
}

// disk returns the disk of a volume on a machine.
func (s *services) disk(volume string) *disk {
	s.t.Helper()
	id, err := volumes.ParseID(volume)
	if err != nil {
		s.t.Fatal(err)
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.disks["/dev/"+id.UUID.String()]
}

// wantRefused checks that a write of the first node fails on a volume that another node has, also with a namespace
// that it has not identified since it connected, as kernels resend earlier commands.
func (r *cutRig) wantRefused(volume, kept string) {
	r.t.Helper()
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite), NSID: capsule.NSID(r.disk(volume).NSID)}
	capsule.ReadWrite{Blocks: 8}.Put(&cmd)
	_, err := r.disk(kept).namespace.Execute(r.t.Context(), cmd, bytes.Repeat([]byte{7}, 4096))
	var failed *host.StatusError
	if !errors.As(err, &failed) || failed.Status != capsule.StatusInvalidNamespace|capsule.StatusDNR {
		r.t.Errorf("a write of the node that has come back: %v", err)
	}
	if err := r.disk(kept).verify(); err != nil {
		r.t.Errorf("the volume that the node has kept: %v", err)
	}
}

// give publishes a volume to a node, which writes to it.
func (s *services) give(volume string) {
	s.t.Helper()
	c := asBlock(writer)
	s.stage(codes.OK, volume, "/none", s.publish(codes.OK, volume, string(s.m.nqn), c), c)
	if err := s.disk(volume).verify(); err != nil {
		s.t.Fatal(err)
	}
}

// TestCutOff checks that a node that was cut off from its target, and still has data to write, cannot write it when it
// returns after the volume was given to another node: neither on its old connection nor on a new one.
func TestCutOff(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // they wait; -parallel, which ginkgo rejects, would not let all of them wait at once
	for name, of := range map[string]cut{
		"back soon":                          {kept: true},
		"in the midst of a write":            {begun: true}, // for which the target ends the queue
		"back when the connection is lost":   {late: true},
		"in the midst of a write, and later": {begun: true, late: true},
	} {
		all.Go(func() { t.Run(name, of.test) })
	}
	all.Wait()
}

// A cut says when the first node is cut off, and for how long.
type cut struct {
	begun bool // during a write
	late  bool // until it has lost the connection
	kept  bool // its connection still exists when it is back
}

func (of cut) test(t *testing.T) {
	ack := 100 * time.Millisecond
	if of.kept {
		ack = 0
	}
	r := newCutRig(t, ack)
	v, kept := r.create(codes.OK, "moved", asBlock(writer), 1<<20, nil), r.create(codes.OK, "kept", asBlock(writer), 1<<20, nil)
	r.give(v)
	r.give(kept)
	line := r.m.lines[subsystemNQN]
	dirty := r.cutOff(r.disk(v), of.begun)
	r.unpublish(codes.OK, v, string(r.m.nqn))
	r.other.give(v)
	want, err := os.ReadFile(filepath.Join(r.dir, "moved.img"))
	if err != nil {
		t.Fatal(err)
	}
	if of.late {
		<-line.Done()
	}
	r.lose(none)
	if err := <-dirty; err == nil {
		t.Error("a write of the node that was cut off has succeeded")
	}
	if !of.kept {
		<-line.Done()
		r.connectAgain(v, kept)
	}
	r.wantRefused(v, kept)
	if got, err := os.ReadFile(filepath.Join(r.dir, "moved.img")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has changed since another node has it: %v", err)
	}
}

// connectAgain connects the first node again, which finds one of two volumes.
func (r *cutRig) connectAgain(gone, kept string) {
	r.t.Helper()
	ended, cancel := context.WithCancel(r.t.Context())
	cancel()
	r.m.mu.Lock()
	_ = r.m.lines[subsystemNQN].Disconnect(ended) // the connection is lost
	delete(r.m.lines, subsystemNQN)
	r.m.mu.Unlock()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := r.m.Attach(r.t.Context(), r.disk(kept).Disk)
		if err == nil {
			break
		}
		var busy *host.StatusError // while the target has the old connection
		if !errors.As(err, &busy) || busy.Status.Code() != capsule.StatusConnectControllerBusy || time.Now().After(end) {
			r.t.Fatal(err)
		}
	}
	if _, err := r.m.Attach(r.t.Context(), r.disk(gone).Disk); err == nil {
		r.t.Error("the node finds the volume that another one has")
	}
}
