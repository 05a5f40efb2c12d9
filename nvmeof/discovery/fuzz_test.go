package discovery

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// fuzzWords are the records in logs of FuzzEngine, besides raw bytes.
var fuzzWords = []string{"self", "disk@1", "disk@2", "other@2", ">1", ">2", ">3", ">2=name", ">4=name", "!>5", "tcp:>6", "disk@", ">999", "a@1"}

// A stage is an engine with what it has reported and ordered so far.
type stage struct {
	t        *testing.T
	e        *engine
	now      time.Time
	ids      []nodeID
	busy     map[nodeID]bool // with an order that is still being executed
	reported map[key]bool    // records
}

// check checks orders and events: records are added and removed in turn, no node has two orders, and the number of
// controllers is within the limit.
func (s *stage) check() {
	orders, events := s.e.take()
	for _, o := range orders {
		switch o.kind {
		case orderConnect, orderRead:
			if s.busy[o.id] {
				s.t.Fatalf("%s while another order is carried out", brief(o))
			}
			s.busy[o.id] = true
			s.ids = append(s.ids, o.id)
			if a := o.at.Addr.Addr(); o.kind == orderConnect && (!a.IsValid() || a.IsUnspecified() || a.IsMulticast()) {
				s.t.Fatalf("an order to connect to %v", o.at)
			}
		case orderDrop:
			delete(s.busy, o.id)
		}
	}
	for _, e := range events {
		k := e.Record.key()
		switch e.Kind {
		case Added, Removed:
			if s.reported[k] == (e.Kind == Added) {
				s.t.Fatalf("%v twice: %v", e.Kind, &e.Record)
			}
			s.reported[k] = e.Kind == Added
		}
		if text := e.String(); strings.ContainsFunc(text, unicode.IsControl) {
			s.t.Fatalf("%q is not fit to be printed", text)
		}
	}
	if len(s.e.nodes) > s.e.config.Controllers+2 { // the limit does not include the seeds
		s.t.Fatalf("%d controllers are followed", len(s.e.nodes))
	}
	for _, n := range s.e.nodes {
		if n.depth > s.e.config.Depth {
			s.t.Fatalf("a controller is %d referrals away", n.depth)
		}
	}
}

// do executes a step of three bytes: what, for which controller, and part of its log.
func (s *stage) do(step []byte, raw []byte) {
	s.now = s.now.Add(time.Duration(step[2]) * 500 * time.Millisecond)
	id := nodeID(step[1])
	if len(s.ids) > 0 {
		id = s.ids[int(step[1])%len(s.ids)]
	}
	switch step[0] % 8 {
	case 0, 1, 2:
		if !s.busy[id] {
			break
		}
		delete(s.busy, id)
		r := reading{notices: step[2]&1 != 0}
		if step[2]&2 != 0 {
			r.name = "nqn.2014-08.org.example:own"
		}
		for i := range step[2] % 8 {
			r.log.Entries = append(r.log.Entries, entry(fuzzWords[int(step[2]+i*step[1])%len(fuzzWords)]))
		}
		for ; len(raw) >= capsule.DiscoveryEntrySize && step[0]&8 != 0; raw = raw[capsule.DiscoveryEntrySize:] {
			if e, err := capsule.DecodeDiscoveryEntry(raw); err == nil {
				r.log.Entries = append(r.log.Entries, e)
			}
		}
		s.e.logged(s.now, id, r)
	case 3:
		err := error(errors.New("no"))
		if step[2]&1 != 0 {
			err = rdmatransport.ErrUnreachable
		}
		if delete(s.busy, id); s.e.node(id) != nil && s.e.node(id).state != stateWaiting {
			s.e.failed(s.now, id, err)
		}
	case 4:
		s.e.changed(id)
	case 5:
		s.e.start(s.now, at(1+int(step[2]%2)))
	case 6:
		s.e.stop(s.now, at(1+int(step[2]%2)))
	case 7:
		s.e.advance(s.now)
	}
	s.check()
}

// recordedLog returns a Linux target's discovery log after its header: the data of RDMA WRITEs, whose BTH is 12 bytes
// long, and with a RETH, in the first packet, 28 (IBTA 9.2, 9.3).
func recordedLog(f *testing.F) (log []byte) {
	packets, err := golden.Load("nvme-discover")
	if err != nil {
		f.Fatal(err)
	}
	for i := range packets {
		p, header := packets[i].Payload, 0
		switch p[0] {
		case 0x06, 0x0a: // RDMA WRITE First, Only
			header = 28
		case 0x07, 0x08: // Middle, Last
			header = 12
		}
		if header > 0 && len(p) == header+capsule.DiscoveryEntrySize+4 {
			log = append(log, p[header:len(p)-4]...)
		}
	}
	if len(log) == 0 {
		f.Fatal("the capture has no log")
	}
	return log
}

// FuzzEngine follows controllers with arbitrary logs.
func FuzzEngine(f *testing.F) {
	log := recordedLog(f)
	f.Add([]byte{5, 0, 0, 8, 0, 3, 7, 0, 9, 0, 1, 5, 3, 1, 1, 4, 0, 0, 0, 1, 77, 6, 0, 0}, log, true)
	f.Add([]byte{5, 0, 0, 5, 0, 1, 0, 0, 6, 0, 1, 7, 0, 2, 7, 3, 0, 1, 7, 0, 200, 8, 0, 0, 6, 0, 1}, log, false)
	f.Add([]byte{5, 0, 0, 0, 0, 4, 0, 1, 5, 0, 2, 6, 0, 3, 7, 0, 4, 7}, []byte{}, false)
	f.Fuzz(func(t *testing.T, script, raw []byte, persistent bool) {
		s := &stage{t: t, e: newEngine(Config{Persistent: persistent, Depth: 2, Controllers: 4}), now: time.Unix(0, 0).Add(time.Hour), busy: map[nodeID]bool{}, reported: map[key]bool{}}
		for ; len(script) >= 3; script = script[3:] {
			s.do(script, raw)
		}
		for n := range 2 { // nothing is left of controllers that are no longer followed
			s.e.stop(s.now, at(1+n))
			s.check()
		}
		if len(s.e.nodes) > 0 || len(s.e.records) > 0 {
			t.Fatalf("left: %d controllers, %d records", len(s.e.nodes), len(s.e.records))
		}
	})
}
