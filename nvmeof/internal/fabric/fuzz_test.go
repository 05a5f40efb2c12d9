package fabric

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// FuzzTargetCapsule: whatever a host sends, its command is answered once or its queue ends; the handler never sees data
// beyond what was received.
func FuzzTargetCapsule(f *testing.F) {
	flush := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
	f.Add(encode(flush))
	write := command(capsule.IOWrite, capsule.InCapsuleSGL(0, 5))
	f.Add(append(encode(write), "hello"...))
	read := command(capsule.IORead, capsule.KeyedSGL(1<<40, 4096, 77, true))
	f.Add(encode(read))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, 0)
		s := r.newStore(4096)
		s.hold = true
		g := r.hostileHost(s, TargetConfig{Depth: 2, InCapsule: 1024, MaxDescriptors: 4, MaxData: 4096})
		b = b[:min(len(b), 8<<10)]
		g.send(b)
		r.settle()
		for _, c := range s.held {
			if n := len(c.InCapsule()); n > max(0, len(b)-capsule.CommandSize) {
				t.Fatalf("%d bytes of data in a capsule of %d", n, len(b))
			}
			if !c.Remote() {
				c.Respond(capsule.StatusSuccess, 0)
				continue
			}
			c.Fetch(s.sges0(c))
		}
		s.held = nil
		r.settle()
		answered := len(g.slot.got)
		ended := s.queue.State() == StateClosed
		if ended == (answered == 1) {
			t.Fatalf("%d answers, queue %v", answered, s.queue.State())
		}
		if s.given != s.done {
			t.Fatalf("%d commands given, %d done", s.given, s.done)
		}
	})
}

// FuzzHostResponse: whatever a controller answers, the request is returned once, with success only if the response is
// its own.
func FuzzHostResponse(f *testing.F) {
	f.Add(make([]byte, 16), uint16(0))
	f.Add(make([]byte, 15), uint16(1))
	f.Add(make([]byte, 64), uint16(0xffff))
	f.Fuzz(func(t *testing.T, b []byte, change uint16) {
		r := newRig(t, 0)
		q := transfer(capsule.IORead, r.hostMemory(4096, true), 0, 512, 0)
		done := 0
		q.Done = func(*Request) { done++ }
		h, g, cmd := r.hostileTarget(HostConfig{Windows: true}, q)
		b = b[:min(len(b), 100)]
		if len(b) >= capsule.CompletionSize {
			c, _ := capsule.DecodeCompletion(b)
			c.CID = cmd.CID ^ capsule.CID(change)
			c.Encode(b)
		}
		g.send(b)
		r.settle()
		own := change == 0 && len(b) >= capsule.CompletionSize && len(b) <= hostReceiveStride
		if done != 1 || (q.Err == nil) != own || (h.State() == StateLive) != own {
			t.Fatalf("request came back %d times with %v, queue %v", done, q.Err, h.State())
		}
	})
}
