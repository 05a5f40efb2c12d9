package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func TestLossReason(t *testing.T) {
	for want, err := range map[string]error{
		"keepalive": ErrKeepAlive, "timeout": fabric.ErrTimeout, "status": &keepAliveRefusal{}, "protocol": fabric.ErrProtocol,
		"unreachable": &fabric.TransferError{Status: rdmatransport.StatusRetryExceeded}, "transport": &fabric.TransferError{Status: rdmatransport.StatusRemoteAccess},
		"device": rdmatransport.ErrDeviceLost, "disconnected": rdmatransport.ErrDisconnected, "closed": ErrClosed, "other": errors.New("another"),
	} {
		if got := LossReason(fmt.Errorf("queue 1: %w", err)); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
	if got := LossReason(rdmatransport.ErrUnreachable); got != "unreachable" {
		t.Errorf("no answer is %s", got)
	}
}
