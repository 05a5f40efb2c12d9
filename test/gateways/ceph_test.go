package gateways

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/ceph"
)

// osds is the number of OSDs. Each has all data.
const osds = 2

// A cephStore is a Ceph cluster. The state is in an object, namespaces are images, and the cluster refuses the clients
// of a fenced gateway.
type cephStore struct {
	*ceph.Cluster
	down map[string]bool // daemons that were killed
}

func newCeph(t *testing.T, dir string) *cephStore {
	dir = filepath.Join(dir, "ceph")
	c, err := ceph.Start(dir, address(9)+":13300", osds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &cephStore{Cluster: c, down: map[string]bool{}}
}

func (s *cephStore) url() string   { return "rados://rbd/rounds" }
func (s *cephStore) env() []string { return []string{"CEPH_CONF=" + s.Conf} }

func (s *cephStore) start() error {
	for _, daemon := range s.Daemons() {
		if !s.down[daemon] {
			continue
		}
		if err := s.StartDaemon(daemon); err != nil {
			return err
		}
		delete(s.down, daemon)
	}
	return nil
}

func (s *cephStore) kill() {
	for _, daemon := range s.Daemons() {
		_ = s.killDaemon(daemon) // fails if the daemon has ended
	}
}

func (s *cephStore) killDaemon(daemon string) error {
	s.down[daemon] = true
	return s.Signal(daemon, syscall.SIGKILL)
}

func (s *cephStore) crashed() (errs []error) {
	for _, daemon := range s.Daemons() {
		if err := s.Signal(daemon, 0); err != nil && !s.down[daemon] {
			errs = append(errs, fmt.Errorf("%s has ended: %w", daemon, err))
		}
	}
	return errs
}

func (s *cephStore) namespace(id int) (string, error) {
	image := fmt.Sprintf("rbd/disk%d", id)
	_, err := s.Run("rbd", "create", image, "--size", strconv.Itoa(blocks*blockSize)+"B")
	return fmt.Sprintf("rbd: {image: %s}", image), err
}

// cephKinds are the faults of a cluster, in addition to those of gateways.
var cephKinds = []kind{
	{planned, "monitor SIGSTOP", "I/O without it", func(l *lab, r *round) error { return l.stopMonitor(r, false) }},
	{planned, "monitor killed, started", "I/O without it", (*lab).killMonitor},
	{planned, "OSD SIGSTOP for 4 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, shortStop, nil) }},
	{sudden, "OSD SIGSTOP for 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, longStop, nil) }},
	{sudden, "move, OSD SIGSTOP 4 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, shortStop, (*lab).moveSoon) }},
	{sudden, "move, OSD SIGSTOP 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, longStop, (*lab).moveSoon) }},
	{sudden, "failback, OSD stopped", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, longStop, (*lab).failback) }},
	{sudden, "kill -9, OSD stopped", "continued -> all optimized", func(l *lab, r *round) error { return l.stopOSD(r, longStop, (*lab).killSoon) }},
	{sudden, "OSD killed and started", "started -> all optimized", (*lab).killOSD},
	{sudden, "both: kill -9, monitor", "continued -> all optimized", func(l *lab, r *round) error { return l.stopMonitor(r, true) }},
	{sudden, "blocklisted by admin", "blocklisted -> all optimized", (*lab).blocklist},
}

// Times for which daemons are stopped. The cluster marks an OSD down after six seconds.
const (
	shortStop = 4 * time.Second
	longStop  = 12 * time.Second
)

func (l *lab) ceph() *cephStore { return l.cluster.store.(*cephStore) }

// getsOn waits until every worker has completed a request that it began after the call.
func (l *lab) getsOn(limit time.Duration) error {
	began := time.Now()
	for !l.client.since(began) {
		if time.Since(began) > limit {
			return fmt.Errorf("workers of the host do not get on for %v", limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// stopMonitor stops the monitor for a time, while I/O goes on. It may kill a gateway meanwhile: the namespaces of that
// gateway must wait for the monitor, since no gateway can fence it before. An ANA group that moves meanwhile would wait
// too, so stopMonitor first waits for moves that balance the groups.
func (l *lab) stopMonitor(r *round, kill bool) error {
	if err := l.spread(); err != nil {
		return err
	}
	g, its := l.victim(r)
	if err := l.ceph().Signal("mon", syscall.SIGSTOP); err != nil {
		return err
	}
	began := time.Now()
	var err error
	if kill {
		g.kill()
		time.Sleep(longStop)
		for id, owner := range l.cluster.owners() {
			for _, was := range its {
				if id == was && owner != g {
					err = errors.Join(err, fmt.Errorf("%s serves ANA group %d, whose owner was not fenced", owner.name, id))
				}
			}
		}
	} else {
		for err == nil && time.Since(began) < *downTime {
			err = l.getsOn(workTime)
			time.Sleep(time.Second / 2)
		}
		r.took = time.Since(began)
	}
	r.began = time.Now()
	if err := errors.Join(err, l.ceph().Signal("mon", syscall.SIGCONT)); err != nil {
		return err
	}
	if !kill {
		return l.cluster.served(everything(), anyone)
	}
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	return l.cluster.start()
}

// workTime is the limit of a request while nothing should delay it.
const workTime = 3 * time.Second

// killMonitor kills the monitor and starts it again, while I/O goes on. As in stopMonitor no group moves meanwhile.
func (l *lab) killMonitor(r *round) error {
	if err := l.spread(); err != nil {
		return err
	}
	r.began = time.Now()
	if err := l.ceph().killDaemon("mon"); err != nil {
		return err
	}
	var err error
	for err == nil && time.Since(r.began) < shortStop {
		err = l.getsOn(workTime)
		time.Sleep(time.Second / 2)
	}
	r.took = time.Since(r.began)
	if err := errors.Join(err, l.cluster.start()); err != nil {
		return err
	}
	return l.cluster.served(everything(), anyone)
}

// anOSD returns the name of a random OSD.
func (l *lab) anOSD(r *round) string {
	r.victim = "osd." + strconv.Itoa(l.random.IntN(osds))
	return r.victim
}

// stopOSD stops an OSD for a time. It calls also shortly before or after the OSD stops.
func (l *lab) stopOSD(r *round, d time.Duration, also func(*lab) error) error {
	osd := l.anOSD(r)
	var first, then error
	before := l.random.IntN(2) == 0
	if also != nil && before {
		first = also(l)
	}
	if err := l.ceph().Signal(osd, syscall.SIGSTOP); err != nil {
		return err
	}
	began := time.Now()
	if also != nil && !before {
		then = also(l)
	}
	time.Sleep(time.Until(began.Add(d)))
	r.began = time.Now()
	if err := errors.Join(first, then, l.ceph().Signal(osd, syscall.SIGCONT)); err != nil {
		return err
	}
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	return l.cluster.start()
}

// moveSoon begins a move, and does not wait for its end.
func (l *lab) moveSoon() error {
	g, its := l.victim(&round{})
	err := l.cluster.move(its[0], l.elsewhere(g))
	time.Sleep(time.Duration(l.random.IntN(100)) * time.Millisecond)
	return err
}

// failback ends a drain, so that the gateway gets its share of ANA groups again.
func (l *lab) failback() error {
	g, its := l.victim(&round{})
	if err := l.drainGateway(g); err != nil {
		return err
	}
	if l.random.IntN(2) == 0 {
		_ = l.cluster.served(its, another(g)) // may fail: while an OSD is stopped it may take longer
	}
	err := l.resume(g)
	time.Sleep(time.Duration(l.random.IntN(100)) * time.Millisecond)
	return err
}

// killSoon kills a gateway. stopOSD starts it again once all is served.
func (l *lab) killSoon() error {
	g, _ := l.victim(&round{})
	g.kill()
	return nil
}

func (l *lab) killOSD(r *round) error {
	if err := l.ceph().killDaemon(l.anOSD(r)); err != nil {
		return err
	}
	time.Sleep(time.Duration(l.random.IntN(int(longStop))))
	r.began = time.Now()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, everything(), anyone)
}

// blocklist makes the cluster refuse a gateway's clients, as an administrator can.
func (l *lab) blocklist(r *round) error {
	g, _ := l.victim(r)
	var addresses []string
	s, err := g.status()
	if err != nil {
		return err
	}
	for _, m := range s.Gateways {
		if m.Name == g.name {
			addresses = m.Storage
		}
	}
	if len(addresses) == 0 {
		return fmt.Errorf("%s has no clients of the cluster", g.name)
	}
	r.began = time.Now()
	for _, a := range addresses {
		if _, err := l.ceph().Run("ceph", "osd", "blocklist", "add", strings.TrimPrefix(a, "v2:")); err != nil {
			return err
		}
	}
	return r.served(l, everything(), anyone)
}

// logs returns the end of the daemons' logs.
func (s *cephStore) logs() (all string) {
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*.log")) // the pattern is valid
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			all += fmt.Sprintf("--- %s:\n%s\n", filepath.Base(f), b[max(0, len(b)-2000):])
		}
	}
	return all
}
