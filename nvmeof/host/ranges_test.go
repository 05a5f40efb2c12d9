package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestCompareAndVerify uses a range longer than one command.
func TestCompareAndVerify(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 8<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		ctx := context.Background()
		buffers, err := c.NewBuffers(4 << 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{make([]byte, 3<<20), buffers.Bytes()[:3<<20], make([]byte, 4096)} {
			pattern(b, 5)
			if _, err := n.WriteDurable(ctx, b, 4096); err != nil {
				t.Fatal(err)
			}
			if err := n.Compare(ctx, b, 4096); err != nil {
				t.Errorf("comparing what was written: %v", err)
			}
			b[len(b)-1]++
			if err := n.Compare(ctx, b, 4096); !errors.Is(err, backend.ErrMiscompare) {
				t.Errorf("comparing something else: %v, want %v", err, backend.ErrMiscompare)
			}
		}
		if err := n.Verify(ctx, 0, 8<<20); err != nil {
			t.Errorf("Verify: %v", err)
		}
		for what, err := range map[string]error{
			"Compare": n.Compare(ctx, make([]byte, 8192), 8<<20-4096), "Verify": n.Verify(ctx, 8<<20, 4096),
			"WriteDurable": second(n.WriteDurable(ctx, make([]byte, 4096), 8<<20)),
			"Copy":         n.Copy(ctx, 8<<20-4096, Range{0, 8192}), "Discard": n.Discard(ctx, Range{0, 4096}, Range{8 << 20, 4096}),
			"CompareAndWrite": n.CompareAndWrite(ctx, 8<<20, make([]byte, 4096), make([]byte, 4096)),
		} {
			if !errors.Is(err, ErrOutOfRange) {
				t.Errorf("%s beyond the end: %v", what, err)
			}
		}
		for what, err := range map[string]error{
			"Compare": n.Compare(ctx, make([]byte, 100), 0), "Verify": n.Verify(ctx, 1, 4096),
			"Copy": n.Copy(ctx, 1, Range{0, 8192}), "Discard": n.Discard(ctx, Range{0, 1}),
		} {
			if !errors.Is(err, ErrUnaligned) {
				t.Errorf("%s of parts of blocks: %v", what, err)
			}
		}
	})
}

