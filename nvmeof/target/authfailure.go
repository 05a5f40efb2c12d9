package target

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// An authFailure describes an exchange that failed, for the log.
type authFailure struct {
	err     error
	host    nvmeof.NQN
	ctrlKey bool // there was a key to authenticate the controller
	mutual  bool // the host requested mutual authentication
}

// by returns the side that failed the exchange.
func (f authFailure) by() string {
	var e *auth.Error
	if errors.As(f.err, &e) && e.Peer {
		return "host"
	}
	return "target"
}

// remedy returns what an operator can do about it.
func (f authFailure) remedy() string {
	var e *auth.Error
	if !errors.As(f.err, &e) {
		return "the system's random number generator failed: see the kernel's log"
	}
	allow := "nvmeof target --allow-host " + word(f.host)
	switch {
	case e.Peer && f.mutual:
		return "the host expects a different controller key: nvme connect --dhchap-ctrl-secret KEY, with the key of " +
			allow + ",dhchap-ctrl-key-file=PATH"
	case e.Peer:
		return "see the host's log"
	case e.Reason == auth.ReasonFailed && !f.ctrlKey && f.mutual:
		return allow + ",dhchap-ctrl-key-file=PATH, or nvme connect without --dhchap-ctrl-secret"
	case e.Reason == auth.ReasonFailed:
		return "nvme connect --dhchap-secret KEY, with the key of " + allow + ",dhchap-key-file=PATH"
	case e.Reason == auth.ReasonHash:
		return allow + ",dhchap-hash=NAME, with a hash that the host offers"
	case e.Reason == auth.ReasonGroup:
		return allow + ",dhchap-dhgroup=NAME, with a group that the host offers"
	}
	return "the host does not follow the protocol: update it"
}
