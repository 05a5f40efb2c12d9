package gateways

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A mixedStore has the state of the group in etcd, and images in a Ceph cluster.
type mixedStore struct {
	*etcdStore
	ceph *cephStore
}

func (s *mixedStore) env() []string                    { return s.ceph.env() }
func (s *mixedStore) start() error                     { return errors.Join(s.etcdStore.start(), s.ceph.start()) }
func (s *mixedStore) crashed() []error                 { return slices.Concat(s.etcdStore.crashed(), s.ceph.crashed()) }
func (s *mixedStore) namespace(id int) (string, error) { return s.ceph.namespace(id) }
func (s *mixedStore) kill() {
	s.etcdStore.kill()
	s.ceph.kill()
}

const (
	// ownUser is the user ID of the gateway that is cut off, so that iptables can match its packets.
	ownUser = 61061
	// takenTime is how long a gateway that alone does not reach its storage may keep what it serves. Its images are
	// silent for 5 s, which is checked every 5 s; its groups are moved 5 s later, and what hangs is given up after 10
	// s.
	takenTime = 45 * time.Second
	// silentTime is how long the storage is silent: longer than gateways take to report that, and to act.
	silentTime = 25 * time.Second
)

// TestUnreached: the storage does not answer one gateway, and others take over what it serves. Then the storage answers
// no gateway, and each keeps what it serves. The test needs root and iptables, which drops the packets of a user.
func TestUnreached(t *testing.T) {
	if !*real {
		t.Skip("without -ceph")
	}
	if _, err := exec.LookPath("iptables"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and iptables")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil { // another user needs access, too
		t.Fatal(err)
	}
	s := &mixedStore{needEtcd(t, dir).(*etcdStore), needCeph(t, dir).(*cephStore)}
	for path, mode := range map[string]os.FileMode{s.ceph.Dir: 0o755, s.ceph.Conf: 0o644, filepath.Join(s.ceph.Dir, "keyring"): 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{random: rand.New(rand.NewPCG(*seed, 0)), cluster: &cluster{program: build(t, dir), store: s}}
	for i := range 3 {
		l.cluster.add(t, dir, i+1)
	}
	g := l.cluster.gateways[2]
	g.args = append([]string{"setpriv", "--reuid", strconv.Itoa(ownUser), "--clear-groups"}, g.args...)
	t.Cleanup(func() { _ = s.cut("-D") }) // in case the test has failed before
	if err := l.cluster.start(); err != nil {
		t.Fatal(err)
	}
	l.begin(t, dir)
	for i, k := range []kind{
		{sudden, "cut off from the OSDs", "cut off -> all served elsewhere", func(l *lab, r *round) error { return s.unreached(l, r, g) }},
		{planned, "all OSDs SIGSTOP", "continued -> all optimized", s.silent},
	} {
		l.round(t, i, k)
	}
	l.finish(t)
}

// cut adds or deletes the rule that cuts a gateway off from the OSDs, but not from the monitor and etcd.
func (s *mixedStore) cut(how string) error {
	out, err := exec.Command("iptables", how, "OUTPUT", "-m", "owner", "--uid-owner", strconv.Itoa(ownUser), "-p", "tcp", "-d", address(9),
		"-m", "multiport", "!", "--dports", "13300,2379", "-j", "DROP").CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}

func (s *mixedStore) unreached(l *lab, r *round, g *gateway) error {
	r.victim = g.name
	if err := errors.Join(l.spread(), s.cut("-A")); err != nil {
		return err
	}
	var its []int
	for id, owner := range l.cluster.owners() {
		if owner == g {
			its = append(its, id)
		}
	}
	r.began = time.Now()
	err := l.cluster.within(context.Background(), takenTime, func(context.Context) error { return l.cluster.served(its, another(g)) })
	r.took = time.Since(r.began)
	if err == nil {
		err = l.getsOn(serveTime)
	}
	return errors.Join(err, s.cut("-D"))
}

// silent stops all OSDs for a time.
func (s *mixedStore) silent(l *lab, r *round) error {
	signal := func(with syscall.Signal) (err error) {
		for _, daemon := range s.ceph.Daemons() {
			if strings.HasPrefix(daemon, "osd") {
				err = errors.Join(err, s.ceph.Signal(daemon, with))
			}
		}
		return err
	}
	if err := l.spread(); err != nil {
		return err
	}
	before := l.epochs()
	err := signal(syscall.SIGSTOP)
	time.Sleep(silentTime)
	r.began = time.Now()
	if err = errors.Join(err, signal(syscall.SIGCONT)); err == nil {
		err = l.settle(r.began)
	}
	r.took = time.Since(r.began)
	if after := l.epochs(); err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("ANA groups have moved, although the storage answered nobody: their epochs were %v, and are %v", before, after)
	}
	return err
}

// spread waits until each gateway serves something, so that no group moves for balance.
func (l *lab) spread() error {
	return l.cluster.within(context.Background(), returnTime, func(context.Context) error {
		all := map[*gateway]bool{}
		for _, g := range l.cluster.owners() {
			all[g] = true
		}
		if len(all) < len(l.cluster.gateways) {
			return fmt.Errorf("of %d gateways %d serve something", len(l.cluster.gateways), len(all))
		}
		return nil
	})
}

// epochs returns the epochs of all ANA groups.
func (l *lab) epochs() (all []uint64) {
	for _, id := range everything() {
		all = append(all, l.cluster.epoch(id))
	}
	return all
}
