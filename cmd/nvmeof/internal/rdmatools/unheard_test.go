package rdmatools

import (
	"errors"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// An unheardQP is a queue pair whose peer acknowledges nothing.
type unheardQP struct {
	rdmatransport.QueuePair
	reason error
}

func (q unheardQP) Err() error { return q.reason }

// TestUnheard checks that on a network that drops large packets the user is told once what to check.
func TestUnheard(t *testing.T) {
	lost := rdmatransport.Completion{Status: rdmatransport.StatusRetryExceeded}
	c := &conn{qp: unheardQP{reason: errors.New(lost.Status.String())}}
	if text := c.failure(lost).Error(); strings.Count(text, lost.Status.String()) != 1 || !strings.Contains(text, "MTU") {
		t.Error(text)
	}
	c.qp = unheardQP{reason: errors.New("device is gone")}
	if text := c.failure(lost).Error(); !strings.Contains(text, "device is gone") {
		t.Error(text)
	}
	other := rdmatransport.Completion{Status: rdmatransport.StatusRemoteAccess}
	if text := c.failure(other).Error(); !strings.HasPrefix(text, other.Status.String()) || strings.Contains(text, "MTU") {
		t.Error(text)
	}
}
