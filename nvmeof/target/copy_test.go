package target

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func copyCommand(nsid capsule.NSID, p capsule.Copy, ranges ...capsule.CopyRange) *hostCommand {
	b := make([]byte, len(ranges)*capsule.CopyRangeSize)
	for i, r := range ranges {
		r.Encode(b[i*capsule.CopyRangeSize:])
	}
	if p.Ranges == 0 {
		p.Ranges = len(ranges)
	}
	return ioCommand(capsule.IOCopy, nsid, p, b)
}

func TestCopy(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(16 << 20)
	f.export(s)
	_, io := f.both()
	for _, nsid := range []capsule.NSID{1, 2} {
		data := pattern(1<<20, byte(nsid))
		io.wantOK(ioCommand(capsule.IOWrite, nsid, capsule.ReadWrite{SLBA: 3, Blocks: 2048}, data))
		s.ops()
		c := copyCommand(nsid, capsule.Copy{SDLBA: 8001, FUA: true},
			capsule.CopyRange{SLBA: 3, Blocks: 1500}, capsule.CopyRange{SLBA: 2050, Blocks: 1}, capsule.CopyRange{SLBA: 103, Blocks: 7})
		if nsid == 2 { // in the capsule, as hosts send so little
			c.inCapsule, c.memory = c.memory, nil
		}
		io.wantOK(c)
		want := append(bytes.Clone(data[:1500*512]), data[2047*512:2048*512]...)
		want = append(want, data[100*512:107*512]...)
		got := make([]byte, len(want))
		io.wantOK(ioCommand(capsule.IORead, nsid, capsule.ReadWrite{SLBA: 8001, Blocks: 1508}, got))
		if !bytes.Equal(got, want) {
			t.Errorf("namespace %d: the copy differs", nsid)
		}
		for _, r := range s.ops() {
			if (r.Op == backend.OpWrite) != r.FUA {
				t.Errorf("%v of %d bytes with FUA %v", r.Op, r.Length, r.FUA)
			}
		}
	}
	f.wantNothingHeld(io)
	f.wantScratchFree(io)
}

// TestCopyByTheStore: a store that can copy does; otherwise the blocks are read and written.
func TestCopyByTheStore(t *testing.T) {
	for _, noCopy := range []bool{false, true} {
		f := newFixture(t)
		s := newFakeStore(16 << 20)
		s.info.Copy, s.noCopy = true, noCopy
		f.export(s)
		_, io := f.both()
		data := pattern(1<<20, 5)
		io.wantOK(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 2048}, data))
		s.ops()
		io.wantOK(copyCommand(2, capsule.Copy{SDLBA: 8001, FUA: true}, capsule.CopyRange{SLBA: 1, Blocks: 1500}, capsule.CopyRange{Blocks: 1}))
		ops := s.ops()
		if first := ops[0]; first.Op != backend.OpCopy || !first.FUA || first.From != 512 || first.Offset != 8001*512 || first.Length != 1500*512 {
			t.Errorf("first operation %+v", first)
		}
		if !noCopy && len(ops) != 2 {
			t.Errorf("%d operations for two ranges", len(ops))
		}
		got := make([]byte, 1501*512)
		io.wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{SLBA: 8001, Blocks: 1501}, got))
		if !bytes.Equal(got, append(bytes.Clone(data[512:1501*512]), data[:512]...)) {
			t.Errorf("store without copy %v: the copy differs", noCopy)
		}
		f.wantScratchFree(io)
	}
}

// TestBadCopy: a command that fails changes nothing.
func TestBadCopy(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(128 << 20)
	f.export(s)
	_, io := f.both()
	one := capsule.CopyRange{Blocks: 8}
	last := capsule.LBA(128<<20/512 - 1)
	many := func(n int, blocks uint32) (out []capsule.CopyRange) {
		for range n {
			out = append(out, capsule.CopyRange{Blocks: blocks})
		}
		return out
	}
	outside := capsule.StatusLBAOutOfRange | dnr
	for name, c := range map[string]struct {
		cmd  *hostCommand
		want capsule.Status
	}{
		"format 1":               {copyCommand(2, capsule.Copy{Format: 1}, one), invalidField},
		"protection of reads":    {copyCommand(2, capsule.Copy{PRINFOR: 1}, one), invalidField},
		"protection of writes":   {copyCommand(2, capsule.Copy{PRINFOW: 8}, one), invalidField},
		"directive":              {copyCommand(2, capsule.Copy{DTYPE: 1}, one), invalidField},
		"fewer ranges than said": {copyCommand(2, capsule.Copy{Ranges: 2}, one), capsule.StatusSGLDataLength | dnr},
		"129 ranges":             {copyCommand(2, capsule.Copy{}, many(129, 1)...), sizeLimit},
		"range above MSSRL":      {copyCommand(2, capsule.Copy{}, capsule.CopyRange{Blocks: maxCopyRange/512 + 1}), sizeLimit},
		"more than MCL":          {copyCommand(2, capsule.Copy{}, many(17, maxCopyRange/512)...), sizeLimit},
		"source across the end":  {copyCommand(2, capsule.Copy{}, one, capsule.CopyRange{SLBA: last, Blocks: 2}), outside},
		"source wraps":           {copyCommand(2, capsule.Copy{}, capsule.CopyRange{SLBA: math.MaxUint64, Blocks: 2}), outside},
		"destination past end":   {copyCommand(2, capsule.Copy{SDLBA: last - 14}, one, one), outside},
		"destination wraps":      {copyCommand(2, capsule.Copy{SDLBA: math.MaxUint64 - 3}, one), outside},
		"no such namespace":      {copyCommand(3, capsule.Copy{}, one), capsule.StatusInvalidNamespace | dnr},
	} {
		if r := io.do(c.cmd); r.status != c.want {
			t.Errorf("%s: %v, want %v", name, r.status, c.want)
		}
	}
	if ops := s.ops(); len(ops) != 0 {
		t.Errorf("a bad command touched %+v", ops)
	}
	s.set(false, errors.New("input/output error"))
	if r := io.do(copyCommand(2, capsule.Copy{SDLBA: 100}, one)); r.status != capsule.StatusUnrecoveredReadError {
		t.Errorf("a source that cannot be read: %v", r.status)
	}
	s.set(false, nil)
	id, err := capsule.DecodeIdentifyNamespace(identifyInto(func() *hostQueue { h, _ := f.connectAdmin(0); return h }(), capsule.CNSNamespace, 2))
	if err != nil || int(id.MSSRL) != maxCopyRange/512 || int(id.MCL) != maxCopy/512 || id.MSRC != 127 {
		t.Errorf("limits %d, %d, %d, %v", id.MSSRL, id.MCL, id.MSRC, err)
	}
}
