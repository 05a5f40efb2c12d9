package auth

import (
	"crypto/subtle"
	"errors"
	"io"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A State is the state of an exchange. Most are named after the next message.
type State uint8

const (
	StateNegotiate State = iota // AUTH_Negotiate is the next message
	StateChallenge              // Challenge is the next message
	StateReply                  // Reply is the next message
	StateSuccess1               // Success1 is the next message
	StateSuccess2               // Success2 is the next message
	StateDone                   // authenticated; no more messages
	StateFailure                // AUTH_Failure1 or AUTH_Failure2 must be sent to the peer
	StateFailed                 // not authenticated; no more messages
)

var stateNames = [...]string{"negotiate", "challenge", "reply", "success1", "success2", "done", "failure", "failed"}

func (s State) String() string { return stateNames[s] }

// An exchange is the state that both roles have.
type exchange struct {
	hostNQN, subsystemNQN nvmeof.NQN
	hostKey, ctrlKey      Key
	random                io.Reader

	state       State
	transaction TransactionID
	hash        Hash
	group       Group
	c1, c2      []byte // challenges; c2 is nil if the controller need not authenticate itself
	s1, s2      Sequence
	shared      []byte
	due         []byte // message that must be sent to the peer
	then        State  // state after it has been sent
	err         error
}

// State returns the state of the exchange.
func (x *exchange) State() State { return x.state }

// Err returns why the exchange failed, or nil if it has not. It is an [*Error], unless the source of random bytes
// failed.
func (x *exchange) Err() error { return x.err }

// Ended reports whether there will be no more messages.
func (x *exchange) Ended() bool { return x.state == StateDone || x.state == StateFailed }

// Algorithms returns the hash and the group, once they have been chosen.
func (x *exchange) Algorithms() (Hash, Group) { return x.hash, x.group }

// Mutual reports whether the controller had to authenticate itself too.
func (x *exchange) Mutual() bool { return x.c2 != nil }

// Pending returns the message that must be sent to the peer, or nil if there is none.
func (x *exchange) Pending() []byte { return x.due }

// Sent must be called when the pending message has been sent.
func (x *exchange) Sent() {
	if x.due != nil {
		x.due, x.state = nil, x.then
	}
}

// send makes a message pending, and sets the state before and after it is sent.
func (x *exchange) send(now State, message []byte, then State) {
	x.state, x.due, x.then = now, message, then
}

// fail ends the exchange for a reason found on this side, with a last message.
func (x *exchange) fail(m MessageID, err error) {
	reason := ReasonFailed
	var e *Error
	if errors.As(err, &e) {
		reason = e.Reason
	}
	x.err = err
	x.send(StateFailure, EncodeFailure(m, x.transaction, reason), StateFailed)
}

// failed ends the exchange because the peer has reported a failure.
func (x *exchange) failed(err error) { x.err, x.due, x.state = err, nil, StateFailed }

// response returns the response of the host if host is set, or else of the controller.
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

// draw returns n random bytes.
func (x *exchange) draw(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(x.random, b)
	return b, err
}

// orAll returns wanted, or all if that is empty.
func orAll[T any](wanted []T, all func() []T) []T {
	if len(wanted) == 0 {
		return all()
	}
	return wanted
}
