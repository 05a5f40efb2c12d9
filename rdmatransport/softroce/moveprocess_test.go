package softroce

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// inherited is what the other process is told about the device that it continues.
type inherited struct {
	Addr    netip.Addr
	Device  []byte
	Queue   []byte
	Peer    uint64 // address of the peer's memory
	PeerKey rdmatransport.RKey
}

// inheritor is the environment variable that makes a process the other one.
const inheritor = "SOFTROCE_TEST_INHERITS"

// TestMoveToAnotherProcess: a device moves to another process, which answers a command that arrived in between. The
// peer does not notice.
func TestMoveToAnotherProcess(t *testing.T) {
	if os.Getenv(inheritor) != "" {
		inherit(t)
		return
	}
	cfg := Config{Addr: netip.MustParseAddr("127.104.2.1"), Shards: 1}
	peer := Config{Addr: netip.MustParseAddr("127.104.2.2"), AckTimeout: 5 * time.Second}
	m := newMigrant(t, cfg, []Config{peer}, nil)
	m.exchange()
	moved, states := m.leave()
	a := m.peers[0]
	m.command(a)
	state, err := json.Marshal(&inherited{cfg.Addr, moved.State, states[0], a.mr.IOVA(), a.mr.RKey()})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMoveToAnotherProcess$")
	child.Env = append(os.Environ(), inheritor+"=1")
	child.Stdin, child.ExtraFiles = bytes.NewReader(state), moved.Files
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := moved.Close(); err != nil {
		t.Error(err)
	}
	if err := m.old.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range a.want(t, 2) {
		if c.Status != rdmatransport.StatusSuccess {
			t.Errorf("the peer: %+v", c)
		}
	}
	if !bytes.Equal(a.mr.Bytes()[1<<19:][:3000], a.mr.Bytes()[8192:][:3000]) {
		t.Error("other data came back")
	}
	if err := child.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if c := a.want(t, 1)[0]; c.Status != rdmatransport.StatusFlushed { // because the other process ended
		t.Errorf("the peer: %+v", c)
	}
	a.do(func() { a.qp.Close() })
	a.close()
	a.dev.Close()
}

// inherit runs in the other process: it writes the command back to the peer.
func inherit(t *testing.T) {
	var x inherited
	if err := json.NewDecoder(os.Stdin).Decode(&x); err != nil {
		t.Fatal(err)
	}
	moved := &rdmatransport.Moved{State: x.Device}
	for fd := uintptr(3); len(moved.Files) < 6; fd++ { // a lock, a receive socket and four others
		moved.Files = append(moved.Files, os.NewFile(fd, "inherited"))
	}
	d, err := Open(Config{Addr: x.Addr, Moved: moved})
	if err != nil {
		t.Fatal(err)
	}
	if err := moved.Close(); err != nil {
		t.Fatal(err)
	}
	e := &end{dev: d, loop: newLoop(t, d)}
	if e.dom, err = d.NewDomain(); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = e.dom.Register(make([]byte, 1<<16), rdmatransport.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	post := func(f func() error) {
		e.do(func() { err = f() })
		if err != nil {
			t.Fatal(err)
		}
	}
	post(func() error {
		if e.qp, err = e.dom.(rdmatransport.AdoptingDomain).Adopt(rdmatransport.QPConfig{CQ: e.cq}, x.Queue); err != nil {
			return err
		}
		return e.qp.PostRecv([]rdmatransport.RecvWR{{ID: 1, SGL: e.sge(0, 4096)}})
	})
	d.Begin()
	if c := e.want(t, 1)[0]; c.ID != 1 || c.Bytes != 3000 {
		t.Errorf("receive: %+v", c)
	}
	post(func() error {
		return e.qp.PostSend([]rdmatransport.SendWR{
			{Op: rdmatransport.OpWrite, SGL: e.sge(0, 3000), RemoteAddr: x.Peer + 1<<19, RKey: x.PeerKey},
			{ID: 2, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: e.sge(0, 16)},
		})
	})
	if c := e.want(t, 1)[0]; c.ID != 2 || c.Status != rdmatransport.StatusSuccess {
		t.Errorf("answer: %+v", c)
	}
	e.do(func() { e.qp.Close() })
	e.close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
