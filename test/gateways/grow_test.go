package gateways

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

var grows = flag.Bool("grow", false, "run TestGrow")

// growTime is the limit for all gateways to report another size to hosts: they check the size every 5 s.
const growTime = 30 * time.Second

// TestGrow enlarges a namespace's file or image without the gateways. Each gateway must report the size to hosts, also
// after the ANA group has moved.
func TestGrow(t *testing.T) {
	if !*grows {
		t.Skip("without -grow")
	}
	dir := t.TempDir()
	c := startCluster(t, dir, newStore(t, dir), 2)
	c.configure(t, dir)
	if err := c.served(everything(), anyone); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{2, 3} {
		size, began := n*blocks*blockSize, time.Now()
		if err := c.grow(1, size); err != nil {
			t.Fatal(err)
		}
		if err := c.within(t.Context(), growTime, func(ctx context.Context) error { return c.sized(ctx, 1, size) }); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes at each gateway after %v", size, time.Since(began).Round(time.Millisecond))
		to := c.gateways[0]
		if c.owners()[1] == to {
			to = c.gateways[1]
		}
		if out, err := exec.CommandContext(t.Context(), c.program, "ana-group", "move", "--socket", to.socket, "--wait", "30s", "--gateway", to.name, "1").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// grow enlarges the file or image of a namespace.
func (c *cluster) grow(id int, size int64) error {
	switch s := c.store.(type) {
	case *etcdStore:
		return os.Truncate(filepath.Join(s.dir, fmt.Sprintf("disk%d", id)), size)
	case *cephStore:
		_, err := s.Run("rbd", "resize", fmt.Sprintf("rbd/disk%d", id), "--size", strconv.FormatInt(size, 10)+"B")
		return err
	}
	return fmt.Errorf("%T has no namespaces that grow", c.store)
}

// sized returns an error unless every gateway reports the size of a namespace to hosts.
func (c *cluster) sized(ctx context.Context, id int, size int64) error {
	for _, g := range c.gateways {
		out, err := exec.CommandContext(ctx, c.program, "id-ns", "-t", "rdma", "-a", g.addr.String(), "-n", nqn, "--namespace-id", strconv.Itoa(id), "-o", "json").Output()
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		var said struct {
			Blocks int64 `json:"nsze"`
		}
		if err := json.Unmarshal(out, &said); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		if said.Blocks*blockSize != size {
			return fmt.Errorf("%s says %d blocks of %d bytes, want %d bytes", g.name, said.Blocks, blockSize, size)
		}
	}
	return nil
}
