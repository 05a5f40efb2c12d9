package rc

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

var (
	seeds = flag.Int("rc.seeds", 100, "random programs to run")
	seed  = flag.Uint64("rc.seed", 0, "run this one program only")
)

// TestPrograms runs seeded random programs of all operations in both directions over a faulty network. It requires
// that all data is correct, that every work request completes exactly once and in order, and that no resources are
// left. `go test ./rdmatransport/softroce/internal/rc -run Programs -rc.seeds 10000` runs the long form.
func TestPrograms(t *testing.T) {
	if *seed != 0 {
		runProgram(t, *seed)
		return
	}
	for s := uint64(1); s <= uint64(*seeds); s++ {
		runProgram(t, s)
		if t.Failed() {
			t.Fatalf("seed %d (repeat with -rc.seed %d)", s, s)
		}
	}
}

// script is what one side posts, with the expected results.
type script struct {
	from, to *side
	wrs      []rdmatransport.SendWR
	posted   int
	finished int
	checks   []func() error // run at the end
	results  []func() error // run when the request completes

	messages [][]byte // SENDs the peer must receive, in order; nil for WRITE with immediate
	received int
	recvs    int // receives the peer has posted
	buffers  [][]byte
	counter  uint64 // value of the peer's atomic word after all posted requests
}

func runProgram(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	mtus := []int{256, 512, 1024, 2048, 4096}
	c := pairConfig{mtu: mtus[rng.IntN(len(mtus))], own: rng.IntN(2) == 0, reads: 1 + rng.IntN(6), rnrRetry: 7,
		psn: wire.PSN(rng.IntN(1 << 24)), sends: 8 + rng.IntN(24), recvs: 4 + rng.IntN(24)}
	if rng.IntN(2) == 0 {
		c.budget = 20000 + rng.IntN(200000)
	}
	if rng.IntN(8) == 0 {
		c.psn = wire.PSN(0xfffff0)
	}
	p := newPair(t, c)
	p.rng = rng
	p.loss, p.dup = rng.Float64()*0.1, rng.Float64()*0.1
	p.jitter = time.Duration(rng.IntN(3)) * 400 * time.Microsecond // up to 64 places at this spacing
	p.delay = time.Duration(5+rng.IntN(500)) * time.Microsecond

	scripts := []*script{{from: p.a, to: p.b}, {from: p.b, to: p.a}}
	for _, s := range scripts {
		for range 5 + rng.IntN(40) {
			s.add(rng, c)
		}
	}
	fail := func(format string, args ...any) {
		t.Errorf("seed %d: %s", seed, fmt.Sprintf(format, args...))
	}
	done := func() bool {
		return t.Failed() || scripts[0].finished == len(scripts[0].wrs) && scripts[1].finished == len(scripts[1].wrs) &&
			scripts[0].received == len(scripts[0].messages) && scripts[1].received == len(scripts[1].messages)
	}
	limit := 120 * time.Second
	for idle := 0; !done(); {
		for _, s := range scripts {
			s.post(rng, fail)
		}
		p.flush(p.a)
		p.flush(p.b)
		if p.step(limit) {
			idle = 0
		} else if idle++; idle > 50 { // nothing is outstanding and nothing more was posted
			fail("stuck at %v: %d/%d and %d/%d done", p.now, scripts[0].finished, len(scripts[0].wrs), scripts[1].finished, len(scripts[1].wrs))
			return
		}
		for i, s := range []*side{p.a, p.b} {
			for _, e := range s.poll() {
				scripts[i].take(e, scripts[1-i], fail)
			}
		}
	}
	for _, s := range scripts {
		for _, check := range s.checks {
			if err := check(); err != nil {
				fail("%v", err)
			}
		}
	}
	p.run(2 * time.Second)
	p.checkQuiet(fail)
}

