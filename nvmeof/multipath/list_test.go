package multipath

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestOneHasIt: a namespace that one of two targets does not have, or has no store for, is listed and opened with the
// data of the other, in whatever order the paths are. It uses both paths once both have it.
func TestOneHasIt(t *testing.T) {
	for name, withhold := range map[string]func(*side){
		"not there": func(*side) {},
		"not ready": (*side).await,
	} {
		for without := range 2 {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 2)
				l.must(l.sides[without].sub.RemoveNamespace(1))
				withhold(l.sides[without])
				s := l.connect(l.config())
				if ids, err := s.Namespaces(t.Context()); err != nil || !slices.Equal(ids, []capsule.NSID{1}) {
					t.Errorf("%s at %d: namespaces %v, %v", name, without, ids, err)
				}
				n := l.namespace(s)
				if a, b := writeBoth(t, n, 0); a != nil || b != nil {
					t.Errorf("%s at %d: %v, %v", name, without, a, b)
				}
				l.sides[without].export()
				time.Sleep(time.Second)
				for i, p := range s.Paths() {
					if err := p.Status().Namespaces[1]; err != nil {
						t.Errorf("%s at %d: path %d: %v", name, without, i, err)
					}
				}
				l.must(n.Close())
			})
		}
	}
}

// TestListed: a path that does not answer does not prevent the namespaces of other paths from being listed, and open
// namespaces that only it has are listed too.
func TestListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		second := secondStore(t)
		l := newLab(t, 2)
		l.must(l.sides[1].sub.RemoveNamespace(1))
		cfg := l.config()
		cfg.Paths[0].Options.KeepAliveTmo = time.Minute
		s := l.connect(cfg)
		l.namespace(s)
		if _, err := l.sides[1].sub.AddNamespace(target.NamespaceConfig{Store: second, NSID: 2}); err != nil {
			t.Fatal(err)
		}
		l.sever(l.sides[0], true)
		var ids []capsule.NSID
		d, err := took(func() (err error) {
			ids, err = s.Namespaces(t.Context())
			return err
		})
		if err != nil || !slices.Equal(ids, []capsule.NSID{1, 2}) {
			t.Errorf("namespaces %v, %v", ids, err)
		}
		wantBetween(t, "listing them", d, othersTime, othersTime+promptly)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if ids, err := s.Namespaces(ctx); err == nil {
			t.Errorf("for nobody: %v", ids)
		}
	})
}
