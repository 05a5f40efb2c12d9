package operation

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Refusal reports a command of an operation that the controller completed with an error.
type Refusal struct {
	Command    capsule.Command
	Completion capsule.Completion
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%v: %v", capsule.IOOpcode(r.Command.Opcode), r.Completion.Status)
}

// An Unsent reports an operation of which nothing was sent before its queue was lost.
type Unsent struct{ Err error }

func (u *Unsent) Error() string { return u.Err.Error() }

func (u *Unsent) Unwrap() error { return u.Err }
