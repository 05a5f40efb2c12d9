package administer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/internal/capture"
)

// TestFollowedIsKilled checks that a trace or a capture that is cut off does not end as if it were complete.
func TestFollowedIsKilled(t *testing.T) {
	from := followed{io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))}
	if err := printTrace(io.Discard, io.Discard, from, false); !errors.Is(err, errGone) {
		t.Errorf("trace: %v", err)
	}
	if _, err := capture.Copy(io.Discard, from, nil); !errors.Is(err, errGone) {
		t.Errorf("capture: %v", err)
	}
}

// TestNobodyTakes checks that a command whose output is not read ends at the first signal, and reports that the output
// is incomplete.
func TestNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hangs, out := io.Pipe()
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		cmd.SetOut(out)
		cmd.SetErr(io.Discard)
		block := []byte{1, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0}
		ended := make(chan error)
		go func() {
			ended <- whileTaken(ctx, func() error { return writeCapture(cmd, "-", bytes.NewReader(block)) })
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, errNotTaken) {
			t.Error(err)
		}
		hangs.Close()
	})
}
