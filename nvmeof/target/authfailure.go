package target

import (
	"errors"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// An authFailure is an exchange that failed, to be explained to an operator.
type authFailure struct {
	err     error
	host    string
	ctrlKey bool // there was a key to prove the controller with
	mutual  bool // the host asked for that
}

// by is who refused.
func (f authFailure) by() string {
	var e *auth.Error
	if errors.As(f.err, &e) && e.Peer {
		return "host"
	}
	return "target"
}

// remedy is what an operator can do about it.
func (f authFailure) remedy() string {
	var e *auth.Error
	if !errors.As(f.err, &e) {
		return "see what the system's source of random numbers says"
	}
	allow := "nvmeof target --allow-host " + f.host
	switch {
	case e.Peer && f.mutual:
		return "the host expects another key of this target: nvme connect --dhchap-ctrl-secret KEY, with the key of " +
			allow + ",dhchap-ctrl-key-file=PATH"
	case e.Peer:
		return "see what the host logged"
	case e.Reason == auth.ReasonFailed && !f.ctrlKey && f.mutual:
		return allow + ",dhchap-ctrl-key-file=PATH, or nvme connect without --dhchap-ctrl-secret"
	case e.Reason == auth.ReasonFailed:
		return "nvme connect --dhchap-secret KEY, with the key of " + allow + ",dhchap-key-file=PATH"
	case e.Reason == auth.ReasonHash:
		return allow + ",dhchap-hash=NAME, with a hash that the host offers"
	case e.Reason == auth.ReasonGroup:
		return allow + ",dhchap-dhgroup=NAME, with a group that the host offers"
	}
	return "the host does not follow the protocol: is it up to date?"
}