func TestCopyAndDiscard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const block = 512
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 32<<20, block)}})
		n := r.namespace(r.connect(r.options()))
		ctx := context.Background()
		all := make([]byte, 32<<20)
		pattern(all, 9)
		if _, err := n.WriteAt(all, 0); err != nil {
			t.Fatal(err)
		}
		ranges := []Range{{0, 10 << 20}, {12 << 20, 0}} // more than MSSRL
		for i := range int64(300) {                     // more than MSRC
			ranges = append(ranges, Range{i * 3 * block, block * (i%5 + 1)})
		}
		const to = 16 << 20
		if err := n.Copy(ctx, to, ranges...); err != nil {
			t.Fatalf("Copy: %v", err)
		}
		at := int64(to)
		for _, x := range ranges {
			copy(all[at:], all[x.Off:x.Off+x.Length])
			at += x.Length
		}
		check := func(what string) {
			t.Helper()
			got := make([]byte, len(all))
			if _, err := n.ReadAt(got, 0); err != nil || !bytes.Equal(got, all) {
				t.Errorf("after %s: other data, or %v", what, err)
			}
		}
		check("Copy")
		var holes []Range
		for i := range int64(700) {
			holes = append(holes, Range{i * 40 * block, 8 * block})
		}
		if err := n.Discard(ctx, holes...); err != nil {
			t.Fatalf("Discard: %v", err)
		}
		for _, h := range holes {
			clear(all[h.Off : h.Off+h.Length])
		}
		check("Discard")
		if err := errors.Join(n.Discard(ctx), n.Copy(ctx, 0)); err != nil {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// TestRangeLimits: commands observe the limits of the controller.
func TestRangeLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.identify = func(i *capsule.IdentifyController) {
			i.ONCS, i.OCFS = capsule.ONCSCopy|capsule.ONCSDatasetManagement, copyFormat0
		}
		l.ns = func(n *capsule.IdentifyNamespace) { n.MSSRL, n.MCL, n.MSRC = 3, 7, 3 }
		l.nvm = capsule.IdentifyNVMController{DMRL: 2, DMRSL: 5, DMSL: 8}
		var sent []string
		fail := false
		l.io = func(q *liarQueue, c *fabric.Command) {
			b := q.data(c)
			sent = append(sent, rangesOf(&c.SQE, b))
			if fail && len(sent) == 2 {
				c.Respond(capsule.StatusUnrecoveredReadError, 1)
				return
			}
			c.Respond(0, 0)
		}
		o := l.options()
		o.NrIOQueues = 1
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Namespace(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ranges := []Range{{0, 4 * 512}, {10 * 512, 512}, {20 * 512, 9 * 512}}
		if err := n.Copy(context.Background(), 50*512, ranges...); err != nil {
			t.Error(err)
		}
		if err := n.Discard(context.Background(), ranges...); err != nil {
			t.Error(err)
		}
		if err := n.Deallocate(7*512, 12*512); err != nil {
			t.Error(err)
		}
		want := []string{
			"Copy to 50: 0+3 3+1 10+1 20+2", "Copy to 57: 22+3 25+3 28+1",
			"Dataset Management: 0+4 10+1", "Dataset Management: 20+5 25+3", "Dataset Management: 28+1",
			"Dataset Management: 7+5", "Dataset Management: 12+5", "Dataset Management: 17+2",
		}
		if !slices.Equal(sent, want) {
			t.Errorf("sent\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
		}
		fail, sent = true, nil
		err = n.Copy(context.Background(), 50*512, ranges...)
		if err == nil || !strings.Contains(err.Error(), "copying 1536 bytes from 12800: Copy: unrecovered read error") {
			t.Errorf("a copy that fails: %v", err)
		}
	})
}

// rangesOf returns the ranges of a command as text.
func rangesOf(cmd *capsule.Command, b []byte) string {
	text := capsule.IOOpcode(cmd.Opcode).String()
	if capsule.IOOpcode(cmd.Opcode) == capsule.IOCopy {
		f := cmd.Copy()
		text += fmt.Sprintf(" to %d:", f.SDLBA)
		for i := range f.Ranges {
			x, _ := capsule.DecodeCopyRange(b[i*capsule.CopyRangeSize:])
			text += fmt.Sprintf(" %d+%d", x.SLBA, x.Blocks)
		}
		return text
	}
	text += ":"
	for i := range cmd.DatasetManagement().Ranges {
		x, _ := capsule.DecodeDSMRange(b[i*capsule.DSMRangeSize:])
		text += fmt.Sprintf(" %d+%d", x.SLBA, x.Blocks)
	}
	return text
}

// TestUnsupported: commands that a controller does not support are not sent.
func TestUnsupported(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.io = func(_ *liarQueue, c *fabric.Command) {
			t.Errorf("command %#x was sent", c.SQE.Opcode)
			c.Respond(capsule.StatusInvalidOpcode, 0)
		}
		c, err := l.host.Connect(context.Background(), l.options())
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Namespace(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, b := context.Background(), make([]byte, 512)
		for what, err := range map[string]error{
			"Compare": n.Compare(ctx, b, 0), "Verify": n.Verify(ctx, 0, 512), "Copy": n.Copy(ctx, 0, Range{512, 512}),
			"Dataset Management": n.Discard(ctx, Range{0, 512}), "Write Zeroes": n.WriteZeroes(0, 512, true),
			"Compare and Write": n.CompareAndWrite(ctx, 0, b, b), "reservations": second(n.Reservations().Report(ctx)),
		} {
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want %v", what, err, ErrUnsupported)
			}
		}
	})
}
