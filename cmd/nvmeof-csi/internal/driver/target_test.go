package driver

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// asTarget, if set to a directory, makes the test's executable a target process, which can be killed.
const asTarget = "NVMEOF_CSI_TEST_TARGET"

var (
	long = flag.Bool("long", false, "kill targets more often")
	conf = flag.String("ceph.conf", "", "the `ceph.conf` of a cluster that runs, with a pool rbd")
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(asTarget); dir != "" {
		if err := serveTarget(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// serveTarget serves a target as nvmeof target --config does.
func serveTarget(dir string) error {
	file := filepath.Join(dir, "target.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	doc, _, err := config.Parse(file, text)
	if err != nil {
		return err
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	t, err := target.New(target.Config{Log: log, Arena: 4 << 20, Revalidate: time.Second})
	if err != nil {
		return err
	}
	m := control.New(control.Config{Target: t, Settings: doc, Log: log, File: file, State: filepath.Join(dir, "state"),
		Device: func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
			return softroce.Open(softroce.Config{Addr: a})
		}})
	if _, err := m.Apply(doc, control.Options{Wait: true}); err != nil {
		return err
	}
	at, err := control.Listen(filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	s := control.Serve(m, at)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	<-ctx.Done()
	return s.Close()
}

// A targetRig is a target in a process of its own, at an address of its own.
type targetRig struct {
	t    testing.TB
	dir  string
	addr netip.Addr
	set  *volumes.Set
	cmd  *exec.Cmd
	said bytes.Buffer
}

const subsystemNQN = "nqn.2026-11.org.example:csi"

// lastAddr counts addresses: a target uses one, and the machines of the test the next two.
var lastAddr atomic.Uint32

func newTargetRig(t testing.TB) *targetRig {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &targetRig{t: t, dir: dir, addr: netip.AddrFrom4([4]byte{127, 106, byte(1 + os.Getpid()%250), byte(lastAddr.Add(3))})}
	text := fmt.Sprintf("version: 1\n# volumes of a driver\nlisteners:\n  - id: 1\n    address: %s\nsandbox: {paths: [%s]}\n", r.addr, dir)
	if err := os.WriteFile(filepath.Join(dir, "target.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.set, err = volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "t", Control: "unix:" + r.socket(), Subsystem: subsystemNQN, Directory: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.set.Close()
		r.kill()
		if t.Failed() {
			t.Logf("the target said:\n%s", &r.said)
		}
	})
	return r
}

func (r *targetRig) socket() string { return filepath.Join(r.dir, "socket") }

// start starts the target, and waits until it serves.
func (r *targetRig) start() {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command(self)
	r.cmd.Env = append(os.Environ(), asTarget+"="+r.dir)
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := control.NewClient(r.socket())
	defer c.Close()
	for end := time.Now().Add(time.Minute); c.Do(r.t.Context(), "GET", "/v1/status", nil, nil, nil) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("the target does not serve")
		}
	}
}

// kill ends the process like kill -9.
func (r *targetRig) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()
}

// document returns the document that the target has saved.
func (r *targetRig) document() *config.Document {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "target.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	doc, _, err := config.Parse("target.yaml", text)
	if err != nil {
		r.t.Fatal(err)
	}
	return doc
}
