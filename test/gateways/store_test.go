package gateways

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A store keeps the state of the group, and its namespaces.
type store interface {
	url() string   // for nvmeof target --group
	env() []string // environment of programs that use the store
	// start starts the processes that do not run.
	start() error
	// kill kills all of them with SIGKILL.
	kill()
	// crashed returns the errors of processes that have ended by themselves.
	crashed() []error
	// namespace creates a disk, and returns how a document describes it.
	namespace(id int) (string, error)
}

// An etcdStore is one etcd, and files that every gateway can write: only a lease fences them.
type etcdStore struct {
	*process
	at  string // its address, with the port
	dir string
}

func newEtcd(t *testing.T, dir string) *etcdStore {
	at := address(9)
	clients, peers := "http://"+at+":2379", "http://"+at+":2380"
	return &etcdStore{dir: dir, at: at, process: newProcess(t, dir, "etcd", "etcd", "--name", "e", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", clients,
		"--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "e="+peers)}
}

func (s *etcdStore) url() string   { return "etcd://" + s.at + "/rounds" }
func (s *etcdStore) env() []string { return nil }

func (s *etcdStore) start() error {
	if s.cmd != nil {
		return nil
	}
	return s.process.start()
}

func (s *etcdStore) crashed() []error {
	if !s.ended() {
		return nil
	}
	return []error{fmt.Errorf("etcd has ended: %s", s.tail())}
}

func (s *etcdStore) namespace(id int) (string, error) {
	path := filepath.Join(s.dir, fmt.Sprintf("disk%d", id))
	return fmt.Sprintf("file: {path: %s}, fence: lease", path), os.WriteFile(path, make([]byte, blocks*blockSize), 0o600)
}

// etcdKinds are the faults of etcd.
var etcdKinds = []kind{
	{planned, "etcd SIGSTOP for 4 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, withinLease, false) }},
	{planned, "etcd killed and started", "started -> all optimized", (*lab).killStore},
	{sudden, "etcd SIGSTOP for 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, beyondLease, false) }},
	{sudden, "both: kill -9, etcd 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, beyondLease, true) }},
}

// The lease of files lasts 10 s.
const (
	beyondLease = 12 * time.Second
	withinLease = 4 * time.Second
)

// stopEtcd stops etcd for a time. It may kill a gateway meanwhile.
func (l *lab) stopEtcd(r *round, d time.Duration, kill bool) error {
	g, _ := l.victim(r)
	etcd := l.cluster.store.(*etcdStore)
	etcd.signal(syscall.SIGSTOP)
	time.Sleep(d / 2)
	if kill {
		g.kill()
	}
	time.Sleep(d - d/2)
	r.began = time.Now()
	etcd.signal(syscall.SIGCONT)
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	return l.cluster.start()
}

func (l *lab) killStore(r *round) error {
	r.began = time.Now()
	l.cluster.store.kill()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, everything(), anyone)
}

// A groupState is what the group must keep when all of it loses power.
type groupState struct {
	revision int64          // of the configuration
	epochs   map[int]uint64 // of ANA groups
}

// state returns the current state.
func (c *cluster) state() (s groupState, err error) {
	err = c.within(context.Background(), serveTime, func(context.Context) error {
		now, err := c.gateways[0].status()
		if err != nil {
			return err
		}
		s = groupState{now.Revision, map[int]uint64{}}
		for _, a := range now.Groups {
			if a.Owner == "" {
				return fmt.Errorf("ANA group %d has no owner", a.Group)
			}
			s.epochs[a.Group] = a.Epoch
		}
		return nil
	})
	return s, err
}

// after returns an error if something of the earlier state is missing.
func (s *groupState) after(before *groupState) error {
	if s.revision != before.revision {
		return fmt.Errorf("revision %d of the configuration, and before it was %d", s.revision, before.revision)
	}
	for id, epoch := range before.epochs {
		if s.epochs[id] < epoch {
			return fmt.Errorf("ANA group %d is in epoch %d, and before that was %d", id, s.epochs[id], epoch)
		}
	}
	return nil
}
