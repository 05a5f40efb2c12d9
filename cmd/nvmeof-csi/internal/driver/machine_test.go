package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/fabric"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/mounts"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A machine is a node whose disks are namespaces that our host has connected to, over an RDMA device of its own.
// Mounts are recorded in tables, and each mount writes to the disk and reads the data back.
type machine struct {
	nqn  nvmeof.NQN
	id   capsule.HostID
	host *host.Host

	mu      sync.Mutex
	lines   map[nvmeof.NQN]*host.Controller
	disks   map[string]*disk    // by device
	mounted map[string]string   // source by path; for Format the device
	staged  map[string]bool     // paths of Format
	guarded map[string]bool     // read-only paths of Bind
	full    map[string]int64    // sizes of file systems, by device
	found   func(device string) // called within Hold; may be nil
}

// A disk is an attached namespace.
type disk struct {
	fabric.Disk
	namespace *host.Namespace
}

func newMachine(t testing.TB, addr netip.Addr, number byte) *machine {
	t.Helper()
	return newMachineOn(t, softroce.Config{Addr: addr}, number)
}

func newMachineOn(t testing.TB, c softroce.Config, number byte) *machine {
	t.Helper()
	d, err := softroce.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return &machine{nqn: nvmeof.NQN(fmt.Sprintf("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000%02d", number)),
		id: capsule.HostID{15: number}, host: h, lines: map[nvmeof.NQN]*host.Controller{}, disks: map[string]*disk{},
		mounted: map[string]string{}, staged: map[string]bool{}, guarded: map[string]bool{}, full: map[string]int64{}}
}

// reconnect connects again to everything that was attached, as the kernel does after a target was away.
func (m *machine) reconnect(t testing.TB) {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m.mu.Lock()
	for nqn, c := range m.lines {
		_ = c.Disconnect(gone) // it may not answer
		delete(m.lines, nqn)
	}
	disks := maps.Clone(m.disks)
	m.mu.Unlock()
	for _, d := range disks {
		if _, err := m.Attach(t.Context(), d.Disk); err != nil {
			t.Fatal(err)
		}
	}
}

// line returns the controller of a subsystem.
func (m *machine) line(ctx context.Context, d fabric.Disk) (*host.Controller, error) {
	if c := m.lines[d.NQN]; c != nil {
		return c, nil
	}
	at, err := netip.ParseAddrPort(d.Addresses[0])
	if err != nil {
		return nil, err
	}
	c, err := m.host.Connect(ctx, host.Options{Traddr: at.Addr(), Trsvcid: at.Port(), NQN: d.NQN, HostNQN: m.nqn, HostID: m.id, NrIOQueues: 1})
	if err == nil {
		m.lines[d.NQN] = c
	}
	return c, err
}

func (m *machine) Attach(ctx context.Context, d fabric.Disk) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.line(ctx, d)
	if err != nil {
		return "", err
	}
	n, err := c.Namespace(ctx, capsule.NSID(d.NSID))
	if err != nil {
		return "", err
	}
	if n.Identifiers().UUID != d.UUID {
		return "", fmt.Errorf("namespace %d is %v, want %v", d.NSID, n.Identifiers().UUID, d.UUID)
	}
	device := "/dev/" + d.UUID.String()
	m.disks[device] = &disk{d, n}
	return device, nil
}

func (m *machine) Find(u uuid.UUID) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if device := "/dev/" + u.String(); m.disks[device] != nil {
		return device, nil
	}
	return "", nil
}

func (m *machine) Hold(u uuid.UUID) (*fabric.Held, error) {
	device, _ := m.Find(u)
	if m.found != nil {
		m.found(device)
	}
	if now, _ := m.Find(u); now != device {
		return nil, fabric.ErrGone
	}
	return &fabric.Held{Path: device}, nil
}

func (m *machine) ReadOnly(device string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disks[device].namespace.Info().ReadOnly
}

func (m *machine) Detach(ctx context.Context, u uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks["/dev/"+u.String()]
	if d == nil {
		return nil
	}
	delete(m.disks, "/dev/"+u.String())
	m.disconnect(ctx)
	return nil
}

// disconnect ends connections without disks.
func (m *machine) disconnect(ctx context.Context) {
	needed := map[nvmeof.NQN]bool{}
	for _, d := range m.disks {
		needed[d.NQN] = true
	}
	for nqn, c := range m.lines {
		if !needed[nqn] {
			_ = c.Disconnect(ctx) // it may be lost
			delete(m.lines, nqn)
		}
	}
}

func (m *machine) Tidy(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disconnect(ctx)
	return errors.New("what the test does not look for")
}

func (m *machine) Await(ctx context.Context, device string, size int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks[device]
	if _, err := d.namespace.RefreshContext(ctx); err != nil {
		return 0, err
	}
	if d.namespace.Size() < size {
		return 0, fmt.Errorf("%s has %d bytes, want %d", device, d.namespace.Size(), size)
	}
	return d.namespace.Size(), nil
}

// verify writes to both ends of a disk and reads the data back.
func (d *disk) verify() error {
	for _, at := range []int64{0, d.namespace.Size() - 4096} {
		want := bytes.Repeat([]byte{d.UUID[0], byte(at >> 12), 1, 2}, 1024)
		got := make([]byte, len(want))
		if _, err := d.namespace.WriteAt(want, at); err != nil {
			return err
		}
		if _, err := d.namespace.ReadAt(got, at); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%v at %d: what was written is not read", d.UUID, at)
		}
	}
	return nil
}

func (m *machine) Format(_ context.Context, device, at, _ string, _ []string, readOnly bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks[device]
	if d == nil {
		return fmt.Errorf("there is no %s", device)
	}
	if !readOnly {
		if err := d.verify(); err != nil {
			return err
		}
	}
	m.full[device] = d.namespace.Size()
	m.mounted[at], m.staged[at] = device, true
	return os.MkdirAll(at, 0o700)
}

func (m *machine) Protect(_ context.Context, at string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guarded[at] = true
	return nil
}

func (m *machine) Bind(_ context.Context, source, at string, device, readOnly bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounted[at], m.guarded[at] = source, readOnly
	if device {
		return errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, nil, 0o600))
	}
	return os.MkdirAll(at, 0o700)
}

func (m *machine) Mounted(at string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mounted[at] != "", nil
}

func (m *machine) Holds(at, device string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mounted[at] == device || m.mounted[m.mounted[at]] == device, nil
}

func (m *machine) Shown(source, at string) (there bool, elsewhere []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, of := range m.mounted {
		if of == source && !m.staged[path] && path != at {
			elsewhere = append(elsewhere, path)
		}
	}
	slices.Sort(elsewhere)
	return m.mounted[at] == source, elsewhere, nil
}

func (m *machine) Elsewhere(device, but string) (places []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, of := range m.mounted {
		if path != but && (of == device || m.mounted[of] == device) {
			places = append(places, path)
		}
	}
	return places, nil
}

func (m *machine) Unmount(_ context.Context, at string, remove bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounted, at)
	delete(m.staged, at)
	if !remove {
		return nil
	}
	if err := os.Remove(at); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (m *machine) Grow(_ context.Context, device, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full[device] = m.disks[device].namespace.Size()
	return nil
}

func (m *machine) Usage(at string) (mounts.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	device := m.mounted[m.mounted[at]]
	return mounts.Usage{Bytes: m.full[device], BytesFree: m.full[device] / 2, Inodes: 100, InodesFree: 50}, nil
}
