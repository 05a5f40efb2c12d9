package verbs

import (
	"fmt"
	"net/netip"
)

// A NoDeviceError means that an address belongs to no RDMA device.
type NoDeviceError struct {
	Addr netip.Addr
	Err  error // of librdmacm; nil if librdmacm bound the address to no device
}

func (e *NoDeviceError) Error() string {
	s := fmt.Sprintf("verbs: no RDMA device has the address %v", e.Addr)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": choose an address of an RDMA interface (rdma link shows them; rdma link add rxe0 type rxe netdev NAME" +
		" makes one of any network interface), or use the transport softroce"
}

func (e *NoDeviceError) Unwrap() error { return e.Err }
