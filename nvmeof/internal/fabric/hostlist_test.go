package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// inParts is a transfer of data in several parts of memory, 1000 bytes apart.
func inParts(op capsule.IOOpcode, m *Memory, at uint32, lengths ...int) *Request {
	q := transfer(op, m, 0, lengths[0], at)
	off := lengths[0] + 1000
	for _, n := range lengths[1:] {
		q.More = append(q.More, Part{m, off, n})
		off += n + 1000
	}
	return q
}

// joined returns the data of a request in one piece.
func joined(q *Request) (b []byte) {
	b = append(b, q.Buf()...)
	for _, p := range q.More {
		b = append(b, p.Memory.Bytes()[p.Offset:][:p.Length]...)
	}
	return b
}

// TestParts writes and reads data in several parts, with more such commands than there are windows, beside other
// commands.
func TestParts(t *testing.T) {
	for _, windows := range []bool{false, true} {
		for _, budget := range []int{0, 20000} {
			t.Run(fmt.Sprintf("windows %v, budget %d", windows, budget), func(t *testing.T) {
				r := newRig(t, budget)
				s := r.newStore(1 << 20)
				h := r.queues(s, TargetConfig{Depth: 8, InCapsule: 1024, MaxDescriptors: 4}, HostConfig{Depth: 8, InCapsule: 1024, Windows: windows, Descriptors: 4})
				m := r.hostMemory(1<<20, windows)
				fill(m.Bytes(), 5)
				for round := range 20 {
					var rs []*Request
					lengths := [][]int{{512, 4096}, {1, 2, 3, 4}, {8192, 100, 5000}, {700}, {300, 300}, {4096, 4096, 4096, 4096}}
					for i, l := range lengths {
						rs = append(rs, inParts(capsule.IOWrite, m, uint32(i)<<16, l...))
						rs = append(rs, transfer(capsule.IOWrite, m, 100, 2000, uint32(i)<<16+40000))
					}
					r.run(h, rs...)
					for i := range lengths {
						want := joined(rs[2*i])
						if err := rs[2*i].Err; err != nil || !bytes.Equal(s.mem[i<<16:][:len(want)], want) {
							t.Fatalf("round %d: write of %v left something else, or %v", round, lengths[i], err)
						}
					}
					for i, l := range lengths {
						q := inParts(capsule.IORead, m, uint32(i)<<16, l...)
						clear(m.Bytes())
						r.run(h, q)
						if got := joined(q); q.Err != nil || !bytes.Equal(got, s.mem[i<<16:][:len(got)]) {
							t.Fatalf("round %d: read of %v brought something else, or %v", round, l, q.Err)
						}
					}
					fill(m.Bytes(), round)
				}
				r.settle()
				if n := len(h.spares.free); n != len(h.spares.all) || windows != (n > 0) || h.windows != 0 {
					t.Errorf("%d of %d windows are free, %d may be open", n, len(h.spares.all), h.windows)
				}
				if u := r.target.shard.Budget().Used() + r.host.shard.Budget().Used(); u != 0 {
					t.Errorf("%d bytes of the receive budgets are not given back", u)
				}
			})
		}
	}
}

// TestPartsDie is row 99 for data in several parts: after the request each of its keys is invalid, and before that each
// gives access only to its own part.
func TestPartsDie(t *testing.T) {
	for part := range 3 {
		for _, early := range []bool{false, true} {
			r := newRig(t, 0)
			s := r.newStore(64 << 10)
			s.hold = early
			h := r.queues(s, TargetConfig{InCapsule: 64, MaxDescriptors: 4}, HostConfig{Windows: true, InCapsule: 64, Descriptors: 4})
			m := r.hostMemory(64<<10, true)
			var keys []remote
			s.onDone = func(c *Command) { keys = append(keys[:0], c.data.remotes...) }
			q := inParts(capsule.IORead, m, 0, 4096, 4096, 4096)
			if early {
				if err := h.Submit(q); err != nil {
					t.Fatal(err)
				}
				r.until("the command arrives", func() bool { return len(s.held) == 1 })
				keys = append(keys, s.held[0].data.remotes...)
			} else {
				r.run(h, q)
				r.settle()
			}
			if len(keys) != 3 {
				t.Fatalf("%d descriptors", len(keys))
			}
			to := keys[part]
			if early {
				to.addr += 4096 - 4 // half of it is within
			}
			err := s.queue.qp.PostSend([]rdmatransport.SendWR{{
				ID: s.queue.slot.ID(makeTag(tagWrite, 0)), Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled,
				SGL:        []rdmatransport.SGE{{Buf: s.mem[:8], LKey: s.region.LKey()}},
				RemoteAddr: to.addr, RKey: to.key,
			}})
			if err != nil {
				t.Fatal(err)
			}
			r.until("the queue fails", func() bool { return s.failed != nil })
			var transfer *TransferError
			if !errors.As(s.failed, &transfer) || transfer.Status != rdmatransport.StatusRemoteAccess {
				t.Errorf("part %d, early %v: %v, want %v", part, early, s.failed, rdmatransport.StatusRemoteAccess)
			}
			for _, c := range s.held {
				c.Respond(0, 0)
			}
		}
	}
}
