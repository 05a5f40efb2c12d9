package gateways

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A gateway is a process of the group.
type gateway struct {
	*process
	addr   netip.Addr
	socket string
	client *control.Client
	held   bool // stopped by SIGSTOP
}

// A cluster is a group with its store.
type cluster struct {
	program  string
	store    store
	gateways []*gateway
}

// address returns an address of the loopback network.
func address(n int) string { return fmt.Sprintf("%s.%d", *network, n) }

// build builds the program.
func build(t *testing.T, dir string) string {
	program := filepath.Join(dir, "nvmeof")
	args := []string{"build", "-o", program}
	if rbd.Built {
		args = append(args, "-tags", "rbd")
	}
	if out, err := exec.Command("go", append(args, "../../cmd/nvmeof")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// startCluster starts the given number of gateways.
func startCluster(t *testing.T, dir string, s store, gateways int) *cluster {
	c := &cluster{program: build(t, dir), store: s}
	for i := 1; i <= gateways; i++ {
		c.add(t, dir, i)
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// add adds a gateway, which is not started yet.
func (c *cluster) add(t *testing.T, dir string, i int) *gateway {
	name, addr := fmt.Sprintf("gw%d", i), address(10+i)
	socket := filepath.Join(dir, name)
	g := &gateway{process: newProcess(t, dir, name, c.program, "target", "--listen", addr, "--group", c.store.url(), "--gateway", name, "--socket", socket),
		addr: netip.MustParseAddr(addr), socket: socket, client: control.NewClient(socket)}
	g.env = c.store.env()
	t.Cleanup(g.client.Close)
	c.gateways = append(c.gateways, g)
	return g
}

// start starts the store and all gateways that do not run.
func (c *cluster) start() error {
	if err := c.store.start(); err != nil {
		return err
	}
	for _, g := range c.gateways {
		if g.cmd == nil {
			if err := g.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// configure gives the group its namespaces, each in an ANA group of its own.
func (c *cluster) configure(t *testing.T, dir string) {
	var doc strings.Builder
	fmt.Fprintf(&doc, "version: 1\nsubsystems:\n  - nqn: %s\n    allow-any-host: true\n    namespaces:\n", nqn)
	for id := 1; id <= reserved; id++ {
		disk, err := c.store.namespace(id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&doc, "      - {nsid: %d, ana-group: %d, block-size: %d, %s}\n", id, (id-1)%spaces+1, blockSize, disk)
	}
	file := filepath.Join(dir, "group.yaml")
	if err := os.WriteFile(file, []byte(doc.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.applyFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

// applyFile applies a document to the group.
func (c *cluster) applyFile(ctx context.Context, file string) error {
	return c.within(ctx, serveTime, func(ctx context.Context) error { // the gateways may still start
		out, err := exec.CommandContext(ctx, c.program, "target", "apply", "--socket", c.gateways[0].socket, file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// within repeats f until it returns nil, or the time is over.
func (c *cluster) within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := f(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// statusTime is the limit of a request for the group's status.
const statusTime = 3 * time.Second

func (g *gateway) status() (s control.GroupStatus, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	err = g.client.Do(ctx, "GET", control.Path("group"), nil, nil, &s)
	return s, err
}

// owners returns the gateways by the ANA groups that they say they serve.
func (c *cluster) owners() map[int]*gateway {
	all := map[int]*gateway{}
	for _, g := range c.gateways {
		if g.cmd == nil || g.held {
			continue
		}
		s, err := g.status()
		if err != nil {
			continue // it is starting
		}
		for _, a := range s.Groups {
			if a.Served {
				all[a.Group] = g
			}
		}
	}
	return all
}

// served waits until ANA groups are served by gateways that the function admits.
func (c *cluster) served(groups []int, by func(*gateway) bool) error {
	return c.within(context.Background(), serveTime, func(context.Context) error {
		owners := c.owners()
		for _, id := range groups {
			switch g := owners[id]; {
			case g == nil:
				return fmt.Errorf("nobody serves ANA group %d", id)
			case !by(g):
				return fmt.Errorf("%s serves ANA group %d", g.name, id)
			}
		}
		return nil
	})
}

// alive returns an error unless one of the gateways says that all are alive.
func (c *cluster) alive() error {
	s, err := c.gateways[0].status()
	if err != nil {
		return err
	}
	var errs []error
	if len(s.Gateways) != len(c.gateways) {
		errs = append(errs, fmt.Errorf("the group has %d gateways", len(s.Gateways)))
	}
	for _, m := range s.Gateways {
		if m.State != "alive" {
			errs = append(errs, fmt.Errorf("gateway %s is %s", m.Name, m.State))
		}
	}
	return errors.Join(errs...)
}

// order sends a request to the group's API, until it succeeds.
func (c *cluster) order(method, path string, body any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // strings never fail
	}
	return c.within(context.Background(), serveTime, func(ctx context.Context) error {
		return c.gateways[0].client.Do(ctx, method, path, nil, text, nil)
	})
}

// epoch returns the epoch of an ANA group, or 0 if the gateway does not answer.
func (c *cluster) epoch(id int) uint64 {
	s, err := c.gateways[0].status()
	if err != nil {
		return 0
	}
	for _, a := range s.Groups {
		if a.Group == id {
			return a.Epoch
		}
	}
	return 0
}

// move orders the group to move an ANA group.
func (c *cluster) move(id int, to *gateway) error {
	return c.order("PUT", control.Path("group", "ana-groups", strconv.Itoa(id), "gateway"), map[string]string{"gateway": to.name})
}

// crashed returns an error for each process, of gateways and of the store, that has ended by itself.
func (c *cluster) crashed() (errs []error) {
	for _, g := range c.gateways {
		if g.ended() {
			errs = append(errs, fmt.Errorf("%s has ended: %s", g.name, g.tail()))
		}
	}
	return append(errs, c.store.crashed()...)
}
