package statusreport

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// TestInterrupted checks that an interrupt is reported as such, and not with Go's error text.
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
