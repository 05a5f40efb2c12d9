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

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A gateway is a process of the group.
type gateway struct {
	*process
	addr   netip.Addr
	socket string
	client *control.Client
	held   bool // by SIGSTOP
}

// A cluster is the group with its etcd.
type cluster struct {
	program  string
	etcd     *process
	gateways []*gateway
}

const etcdAddr = "127.106.0.9"

func startCluster(t *testing.T, dir string) *cluster {
	program := filepath.Join(dir, "nvmeof")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/nvmeof").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	clients, peers := "http://"+etcdAddr+":2379", "http://"+etcdAddr+":2380"
	c := &cluster{program: program, etcd: newProcess(t, dir, "etcd", "etcd", "--name", "e", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", clients,
		"--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "e="+peers)}
	for i := 1; i <= 3; i++ {
		name, addr := fmt.Sprintf("gw%d", i), fmt.Sprintf("127.106.0.%d", i)
		socket := filepath.Join(dir, name)
		g := &gateway{process: newProcess(t, dir, name, program, "target", "--listen", addr, "--group", "etcd://"+etcdAddr+"/rounds", "--gateway", name, "--socket", socket),
			addr: netip.MustParseAddr(addr), socket: socket, client: control.NewClient(socket)}
		t.Cleanup(g.client.Close)
		c.gateways = append(c.gateways, g)
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts what does not run.
func (c *cluster) start() error {
	all := []*process{c.etcd}
	for _, g := range c.gateways {
		all = append(all, g.process)
	}
	for _, p := range all {
		if p.cmd == nil {
			if err := p.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// configure gives the group its namespaces, in an ANA group each.
func (c *cluster) configure(t *testing.T, dir string) {
	var doc strings.Builder
	fmt.Fprintf(&doc, "version: 1\nsubsystems:\n  - nqn: %s\n    allow-any-host: true\n    namespaces:\n", nqn)
	for id := 1; id <= spaces; id++ {
		path := filepath.Join(dir, fmt.Sprintf("disk%d", id))
		if err := os.WriteFile(path, make([]byte, blocks*blockSize), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&doc, "      - {nsid: %d, ana-group: %d, block-size: %d, file: {path: %s}, fence: lease}\n", id, id, blockSize, path)
	}
	file := filepath.Join(dir, "group.yaml")
	if err := os.WriteFile(file, []byte(doc.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.within(t.Context(), serveTime, func(ctx context.Context) error { // the gateways start
		out, err := exec.CommandContext(ctx, c.program, "target", "apply", "--socket", c.gateways[0].socket, file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// within asks again until the error is nil, or so much time is over.
func (c *cluster) within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := f(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// statusTime is for a gateway to say how the group is.
const statusTime = 3 * time.Second

func (g *gateway) status() (s control.GroupStatus, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	err = g.client.Do(ctx, "GET", control.Path("group"), nil, nil, &s)
	return s, err
}

// owners are the gateways by the ANA groups that they say they serve.
func (c *cluster) owners() map[int]*gateway {
	all := map[int]*gateway{}
	for _, g := range c.gateways {
		if g.cmd == nil || g.held {
			continue
		}
		s, err := g.status()
		if err != nil {
			continue // it starts
		}
		for _, a := range s.Groups {
			if a.Served {
				all[a.Group] = g
			}
		}
	}
	return all
}

// served waits until ANA groups are served, by gateways that the function admits.
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

// alive reports whether all gateways are, as one of them sees it.
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

// order gives the group an order.
func (c *cluster) order(method, path string, body any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // of strings
	}
	return c.within(context.Background(), serveTime, func(ctx context.Context) error {
		return c.gateways[0].client.Do(ctx, method, path, nil, text, nil)
	})
}

// epoch is that of an ANA group, 0 where a gateway does not say.
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

// move gives the order to move an ANA group.
func (c *cluster) move(id int, to *gateway) error {
	return c.order("PUT", control.Path("group", "ana-groups", strconv.Itoa(id), "gateway"), map[string]string{"gateway": to.name})
}

// crashed are those that have ended by themselves.
func (c *cluster) crashed() (errs []error) {
	for _, g := range c.gateways {
		if g.ended() {
			errs = append(errs, fmt.Errorf("%s has ended: %s", g.name, g.tail()))
		}
	}
	if c.etcd.ended() {
		errs = append(errs, fmt.Errorf("etcd has ended: %s", c.etcd.tail()))
	}
	return errs
}
