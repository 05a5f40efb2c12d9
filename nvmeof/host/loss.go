package host

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// LossReason returns the kind of a [Controller.Err] as one word, for metrics: keepalive and timeout (no response in
// time), unreachable (no acknowledgement), disconnected, protocol, transport, device, status, closed (by this host), or
// other.
func LossReason(err error) string {
	var refused *keepAliveRefusal
	var transfer *fabric.TransferError
	switch {
	case errors.Is(err, ErrKeepAlive):
		return "keepalive"
	case errors.Is(err, fabric.ErrTimeout):
		return "timeout"
	case errors.As(err, &refused):
		return "status"
	case errors.Is(err, fabric.ErrProtocol), errors.Is(err, fabric.ErrShortCapsule):
		return "protocol"
	case errors.Is(err, rdmatransport.ErrUnreachable):
		return "unreachable"
	case errors.As(err, &transfer):
		if transfer.Status == rdmatransport.StatusRetryExceeded || transfer.Status == rdmatransport.StatusRNRRetryExceeded {
			return "unreachable"
		}
		return "transport"
	case errors.Is(err, rdmatransport.ErrDeviceLost):
		return "device"
	case errors.Is(err, rdmatransport.ErrDisconnected):
		return "disconnected"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "other"
}
