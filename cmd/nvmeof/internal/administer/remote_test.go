package administer

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/nvmeof-go/nvmeof/internal/capture"
)

// TestFollowedIsKilled: a trace and a capture that break off do not end as if they were complete.
func TestFollowedIsKilled(t *testing.T) {
	from := followed{io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))}
	if err := printTrace(io.Discard, io.Discard, from, false); !errors.Is(err, errGone) {
		t.Errorf("trace: %v", err)
	}
	if _, err := capture.Copy(io.Discard, from); !errors.Is(err, errGone) {
		t.Errorf("capture: %v", err)
	}
}
