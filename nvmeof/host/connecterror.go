package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A ConnectError reports that a connection to a controller could not be made.
type ConnectError struct {
	Addr netip.AddrPort
	Step string // what was being done
	Err  error
}

func (e *ConnectError) Error() string {
	text := explain(e.Err)
	var proof *AuthError
	switch by := e.RefusedBy(); {
	case errors.As(e.Err, &proof): // its text already says which side refused
	case by != SideNone:
		text = by.String() + ": " + text
	}
	return fmt.Sprintf("%v: %s: %s", e.Addr, e.Step, text)
}

func (e *ConnectError) Unwrap() error { return e.Err }

// A Side is the side that refused a connection.
type Side uint8

const (
	SideNone   Side = iota // neither: there was no response in time, or a fault
	SideTarget             // the target or its RDMA device
	SideHost               // this program, because of the target's properties or responses
)

func (s Side) String() string {
	return [...]string{"neither side refuses", "the target refuses this host", "this host refuses the target"}[min(s, SideHost)]
}

// RefusedBy returns the side that refused the connection. If neither did, another attempt may succeed later.
func (e *ConnectError) RefusedBy() Side {
	var (
		reject *rdmatransport.RejectError
		status *StatusError
		proof  *AuthError
		ours   *refusal
	)
	switch {
	case errors.As(e.Err, &proof) && !proof.ByController():
		return SideHost
	case errors.As(e.Err, &ours), errors.Is(e.Err, ErrNoSecret), errors.Is(e.Err, ErrNoProof):
		return SideHost
	case errors.As(e.Err, &reject), errors.As(e.Err, &status), proof != nil:
		return SideTarget
	}
	return SideNone
}

// A refusal is this host's reason to refuse a target.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// rejectHints say what to do if a controller rejected a queue's connection (NVMe RDMA transport 1.0, figure 8).
var rejectHints = map[capsule.RejectStatus]string{
	capsule.RejectInvalidLength:  "it does not understand the request: is it an NVMe target?",
	capsule.RejectInvalidRECFMT:  "it speaks another version of NVMe over RDMA",
	capsule.RejectInvalidQID:     "it has fewer I/O queues; connect with fewer (--nr-io-queues)",
	capsule.RejectInvalidHSQSIZE: "its queues are shorter; connect with shorter ones (--queue-size)",
	capsule.RejectInvalidHRQSIZE: "its queues are shorter; connect with shorter ones (--queue-size)",
	capsule.RejectNoResources:    "it has no room for another queue; connect with fewer or shorter ones (--nr-io-queues, --queue-size), or see its log",
	capsule.RejectInvalidIRD:     "it requires more outstanding RDMA READs than this host's device serves",
	capsule.RejectInvalidORD:     "it serves no RDMA READs, or fewer than this host's device requires",
	capsule.RejectInvalidCNTLID:  "the controller no longer exists; connect again",
}

// deviceHints say what is wrong, and what to do, if the target's RDMA device rejected a connection.
var deviceHints = map[rdmatransport.RejectReason]string{
	rdmatransport.RejectNoResources:      "its RDMA device has no room for another queue pair; connect with fewer queues (--nr-io-queues), or see the device's limits",
	rdmatransport.RejectTimeout:          "its RDMA device got no answer from this host; are packets lost on the way back?",
	rdmatransport.RejectInvalidServiceID: "nothing listens there; is the target running, and on that port?",
	rdmatransport.RejectInvalidTransport: "its RDMA device does not support this type of connection",
	rdmatransport.RejectStale:            "its RDMA device still holds an earlier connection of this host; try again in a few seconds",
	rdmatransport.RejectInvalidGID:       "its RDMA device does not have that address; give an address of the device itself (--traddr)",
	rdmatransport.RejectInvalidMTU:       "its RDMA device does not accept packets of this path's MTU; set the same MTU at both ends",
	rdmatransport.RejectConsumer:         "the program that listens there is not an NVMe target, or gives no reason",
}

// largePackets is a hint for a connection on which the small packets of the CM arrive, but the first data, in packets
// of the path MTU, does not. The path MTU is what the two interfaces allow; neither end knows what the switches between
// them carry.
const largePackets = "or does the network between drop packets as large as the MTU of both ends?"

// explain describes an error of the connection setup in NVMe terms.
func explain(err error) string {
	var reject *rdmatransport.RejectError
	switch s := RejectStatus(err); {
	case s != 0:
		text := fmt.Sprintf("controller rejects the connection: %v (NVMe status %d)", s, uint16(s))
		if hint, ok := rejectHints[s]; ok {
			text += ": " + hint
		}
		return text
	case errors.As(err, &reject):
		if hint, ok := deviceHints[reject.Reason]; ok {
			return hint
		}
	case errors.Is(err, rdmatransport.ErrUnreachable):
		return "no answer; is the address right, does it speak RoCEv2, and is UDP port 4791 open?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, fabric.ErrTimeout):
		return fmt.Sprintf("%v: the target accepted the connection, but does not answer on it; see its log; %s", err, largePackets)
	case errors.Is(err, rdmatransport.ErrDisconnected):
		return fmt.Sprintf("%v: the target, or its RDMA device, ended the connection; see its log; %s", err, largePackets)
	}
	return err.Error()
}