// checkQuiet requires that all borrowed resources have been returned.
func (p *pair) checkQuiet(fail func(string, ...any)) {
	for _, s := range []*side{p.a, p.b} {
		if n := s.store.Lent(); n != 0 {
			fail("%d packets still kept", n)
		}
		if s.budget != nil && s.budget.Used() != 0 {
			fail("%d bytes of the budget still taken", s.budget.Used())
		}
		if s.Deadline() != Never {
			fail("a timer still runs")
		}
		if s.cq.Len() != 0 {
			fail("a completion too many")
		}
	}
}

func (s *script) size(rng *rand.Rand, mtu int) int {
	switch rng.IntN(5) {
	case 0:
		return rng.IntN(8)
	case 1:
		return mtu * (1 + rng.IntN(4))
	case 2:
		return mtu*rng.IntN(12) + rng.IntN(mtu)
	}
	return rng.IntN(2 * mtu)
}

// split makes a scatter list of one or two elements of b.
func split(rng *rand.Rand, b []byte, key uint32) []rdmatransport.SGE {
	if len(b) < 2 || rng.IntN(2) == 0 {
		return []rdmatransport.SGE{{Buf: b, LKey: rdmatransport.LKey(key)}}
	}
	at := rng.IntN(len(b))
	return []rdmatransport.SGE{{Buf: b[:at], LKey: rdmatransport.LKey(key)}, {Buf: b[at:], LKey: rdmatransport.LKey(key)}}
}

// add appends one random request and the check of its effect.
func (s *script) add(rng *rand.Rand, c pairConfig) {
	id := uint64(len(s.wrs))
	wr := rdmatransport.SendWR{ID: id, Flags: rdmatransport.FlagSignaled}
	if rng.IntN(5) == 0 {
		wr.Flags |= rdmatransport.FlagFence
	}
	if rng.IntN(2) == 0 {
		wr.Flags |= rdmatransport.FlagRelaxed
	}
	data := pattern(s.size(rng, c.mtu), int(id))
	result := func() error { return nil }
	switch rng.IntN(7) {
	case 0, 1:
		s.addSend(rng, &wr, data)
	case 2, 3:
		s.addWrite(rng, &wr, data)
	case 4, 5:
		remote := s.to.keys.register(data, rdmatransport.AccessRemoteRead)
		local := s.from.keys.register(make([]byte, len(data)), rdmatransport.AccessLocalWrite)
		wr.Op, wr.RemoteAddr, wr.RKey, wr.SGL = rdmatransport.OpRead, remote.iova, rdmatransport.RKey(remote.key), split(rng, local.mem, local.key)
		result = func() error {
			if !bytes.Equal(local.mem, data) {
				return fmt.Errorf("READ %d brought wrong data", id)
			}
			return nil
		}
	case 6:
		result = s.addAtomic(rng, &wr)
	}
	s.wrs = append(s.wrs, wr)
	s.results = append(s.results, result)
}

func (s *script) addSend(rng *rand.Rand, wr *rdmatransport.SendWR, data []byte) {
	local := s.from.keys.register(data, 0)
	wr.Op, wr.SGL = rdmatransport.OpSend, split(rng, data, local.key)
	switch rng.IntN(4) {
	case 0:
		wr.Flags |= rdmatransport.FlagImmediate
		wr.Imm = uint32(wr.ID)
	case 1:
		wr.Flags |= rdmatransport.FlagInvalidate
		wr.InvalidateKey = rdmatransport.RKey(s.to.keys.register(make([]byte, 1), 0).key)
	case 2:
		if len(data) <= MaxInline {
			wr.Flags |= rdmatransport.FlagInline
		}
	}
	s.messages = append(s.messages, data)
}

func (s *script) addWrite(rng *rand.Rand, wr *rdmatransport.SendWR, data []byte) {
	local := s.from.keys.register(data, 0)
	remote := s.to.keys.register(make([]byte, len(data)), rdmatransport.AccessRemoteWrite)
	wr.Op, wr.RemoteAddr, wr.RKey, wr.SGL = rdmatransport.OpWrite, remote.iova, rdmatransport.RKey(remote.key), split(rng, data, local.key)
	if rng.IntN(3) == 0 {
		wr.Flags |= rdmatransport.FlagImmediate
		wr.Imm = uint32(wr.ID)
		s.messages = append(s.messages, nil)
	}
	id := wr.ID
	s.checks = append(s.checks, func() error {
		if !bytes.Equal(remote.mem, data) {
			return fmt.Errorf("WRITE %d left wrong data", id)
		}
		return nil
	})
}

