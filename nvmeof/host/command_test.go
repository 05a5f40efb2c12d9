package host

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestExecute sends commands of the caller on an I/O queue.
func TestExecute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		ctx := context.Background()
		command := func(op capsule.IOOpcode, slba capsule.LBA, blocks uint32) capsule.Command {
			cmd := capsule.Command{Opcode: capsule.Opcode(op)}
			capsule.ReadWrite{SLBA: slba, Blocks: blocks}.Put(&cmd)
			return cmd
		}
		data := make([]byte, 64<<10)
		pattern(data, 3)
		for _, size := range []int{512, len(data)} { // within the capsule, and not
			if _, err := n.Execute(ctx, command(capsule.IOWrite, 5, uint32(size/512)), data[:size]); err != nil {
				t.Fatalf("Write: %v", err)
			}
			got := make([]byte, size)
			if _, err := n.Execute(ctx, command(capsule.IORead, 5, uint32(size/512)), got); err != nil || !bytes.Equal(got, data[:size]) {
				t.Errorf("Read of %d bytes: other data, or %v", size, err)
			}
			if _, err := n.Execute(ctx, command(capsule.IOCompare, 5, uint32(size/512)), got); err != nil {
				t.Errorf("Compare: %v", err)
			}
		}
		done, err := n.Execute(ctx, command(capsule.IORead, 2048, 1), make([]byte, 512))
		var status *StatusError
		if !errors.As(err, &status) || done.Status.Code() != capsule.StatusLBAOutOfRange || status.Command != "Read" {
			t.Errorf("Read beyond the end: %v, %v", done.Status, err)
		}
		flush := capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush), NSID: capsule.NSIDBroadcast}
		if _, err := n.Execute(ctx, flush, nil); err != nil {
			t.Errorf("Flush of all namespaces: %v", err)
		}
		if _, err := n.Execute(ctx, flush, make([]byte, 2<<20)); err == nil {
			t.Error("2 MiB of data were taken")
		}
		flush.Flags = capsule.CommandFlags(capsule.FuseFirst)
		if _, err := n.Execute(ctx, flush, nil); err == nil {
			t.Error("half of a fused operation was taken")
		}
		if err := c.Disconnect(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Execute(ctx, capsule.Command{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Execute after Disconnect: %v, want %v", err, ErrClosed)
		}
	})
}
