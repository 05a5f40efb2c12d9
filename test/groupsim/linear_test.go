package groupsim

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// checkLimit is the time limit for checking one history. A history that takes longer is not judged.
const checkLimit = 5 * time.Second

// operation returns a host's command for porcupine.
func operation(host int, input any, call, end time.Duration) porcupine.Operation {
	return porcupine.Operation{ClientId: host, Input: input, Call: int64(call), Return: int64(end)}
}

// ownership is the model that the epochs in which commands are executed never decrease, in some order that agrees with
// what hosts have seen.
func ownership() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, _ any) (bool, any) { return input.(uint64) >= state.(uint64), input },
	}
}

// standing is the reservation state of a group: the registrants, and whether only those may write.
type standing struct {
	registered [blocks]bool
	held       bool
}

// writing is the value of victim that marks a write.
const writing = -2

// reservation is the model of a reservation as hosts see it.
func reservation() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return standing{} },
		Step: func(state, input, _ any) (bool, any) {
			s, d := state.(standing), input.(*deed)
			switch d.victim {
			case writing:
				return (!s.held || s.registered[d.host]) == (d.err == nil), s
			case -1:
				s.registered[d.host] = true
				return true, s
			}
			if !s.registered[d.host] { // an unknown result may be a failure
				return d.err != nil, s
			}
			if d.err == errConflict {
				return false, s
			}
			s.held, s.registered[d.victim] = true, false
			return true, s
		},
	}
}

// wrote records a write that succeeded or failed with a reservation conflict.
func (b *book) wrote(id group.ID, host int, call time.Duration, err error) {
	if len(b.w.lawyers) > 0 {
		b.writes[id] = append(b.writes[id], &deed{filing: filing{group: id, host: host, victim: writing}, call: call, end: b.w.now, err: err})
	}
}

// check looks for an order of all commands that explains the results that hosts have seen.
func (b *book) check() {
	for _, g := range b.w.groups {
		if porcupine.CheckOperationsTimeout(ownership(), b.epochs[g.ID], checkLimit) == porcupine.Illegal {
			b.w.violation("the epochs of group %d are not linearizable", g.ID)
		}
		var all []porcupine.Operation
		for _, d := range append(b.history[g.ID], b.writes[g.ID]...) {
			end := d.end
			switch {
			case d.err == errInaccessible: // not executed
				continue
			case d.err == errUnknown: // may be executed at any time
				end = math.MaxInt64
			}
			all = append(all, operation(d.host, d, d.call, end))
		}
		if len(b.w.lawyers) > 0 && porcupine.CheckOperationsTimeout(reservation(), all, checkLimit) == porcupine.Illegal {
			b.w.violation("what hosts have heard of the reservation of group %d is not linearizable", g.ID)
		}
	}
}
