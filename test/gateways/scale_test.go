package gateways

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

const (
	anaGroups = 128  // the most that are allowed
	perSub    = 1000 // namespaces in each subsystem
	manyTime  = 5 * time.Minute
	fileSize  = 1 << 20 // sparse
	creations = 24
	moves     = 3
	moved     = 1000 // namespaces that move at a time, at least
	starts    = 3
)

// A crowd is a group with very many namespaces, and a host that has a controller at each gateway.
type crowd struct {
	*cluster
	dir  string
	host *host.Host
	ctls []*host.Controller
}

func subsystem(i int) nvmeof.NQN { return nvmeof.NQN(fmt.Sprintf("%s-%d", nqn, i)) }

// document writes a document with n namespaces in files, spread over all ANA groups.
func (c *crowd) document(t *testing.T, n int) string {
	var doc strings.Builder
	doc.WriteString("version: 1\nsubsystems:\n")
	for i := range (n + perSub - 1) / perSub {
		fmt.Fprintf(&doc, "  - nqn: %s\n    allow-any-host: true\n    namespaces:\n", subsystem(i))
		for j := range min(perSub, n-i*perSub) {
			fmt.Fprintf(&doc, "      - {nsid: %d, ana-group: %d, file: {path: %s}, fence: lease}\n", j+1, 1+(i*perSub+j)%anaGroups, c.file(t, i, j+1))
		}
	}
	file := filepath.Join(c.dir, fmt.Sprintf("group%d.yaml", n))
	if err := os.WriteFile(file, []byte(doc.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// file makes the sparse file of a namespace.
func (c *crowd) file(t *testing.T, sub, nsid int) string {
	t.Helper()
	path := filepath.Join(c.dir, "disks", strconv.Itoa(sub), strconv.Itoa(nsid))
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		err = os.Truncate(path, fileSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ready waits until a gateway has a revision of the configuration, and is alive.
func (g *gateway) ready(limit time.Duration, revision int64) (s control.GroupStatus, err error) {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		s, err = g.status()
		switch {
		case err != nil:
		case s.Revision < revision || s.Behind != "":
			err = fmt.Errorf("%s has revision %d, %s", g.name, s.Revision, s.Behind)
		default:
			for _, m := range s.Gateways {
				if m.Name == g.name && m.State == "alive" {
					return s, nil
				}
			}
			err = fmt.Errorf("%s is not alive", g.name)
		}
		if time.Now().After(end) {
			return s, err
		}
	}
}

// allServed waits until every ANA group is served.
func (c *crowd) allServed(limit time.Duration) error {
	return c.within(context.Background(), limit, func(context.Context) error {
		if n := len(c.owners()); n < anaGroups {
			return fmt.Errorf("%d of %d ANA groups are served", n, anaGroups)
		}
		return nil
	})
}

// idleTime is how long after a change a target has returned the memory that the change needed.
const idleTime = 30 * time.Second

// resident returns the resident memory of a process, in bytes.
func (p *process) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	return kib << 10, err
}

// ticks is how many units of the times in /proc make a second (USER_HZ).
const ticks = 100

// processorTime returns the processor time that a process has used, in its own code and in the kernel.
func (p *process) processorTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ") // after the name, which may have spaces
	f := strings.Fields(after)
	var sum int64
	for _, field := range f[11:13] { // utime and stime, proc_pid_stat(5)
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// apply applies a document to the group, and returns how long it took until all was served.
func (c *crowd) apply(t *testing.T, file string) time.Duration {
	t.Helper()
	began := time.Now()
	if err := c.applyFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	s, err := c.gateways[0].ready(manyTime, 1)
	for _, g := range c.gateways[1:] {
		if err == nil {
			_, err = g.ready(manyTime, s.Revision)
		}
	}
	if err == nil {
		err = c.allServed(manyTime)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func (c *crowd) memory(t *testing.T) (all []int64) {
	t.Helper()
	for _, g := range c.gateways {
		n, err := g.resident()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// namespaces measures a group with very many namespaces.
func (s *sheet) namespaces(t *testing.T) {
	dir := t.TempDir()
	c := &crowd{cluster: startCluster(t, dir, needEtcd(t, dir), 3), dir: dir}
	c.apply(t, c.document(t, anaGroups))
	before := c.memory(t)
	took := c.apply(t, c.document(t, *many))
	t.Logf("%d namespaces are configured and served after %v", *many, took)
	time.Sleep(idleTime)
	most := int64(0)
	for i, n := range c.memory(t) {
		t.Logf("%s has %d MiB, and had %d MiB", c.gateways[i].name, n>>20, before[i]>>20)
		most = max(most, (n-before[i])/int64(*many-anaGroups))
	}
	served := c.allServed(0) == nil
	s.add(figure{name: "namespaces in a group", text: fmt.Sprintf("%d, in %d subsystems and %d ANA groups", *many, (*many+perSub-1)/perSub, anaGroups), least: "10000", met: served && *many >= 10000})
	s.add(figure{name: "namespaces in a subsystem", text: fmt.Sprint(c.largest(t)), least: "4096", met: c.largest(t) >= 4096})
	s.add(figure{name: "own memory of an idle namespace, the most of three gateways", text: fmt.Sprintf("%.1f KiB", float64(most)/1024), least: "≤ 64 KiB", met: most <= 64<<10})
	c.connect(t)
	created, spent := c.create(t)
	s.add(figure{name: fmt.Sprintf("create a namespace to usable at all gateways, at %d", *many), times: created, text: spent, limit: 500 * time.Millisecond})
	s.add(figure{name: "move 1,000 namespaces", times: c.shift(t), limit: 30 * time.Second})
	s.add(figure{name: fmt.Sprintf("start of a gateway with %d namespaces", *many), times: c.restart(t), limit: time.Minute})
	s.add(figure{name: "start of all gateways with them, to all served", times: []time.Duration{c.powerCycle(t)}, limit: time.Minute})
}

// largest returns the greatest number of namespaces in a subsystem: the greatest identifier that the group accepts.
func (c *crowd) largest(t *testing.T) int {
	least, most := perSub, 1<<16
	for least+1 < most {
		n := (least + most) / 2
		body := fmt.Sprintf(`{"nsid": %d, "ana-group": 1, "file": {"path": %q}, "fence": "lease"}`, n, c.file(t, 0, n))
		err := c.gateways[0].client.Do(t.Context(), "POST", control.Path("subsystems", string(subsystem(0)), "namespaces"), []string{"dry-run"}, []byte(body), nil)
		if err == nil {
			least = n
		} else {
			most = n
		}
	}
	return least
}

// connect connects a controller at each gateway.
func (c *crowd) connect(t *testing.T) {
	c.host = newHost(t, 100)
	for _, g := range c.gateways {
		ctl, err := c.host.Connect(t.Context(), host.Options{Traddr: g.addr, NQN: subsystem(0), NrIOQueues: 1})
		if err != nil {
			t.Fatal(err)
		}
		c.ctls = append(c.ctls, ctl)
	}
}

// processorTime returns the processor time that each gateway has used.
func (c *crowd) processorTime(t *testing.T) (all []time.Duration) {
	t.Helper()
	for _, g := range c.gateways {
		d, err := g.processorTime()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// create creates namespaces, and returns how long each took until it was usable: until all gateways had it, and one of
// them could read it. It also says how much processor time each gateway used for one.
func (c *crowd) create(t *testing.T) (took []time.Duration, spent string) {
	before, began := c.processorTime(t), time.Now()
	defer func() {
		for i, d := range c.processorTime(t) {
			spent += fmt.Sprintf(" %.2f", (d-before[i]).Seconds()/creations)
		}
		spent = fmt.Sprintf("in %.1f s; processor time of each, with its removal:%s s", time.Since(began).Seconds(), spent)
	}()
	for i := range creations {
		id := perSub + 1 + i
		if id > 4096 {
			id = perSub + 1 + i%24
		}
		path := control.Path("subsystems", string(subsystem(0)), "namespaces")
		body := fmt.Sprintf(`{"nsid": %d, "ana-group": %d, "file": {"path": %q}, "fence": "lease"}`, id, 1+i%anaGroups, c.file(t, 0, id))
		began := time.Now()
		if err := c.gateways[0].client.Do(t.Context(), "POST", path, nil, []byte(body), nil); err != nil {
			t.Fatal(err)
		}
		answered := time.Since(began)
		if err := c.usable(capsule.NSID(id), began); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
		t.Logf("namespace %d: answered after %v, usable after %v", id, answered.Round(time.Millisecond), took[i].Round(time.Millisecond))
		if i%24 == 23 || i == creations-1 { // these identifiers are used again
			c.remove(t, path, i%24+1)
		}
	}
	return took, spent
}

// remove removes what create has created.
func (c *crowd) remove(t *testing.T, path string, n int) {
	for i := range n {
		if err := c.gateways[0].client.Do(t.Context(), "DELETE", path+"/"+strconv.Itoa(perSub+1+i), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range c.gateways {
		s, err := c.gateways[0].status()
		if err == nil {
			_, err = g.ready(manyTime, s.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// usable waits until all controllers have a namespace, and one of them reads it.
func (c *crowd) usable(id capsule.NSID, began time.Time) error {
	p := make([]byte, blockSize)
	var all []*host.Namespace
	defer func() {
		for _, n := range all {
			_ = n.Close() // of a controller that is connected
		}
	}()
	for _, ctl := range c.ctls {
		n, err := ctl.Namespace(context.Background(), id)
		for err != nil && time.Since(began) < serveTime {
			time.Sleep(2 * time.Millisecond)
			n, err = ctl.Namespace(context.Background(), id)
		}
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	for {
		var err error
		for _, n := range all {
			if _, err = n.ReadAt(p, 0); err == nil {
				return nil
			}
		}
		if time.Since(began) > serveTime {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// shift moves ANA groups with at least moved namespaces in all to another gateway, and returns how long each shift
// took.
func (c *crowd) shift(t *testing.T) (took []time.Duration) {
	groups := moved/(*many/anaGroups) + 1
	for i := range moves {
		to := c.gateways[i%len(c.gateways)]
		var ids []int
		for id, owner := range c.owners() {
			if owner != to && len(ids) < groups {
				ids = append(ids, id)
			}
		}
		before, err := c.state()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() { // ends with the answer to the order
				if err := c.move(id, to); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		err = c.within(t.Context(), manyTime, func(context.Context) error {
			owners := c.owners()
			now, err := c.state()
			for _, id := range ids {
				if err == nil && (owners[id] == nil || owners[id] != to && now.epochs[id] <= before.epochs[id]) { // for balance some groups move on
					err = fmt.Errorf("ANA group %d is not moved", id)
				}
			}
			return err
		})
		took = append(took, time.Since(began))
		if err != nil {
			t.Error(err)
		}
	}
	return took
}

// restart ends a gateway and starts it again. It returns how long the gateway takes to have all namespaces and to
// accept a host's connection.
func (c *crowd) restart(t *testing.T) (took []time.Duration) {
	g := c.gateways[1]
	s, err := g.status()
	if err != nil {
		t.Fatal(err)
	}
	for range starts {
		g.signal(syscall.SIGTERM)
		if err := g.wait(manyTime); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		_, err := g.ready(manyTime, s.Revision)
		if err == nil {
			err = c.listed(g.addr, min(perSub, *many))
		}
		took = append(took, time.Since(began))
		if err == nil {
			err = c.allServed(manyTime)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return took
}

// listed connects a host until it sees the wanted number of namespaces.
func (c *crowd) listed(at netip.Addr, want int) error {
	return c.within(context.Background(), manyTime, func(ctx context.Context) error {
		ctl, err := c.host.Connect(ctx, host.Options{Traddr: at, NQN: subsystem(0), NrIOQueues: 1})
		if err != nil {
			return err
		}
		ids, err := ctl.Namespaces(ctx)
		_ = ctl.Disconnect(ctx) // its answer is not needed any more
		if err == nil && len(ids) < want {
			err = fmt.Errorf("%v lists %d namespaces", at, len(ids))
		}
		return err
	})
}

// powerCycle kills everything, and returns how long it takes until all is served again.
func (c *crowd) powerCycle(t *testing.T) time.Duration {
	c.store.kill()
	for _, g := range c.gateways {
		g.kill()
	}
	began := time.Now()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	if err := c.allServed(manyTime); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// gateways measures a group of many gateways.
func (s *sheet) gateways(t *testing.T) {
	dir := t.TempDir()
	c := startCluster(t, dir, needEtcd(t, dir), *large)
	began := time.Now()
	c.configure(t, dir)
	knows := func(n int) error {
		for _, g := range c.gateways {
			if g.cmd == nil {
				continue
			}
			s, err := g.ready(serveTime, 1)
			alive := 0
			for _, m := range s.Gateways {
				if m.State == "alive" {
					alive++
				}
			}
			if err == nil && alive != n {
				err = fmt.Errorf("%s sees %d gateways alive, of %d", g.name, alive, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	all := func(n int) error {
		return c.within(t.Context(), time.Minute, func(context.Context) error { return knows(n) })
	}
	if err := all(*large); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d gateways know each other after %v", *large, time.Since(began).Round(time.Millisecond))
	h := newHost(t, 100)
	log, err := h.Discover(t.Context(), host.Options{Traddr: c.gateways[0].addr})
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for i := range log.Entries {
		if log.Entries[i].SubNQN.String() == nqn {
			listed++
		}
	}
	owner := c.owners()[1]
	if owner == nil {
		t.Fatal("nobody serves ANA group 1")
	}
	killed := time.Now()
	owner.kill()
	if err := c.served([]int{1}, another(owner)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(killed)
	err = all(*large - 1)
	s.add(figure{name: "gateways in a group", text: fmt.Sprintf("%d alive, %d in the discovery log; one killed: served after %v", *large, listed, took.Round(time.Millisecond)),
		least: "16", met: err == nil && listed == *large && *large >= 16})
}