// addAtomic adds an operation on one word of the peer, whose value the script tracks.
func (s *script) addAtomic(rng *rand.Rand, wr *rdmatransport.SendWR) func() error {
	var word *region
	for _, r := range s.to.keys.regions {
		if r.access == rdmatransport.AccessRemoteAtomic {
			word = r
		}
	}
	if word == nil {
		word = s.to.keys.register(make([]byte, 8), rdmatransport.AccessRemoteAtomic)
	}
	local := s.from.keys.register(make([]byte, 8), rdmatransport.AccessLocalWrite)
	wr.RemoteAddr, wr.RKey, wr.SGL = word.iova, rdmatransport.RKey(word.key), split(rng, local.mem, local.key)
	want := s.counter
	if rng.IntN(2) == 0 {
		wr.Op, wr.Operand = rdmatransport.OpFetchAdd, rng.Uint64()
		s.counter += wr.Operand
	} else {
		wr.Op, wr.Compare, wr.Operand = rdmatransport.OpCompareSwap, s.counter, rng.Uint64()
		if rng.IntN(2) == 0 {
			wr.Compare++
		} else {
			s.counter = wr.Operand
		}
	}
	id := wr.ID
	return func() error {
		if got := binary.NativeEndian.Uint64(local.mem); got != want {
			return fmt.Errorf("atomic %d returned %#x, want %#x", id, got, want)
		}
		return nil
	}
}

// post gives each side requests that fit, in random portions, so that receives are sometimes late.
func (s *script) post(rng *rand.Rand, fail func(string, ...any)) {
	for s.posted < len(s.wrs) && rng.IntN(3) > 0 {
		if err := s.from.PostSend(s.wrs[s.posted : s.posted+1]); err != nil {
			break
		}
		s.posted++
	}
	for s.recvs < len(s.messages) && rng.IntN(4) > 0 {
		buf := s.to.keys.register(make([]byte, len(s.messages[s.recvs])+rng.IntN(3)), rdmatransport.AccessLocalWrite)
		wr := rdmatransport.RecvWR{ID: uint64(s.recvs), SGL: split(rng, buf.mem, buf.key)}
		if err := s.to.PostRecv([]rdmatransport.RecvWR{wr}); err != nil {
			break
		}
		s.buffers = append(s.buffers, buf.mem)
		s.recvs++
	}
}

// take checks one completion of this side; peer is the script of the other direction.
func (s *script) take(e rdmatransport.Completion, peer *script, fail func(string, ...any)) {
	switch {
	case e.Status != rdmatransport.StatusSuccess:
		fail("completion of %d (op %d): %v", e.ID, e.Op, e.Status)
	case e.Op == rdmatransport.OpRecv || e.Op == rdmatransport.OpRecvWriteImm:
		peer.takeReceive(e, fail)
	case e.ID != uint64(s.finished):
		fail("request %d completed, want %d", e.ID, s.finished)
	default:
		s.finished++
		if err := s.results[e.ID](); err != nil {
			fail("%v", err)
		}
	}
}

func (s *script) takeReceive(e rdmatransport.Completion, fail func(string, ...any)) {
	if e.ID != uint64(s.received) {
		fail("receive %d completed, want %d", e.ID, s.received)
		return
	}
	want := s.messages[s.received]
	if e.Op == rdmatransport.OpRecv && !bytes.Equal(s.buffers[s.received][:e.Bytes], want) {
		fail("receive %d has wrong data", e.ID)
	}
	if (want == nil) != (e.Op == rdmatransport.OpRecvWriteImm) && len(want) > 0 {
		fail("receive %d of the wrong kind", e.ID)
	}
	s.received++
}
