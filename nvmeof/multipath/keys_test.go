package multipath

import (
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestKeysReplaced: a host whose key has been changed reconnects with the new one after its target was away.
func TestKeysReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		key := func() auth.Key {
			k, err := auth.GenerateKey(auth.HashSHA256, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		var now atomic.Pointer[auth.Key] // read by the path when it connects
		replace := func() { now.Store(new(key())) }
		replace()
		require := func() {
			t.Helper()
			l.must(l.sides[0].sub.SetHost(target.HostConfig{NQN: l.host.Identity().NQN, DHCHAPKey: *now.Load(), DHCHAPGroups: []auth.Group{auth.GroupNull}}))
		}
		require()
		c := l.config()
		c.Paths[0].Options.DHCHAPSecret = *now.Load()
		c.Paths[0].Keys = func(o *host.Options) { o.DHCHAPSecret = *now.Load() }
		s := l.connect(c)
		l.await(s.Paths()[0], StateLive)
		l.sides[0].kill()
		l.await(s.Paths()[0], StateLost)
		replace()
		l.sides[0].start()
		require()
		l.sever(l.sides[0], false)
		time.Sleep(30 * time.Second)
		if st := s.Paths()[0].Status(); st.State != StateLive {
			t.Errorf("%v: %v", st.State, st.Err)
		}
	})
}
