package gateways

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFull: the pool of the images becomes full while one gateway serves all, and has all I/O. It is not fenced for that,
// although the pool answers the other gateways, and says why hosts wait.
func TestFull(t *testing.T) {
	if !*real {
		t.Skip("without -ceph")
	}
	dir := t.TempDir()
	s := &mixedStore{needEtcd(t, dir).(*etcdStore), needCeph(t, dir).(*cephStore)}
	l := &lab{random: rand.New(rand.NewPCG(*seed, 0)), cluster: &cluster{program: build(t, dir), store: s}}
	for i := range 3 {
		l.cluster.add(t, dir, i+1)
	}
	if err := l.cluster.start(); err != nil {
		t.Fatal(err)
	}
	l.begin(t, dir)
	l.round(t, 0, kind{planned, "pool full", "has room -> all optimized", s.full})
	l.finish(t)
}

// incarnations returns the incarnations of the gateways, and the texts of the alarms that the first of them has.
func (l *lab) incarnations() (all []string, alarms string, err error) {
	s, err := l.cluster.gateways[0].status()
	for _, g := range s.Gateways {
		all = append(all, g.Name+" "+g.Incarnation)
	}
	for _, a := range s.Alarms {
		alarms += a.Text + "\n"
	}
	slices.Sort(all)
	return all, alarms, err
}

// quota sets the number of objects that the pool may have, 0 for any, and waits until that has an effect.
func (s *mixedStore) quota(n string, full bool) error {
	if _, err := s.ceph.Run("ceph", "osd", "pool", "set-quota", "rbd", "max_objects", n); err != nil {
		return err
	}
	for end := time.Now().Add(returnTime); time.Now().Before(end); time.Sleep(time.Second / 2) {
		if out, err := s.ceph.Run("ceph", "osd", "pool", "ls", "detail"); err != nil || strings.Contains(out, "full_quota") == full {
			return err
		}
	}
	return errors.New("the quota has no effect")
}

func (s *mixedStore) full(l *lab, r *round) error {
	others := l.cluster.gateways[1:]
	for _, g := range others {
		if err := l.drainGateway(g); err != nil {
			return err
		}
	}
	err := l.cluster.within(context.Background(), returnTime, func(context.Context) error {
		return l.cluster.served(everything(), func(g *gateway) bool { return g == l.cluster.gateways[0] })
	})
	before, _, known := l.incarnations()
	if err := errors.Join(err, known, s.quota("1", true)); err != nil {
		return err
	}
	for _, g := range others { // not before, since groups would move for balance
		err = errors.Join(err, l.resume(g))
	}
	time.Sleep(takenTime) // its images are silent, its groups would have to go, and be given up
	after, alarms, known := l.incarnations()
	if !slices.Equal(before, after) {
		err = errors.Join(err, fmt.Errorf("a gateway was fenced since the pool was full: %q before, %q after", before, after))
	}
	if !strings.Contains(alarms, "pool rbd executes no writes") {
		err = errors.Join(err, fmt.Errorf("the alarms do not name the pool: %s", alarms))
	}
	r.began = time.Now()
	err = errors.Join(err, known, s.quota("0", false))
	if err == nil {
		err = l.settle(r.began)
	}
	r.took = time.Since(r.began)
	return err
}
