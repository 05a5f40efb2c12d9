package ceph

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

var (
	real     = flag.Bool("ceph", false, "start a Ceph cluster, which takes a quarter of a minute and 1 GiB of memory")
	existing = flag.String("conf", "", "the `ceph.conf` of a cluster that runs, for the suite alone, instead of one of its own")
)

// running is the cluster of all tests, or nil.
var running *Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if !*real || !rbd.Built || len(Missing()) > 0 || *existing != "" {
		if *existing != "" {
			running = &Cluster{Conf: *existing}
		}
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ceph")
	if err == nil {
		defer os.RemoveAll(dir)
		running, err = Start(dir, "127.88.19.1:13300", 2)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer running.Stop()
	return m.Run()
}

// cluster returns the cluster, or skips the test if there is none.
func cluster(t *testing.T) *Cluster {
	t.Helper()
	switch missing := Missing(); {
	case running != nil:
	case !*real:
		t.Skip("needs a Ceph cluster: go test -tags rbd ./test/ceph -ceph")
	case !rbd.Built:
		t.Skip(rbd.ErrNotBuilt)
	case len(missing) > 0:
		t.Skipf("%s missing: install ceph-mon ceph-mgr ceph-osd ceph-common", strings.Join(missing, ", "))
	}
	return running
}

var images atomic.Int64

// open creates and opens a new image.
func open(t *testing.T, c *Cluster, cfg rbd.Config) (*rbd.Store, string) {
	t.Helper()
	name := fmt.Sprintf("rbd/disk-%d-%d", os.Getpid(), images.Add(1))
	cfg.Conf = c.Conf
	s, err := rbd.Open(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, name
}

func TestContract(t *testing.T) {
	c := cluster(t)
	backendtest.Run(t, func(t *testing.T) backend.Store {
		s, _ := open(t, c, rbd.Config{Size: 20 << 20})
		return s
	})
}

// TestRemove: an image is not removed while it is open. Removing it again succeeds.
func TestRemove(t *testing.T) {
	c := cluster(t)
	s, name := open(t, c, rbd.Config{Size: 1 << 20})
	cfg := rbd.Config{Conf: c.Conf}
	if err := rbd.Remove(name, cfg); !errors.Is(err, unix.EBUSY) {
		t.Errorf("an image that is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rbd.Remove(name, cfg); err != nil {
			t.Error(err)
		}
	}
	if _, err := rbd.Open(name, cfg); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the image is there: %v", err)
	}
}

// TestRemoveByClient: a connected client removes an image, unless the cluster refuses that client.
func TestRemoveByClient(t *testing.T) {
	c := cluster(t)
	s, name := open(t, c, rbd.Config{Size: 1 << 20})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fenced, other := connect(t, c), connect(t, c)
	if err := other.Fence(t.Context(), fenced.Addresses(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := rbd.Remove(name, rbd.Config{Client: fenced}); err == nil {
		t.Error("a client that is fenced removes an image")
	} else if t.Log(err); !errors.Is(err, unix.ESHUTDOWN) {
		t.Error("that is no fence")
	}
	if s, err := rbd.Open(name, rbd.Config{Client: other}); err != nil {
		t.Error(err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := rbd.Remove(name, rbd.Config{Client: other}); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(fenced.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if err := rbd.Remove(name, rbd.Config{Client: other}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("by a client that is closed: %v", err)
	}
}
