package auth

import (
	"crypto/subtle"
	"errors"
	"io"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A State is how far an exchange is. Names are those of the messages.
type State uint8

const (
	StateNegotiate State = iota // AUTH_Negotiate is the next message
	StateChallenge              // Challenge is
	StateReply                  // Reply is
	StateSuccess1               // Success1 is
	StateSuccess2               // Success2 is
	StateDone                   // authenticated: no more messages
	StateFailure                // AUTH_Failure1 or AUTH_Failure2 is due to the peer
	StateFailed                 // not authenticated: no more messages
)

var stateNames = [...]string{"negotiate", "challenge", "reply", "success1", "success2", "done", "failure", "failed"}

func (s State) String() string { return stateNames[s] }

// An exchange is what both roles have.
type exchange struct {
	hostNQN, subsystemNQN nvmeof.NQN
	hostKey, ctrlKey      Key
	random                io.Reader

	state       State
	transaction TransactionID
	hash        Hash
	group       Group
	c1, c2      []byte // challenges; c2 is nil where the controller need not prove itself
	s1, s2      Sequence
	shared      []byte
	due         []byte // message for the peer
	then        State  // once it is sent
	err         error
}

// State is how far the exchange is.
func (x *exchange) State() State { return x.state }

// Err is why the exchange failed, nil as long as it has not. It is an [*Error] but
// for failures of the source of random bytes.
func (x *exchange) Err() error { return x.err }

// Ended reports whether there will be no more messages.
func (x *exchange) Ended() bool { return x.state == StateDone || x.state == StateFailed }

// Algorithms are the hash and the group in use, once they are chosen.
func (x *exchange) Algorithms() (Hash, Group) { return x.hash, x.group }

// Mutual reports whether the controller had to prove itself too.
func (x *exchange) Mutual() bool { return x.c2 != nil }

// Pending is the message that is due to the peer, nil if none is.
func (x *exchange) Pending() []byte { return x.due }

// Sent goes on when the pending message was given to the peer.
func (x *exchange) Sent() {
	if x.due != nil {
		x.due, x.state = nil, x.then
	}
}

// send makes a message due, in the state named after it.
func (x *exchange) send(now State, message []byte, then State) {
	x.state, x.due, x.then = now, message, then
}

// fail ends the exchange for a reason of ours, with a last message.
func (x *exchange) fail(m MessageID, err error) {
	reason := ReasonFailed
	var e *Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	x.err = err
	x.send(StateFailure, EncodeFailure(m, x.transaction, reason), StateFailed)
}

// failed ends the exchange since the peer said so.
func (x *exchange) failed(err error) { x.err, x.due, x.state = err, nil, StateFailed }

// response of the host if host is set, else of the controller.
func (x *exchange) response(host bool) []byte {
	p := proof{hash: x.hash, shared: x.shared, transaction: x.transaction}
	if host {
		p.key, p.challenge, p.sequence, p.role = x.hostKey, x.c1, x.s1, roleHost
		p.from, p.to = string(x.hostNQN), string(x.subsystemNQN)
	} else {
		p.key, p.challenge, p.sequence, p.role = x.ctrlKey, x.c2, x.s2, roleController
		p.from, p.to = string(x.subsystemNQN), string(x.hostNQN)
	}
	return p.response()
}

func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// draw returns random bytes.
func (x *exchange) draw(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(x.random, b)
	return b, err
}

// orAll is what was asked for, or all there is.
func orAll[T any](wanted []T, all func() []T) []T {
	if len(wanted) == 0 {
		return all()
	}
	return wanted
}
