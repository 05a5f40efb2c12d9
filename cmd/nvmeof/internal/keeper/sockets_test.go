package keeper

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// TestDiskHangsAtTheEnd checks that a disk that does not answer delays the end only for the time allowed for clients,
// so that controllers are disconnected. The disk ends with them.
func TestDiskHangsAtTheEnd(t *testing.T) {
	s, hung, fault := withHungDisk(t)
	dir, all := s.dir, s.snapshot()
	if err := s.Close(); err != nil {
		t.Errorf("while the disk hangs: %v", err)
	}
	select {
	case <-all["nvme0n1"].ended:
		t.Error("it has ended, although the disk has a request")
	case <-all["nvme0n2"].ended:
	}
	fault.Release() // as at the end of its controllers
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "not completed in 20ms") {
		t.Errorf("afterwards: %v", err)
	}
	if left, err := filepath.Glob(dir + "/*"); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := hung.Close(); err != nil {
		t.Error(err)
	}
}

// withHungDisk publishes nvme0n1, which does not answer a read that was sent, and nvme0n2.
func withHungDisk(t *testing.T) (*sockets, *backendtest.Faulty, *backendtest.Fault) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m, err := memory.New(memory.Config{Size: 1 << 20, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	hung := backendtest.NewFaulty(m)
	fault := hung.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Hold: backendtest.HoldRequest})
	s := &sockets{dir: dir, drain: 20 * time.Millisecond, log: func(string) {}, leave: make(chan struct{}), servers: map[string]*server{}}
	s.Publish([]connections.Disk{disk(t, "nvme0n1", hung), disk(t, "nvme0n2", hung.Store)})
	ask(t, filepath.Join(dir, "nvme0n1.sock"))
	return s, hung, fault
}

// disk returns a disk that can be published.
func disk(t *testing.T, name string, store backend.Store) connections.Disk {
	return connections.Disk{Disk: nbd.Disk{Name: name, Store: store}, Say: func(line string) {
		if strings.HasPrefix(line, "publishing ") {
			t.Error(line)
		}
	}}
}

// TestEndOfOneDisk checks that the requests of clients of an ending disk are answered before they are disconnected,
// and that other disks stay. A request that is not answered in time is an error.
func TestEndOfOneDisk(t *testing.T) {
	s, hung, fault := withHungDisk(t)
	if err := s.End([]string{"nvme0n1"}); !errors.Is(err, errUnfinished) {
		t.Error(err)
	}
	fault.Release()
	s.Gone([]string{"nvme0n1"})
	s.drain = time.Minute
	again := hung.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Hold: backendtest.HoldRequest})
	s.Publish([]connections.Disk{disk(t, "nvme0n1", hung), disk(t, "nvme0n2", hung.Store)})
	c := ask(t, filepath.Join(s.dir, "nvme0n1.sock"))
	ended := make(chan error, 1)
	go func() { ended <- s.End([]string{"nvme0n1"}) }() // ends when the disk answers
	for len(s.leaving(func(string) bool { return true })) == 0 {
		runtime.Gosched()
	}
	again.Release()
	answer, err := io.ReadAll(c)
	if err != nil || len(answer) != 16+512 || binary.BigEndian.Uint32(answer[4:]) != 0 {
		t.Errorf("%d bytes are the answer, %x, %v", len(answer), answer[:min(len(answer), 8)], err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if all := s.snapshot(); len(all) != 1 || all["nvme0n2"] == nil {
		t.Errorf("left are %v", all)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := hung.Close(); err != nil {
		t.Error(err)
	}
}

// TestHungDiskIsRemoved checks that a removed disk that does not answer delays neither other disks nor new ones,
// except one that gets its name, and the call that waits to free its memory.
func TestHungDiskIsRemoved(t *testing.T) {
	s, hung, fault := withHungDisk(t)
	old := s.snapshot()["nvme0n1"]
	two, three := disk(t, "nvme0n2", hung.Store), disk(t, "nvme0n3", hung.Store)
	s.Publish([]connections.Disk{two, three})
	if s.URI(three.Disk) == "" {
		t.Error("a new disk is not published")
	}
	s.Gone([]string{"nvme1n1"})
	select {
	case <-old.ended:
		t.Error("the server of the disk that hangs has ended")
	default:
	}
	done := make(chan struct{})
	go func() { // ends when the disk answers
		s.Gone([]string{"nvme0n1"})
		s.Publish([]connections.Disk{two, three, disk(t, "nvme0n1", hung.Store)})
		close(done)
	}()
	fault.Release()
	<-done
	<-old.ended
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := hung.Close(); err != nil {
		t.Error(err)
	}
}

// TestSaidOfDisks checks that all events that a target can cause are printed through the disks' limited lines.
func TestSaidOfDisks(t *testing.T) {
	s, hung, fault := withHungDisk(t)
	s.log = func(line string) { t.Errorf("without a limit: %s", line) }
	fault.Release()
	said := make(chan string, 4)
	one := connections.Disk{Disk: nbd.Disk{Name: "nvme1n1", Store: hung.Store}, Say: func(line string) { said <- line }}
	s.Publish([]connections.Disk{one})
	s.Publish(nil)
	s.Gone([]string{"nvme1n1"})
	for _, want := range []string{"nvme1n1: published at ", "nvme1n1: no longer published; "} {
		if line := <-said; !strings.HasPrefix(line, want) {
			t.Errorf("said %q, want %q", line, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := hung.Close(); err != nil {
		t.Error(err)
	}
}

// TestEndWhileDiskReturns checks that a disk that hangs, was removed and is to be published again does not keep Close
// from ending the disk's requests.
func TestEndWhileDiskReturns(t *testing.T) {
	hung := &server{overdue: make(chan struct{}), ended: make(chan struct{})}
	close(hung.overdue)
	s := &sockets{dir: t.TempDir(), log: func(string) {}, leave: make(chan struct{}), servers: map[string]*server{}, ending: map[*server]string{hung: "nvme0n1"}}
	said := make(chan string, 1)
	again := connections.Disk{Disk: nbd.Disk{Name: "nvme0n1"}, Say: func(line string) { said <- line }}
	go s.Publish([]connections.Disk{again}) // ends with Close
	for s.publishing.TryLock() {            // it has not begun
		s.publishing.Unlock()
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if line := <-said; line != "publishing nvme0n1: "+errLeaving.Error() {
		t.Error(line)
	}
	close(hung.ended) // as at the end of its controllers
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// ask sends a read, and then one beyond the end of the disk (the NBD project's doc/proto.md), and returns the
// connection when the second is answered.
func ask(t *testing.T, socket string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b := []byte{0, 0, 0, 3}
	b = append(b, "IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x00"...)
	for _, offset := range []uint64{0, 1 << 63} {
		b = binary.BigEndian.AppendUint32(b, 0x25609513)
		b = append(b, make([]byte, 12)...)
		b = binary.BigEndian.AppendUint64(b, offset)
		b = binary.BigEndian.AppendUint32(b, 512)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	var answer [18 + 10 + 16]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		t.Fatal(err)
	}
	return c
}
