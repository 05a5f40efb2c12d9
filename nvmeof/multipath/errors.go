package multipath

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// ErrClosed reports a subsystem, namespace or queue that was closed. It is a [backend.ErrClosed] too.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string        { return "subsystem or namespace is closed" }
func (closedError) Is(target error) bool { return target == backend.ErrClosed }

// ErrManyNamespaces reports that a namespace is not opened because [Config].MaxNamespaces are open.
var ErrManyNamespaces = errors.New("too many namespaces of the subsystem are open")

// A NoPathError reports a request for which there was no path any more: each path has been given up, or its fast I/O
// fail timeout has passed, or it will never reach the namespace.
type NoPathError struct {
	NQN       nvmeof.NQN
	Namespace capsule.NSID
	Paths     []PathFailure
	Last      error // of the request itself, if it was tried; may be nil
}

// A PathFailure says why a path cannot be used.
type PathFailure struct {
	Addr  netip.AddrPort
	State State
	Since time.Time
	Err   error // may be nil: the ANA state, or another request's failure, prevents its use
}

func (e *NoPathError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no path to namespace %d of %s", e.Namespace, e.NQN)
	for i := range e.Paths {
		p := &e.Paths[i]
		fmt.Fprintf(&b, "; %v is %v", p.Addr, p.State)
		if p.Err != nil {
			fmt.Fprintf(&b, ": %v", p.Err)
		}
	}
	if e.Last != nil {
		fmt.Fprintf(&b, "; the request failed: %v", e.Last)
	}
	return b.String()
}

// Unwrap returns all reasons.
func (e *NoPathError) Unwrap() (all []error) {
	for i := range e.Paths {
		if err := e.Paths[i].Err; err != nil {
			all = append(all, err)
		}
	}
	if e.Last != nil {
		all = append(all, e.Last)
	}
	return all
}

// An UnknownError reports a command that must not be executed twice, on a path that was lost before its completion
// arrived. It may have been executed or not, and may still be executed, until Until at the latest.
type UnknownError struct {
	Addr  netip.AddrPort
	Until time.Time
	Err   error // why the path was lost
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v was lost with a command that cannot be repeated: it is unknown whether it was executed: %v", e.Addr, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// A MismatchError reports a path that leads to another subsystem or namespace than the others.
type MismatchError struct {
	Addr     netip.AddrPort
	What     string
	Replaced bool // the namespace's identifier belongs to another one now: matches [host.ErrRemoved]
}

func (e *MismatchError) Error() string { return fmt.Sprintf("path %v: %s", e.Addr, e.What) }

func (e *MismatchError) Is(target error) bool { return e.Replaced && target == host.ErrRemoved }
