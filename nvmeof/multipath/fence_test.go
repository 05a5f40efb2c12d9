package multipath

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A queueCutter drops the packets of one target's I/O queues, but not those of its admin queue and connection manager.
type queueCutter struct {
	mu    sync.Mutex
	at    netip.Addr
	cut   bool
	admin map[[2]netip.Addr]rdmatransport.QPN // the first queue pair that packets were sent to
}

// cutIO starts or stops dropping the packets of a target's I/O queues.
func (l *lab) cutIO(s *side, cut bool) {
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	l.queues.at, l.queues.cut = s.addr.Addr(), cut
}

func (c *queueCutter) drop(from, to netip.Addr) func([]byte) bool {
	return func(packet []byte) bool {
		qpn := rdmatransport.QPN(binary.BigEndian.Uint32(packet[4:]) & 0xffffff) // of the BTH
		if qpn <= 1 {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		way := [2]netip.Addr{from, to}
		if c.admin == nil {
			c.admin = map[[2]netip.Addr]rdmatransport.QPN{}
		}
		if _, known := c.admin[way]; !known {
			c.admin[way] = qpn
		}
		return c.cut && (from == c.at || to == c.at) && qpn != c.admin[way]
	}
}

// TestIOQueueLost: if the admin queue still works, a lost write is repeated as soon as the controller has been shut
// down, and not before. If that takes too long, it is repeated when the keep alive timer has ended it, counted from
// when this host stopped keeping it alive.
func TestIOQueueLost(t *testing.T) {
	const cutAt = 100 * time.Millisecond // retries end 4 s later, and a shutdown has 5 s
	for _, tt := range []struct {
		name        string
		kato        time.Duration
		held        time.Duration // by the target's storage; 0: it never gets there
		delay       time.Duration // ReplayDelay
		least, most time.Duration
	}{
		{"not executed", 2 * time.Second, 0, 0, 5 * time.Second, 5200 * time.Millisecond},
		{"executed late", 2 * time.Second, 6 * time.Second, 0, 7 * time.Second, 7200 * time.Millisecond},
		{"executed later than the keep alive", time.Second, 8 * time.Second, 0, 9 * time.Second, 9200 * time.Millisecond},
		{"executed too late", 2 * time.Second, 30 * time.Second, 0, 15 * time.Second, 15200 * time.Millisecond},
		{"by the user's time", 2 * time.Second, 0, 20 * time.Second, 24 * time.Second, 24200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 2)
				slow := backendtest.NewFaulty(l.store)
				l.sides[0].stop()
				l.sides[0].store = slow
				l.sides[0].start()
				cfg := l.config()
				cfg.Paths[0].ReplayDelay, cfg.Paths[0].Options.NrIOQueues = tt.delay, 1
				cfg.Paths[0].Options.KeepAliveTmo = tt.kato
				s := l.connect(cfg)
				n := l.namespace(s)
				if used(t, n) != 0 {
					t.Fatal("the first path is not used")
				}
				if tt.held > 0 {
					fault := slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
					time.AfterFunc(tt.held, fault.Release)
					time.AfterFunc(cutAt, func() {
						l.cutIO(l.sides[0], true)
						l.must(n.Flush()) // gets no acknowledgement
					})
				} else {
					l.cutIO(l.sides[0], true)
				}
				b := make([]byte, 512)
				fill(b, 0, 1)
				d, err := took(func() error { _, err := n.WriteAt(b, 0); return err })
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("the write took %v", d)
				wantBetween(t, "the write", d, tt.least, tt.most)
				l.cutIO(l.sides[0], false)
				l.await(s.Paths()[0], StateLive)
			})
		})
	}
}

// TestLookingEnds: a path that is identifying a namespace when an I/O queue is lost shuts its controller down as early.
func TestLookingEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		cfg := l.config()
		cfg.Paths[0].Options.NrIOQueues = 1
		s := l.connect(cfg)
		n := l.namespace(s)
		if used(t, n) != 0 {
			t.Fatal("the first path is not used")
		}
		p := s.Paths()[0]
		l.must(p.session.looking.lock(context.Background(), p.session.ctrl)) // as if a check of a namespace hung
		p.rescan.Store(true)
		p.readANASoon()
		l.cutIO(l.sides[0], true)
		d, err := took(func() error { _, err := n.WriteAt(make([]byte, 512), 0); return err })
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, "the write", d, 5*time.Second, 5200*time.Millisecond)
		l.cutIO(l.sides[0], false)
		l.await(p, StateLive)
	})
}

// TestDeleteSettles: a write on a path that is deleted is repeated as early.
func TestDeleteSettles(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		slow := backendtest.NewFaulty(l.store)
		l.sides[0].stop()
		l.sides[0].store = slow
		l.sides[0].start()
		s := l.connect(l.config())
		n := l.namespace(s)
		fault := slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
		time.AfterFunc(3*time.Second, fault.Release)
		time.AfterFunc(time.Millisecond, s.Paths()[0].Delete)
		d, err := took(func() error { _, err := n.WriteAt(make([]byte, 512), 0); return err })
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, "the write", d, 4*time.Second, 4200*time.Millisecond)
	})
}
