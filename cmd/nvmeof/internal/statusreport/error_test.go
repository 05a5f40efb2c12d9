package statusreport

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// TestInterrupted: who interrupts a command reads that, and not what it is to Go.
func TestInterrupted(t *testing.T) {
	for err, want := range map[error]string{
		context.Canceled:                    "nvmeof: interrupted\n",
		errors.New("the disk is on strike"): "nvmeof: the disk is on strike\n",
	} {
		var b bytes.Buffer
		if Print(&b, err); b.String() != want {
			t.Errorf("%v: %q", err, b.String())
		}
	}
}
