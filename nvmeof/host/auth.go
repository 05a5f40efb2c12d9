package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// receiveLength is AL (allocation length) of Authentication Receive: longer than any message of a controller.
const receiveLength = 4096

// Errors for options that do not match what the controller requires.
var (
	ErrNoSecret = errors.New("the target requires authentication: give the key that it has for this host (--dhchap-secret)")
	ErrNoProof  = errors.New("the target does not require authentication, so it cannot authenticate itself, which --dhchap-ctrl-secret requires")
	ErrHungUp   = errors.New("the target ended the connection during authentication; is --dhchap-secret the key that it has for this host?")
)

// An AuthError reports that authentication failed. It wraps an [*auth.Error], which has the reason.
type AuthError struct {
	Mutual bool // the controller had to authenticate itself too
	Err    error
}

func (e *AuthError) Unwrap() error { return e.Err }

// ByController reports whether the controller was the side that refused.
func (e *AuthError) ByController() bool {
	var reason *auth.Error
	return errors.As(e.Err, &reason) && reason.Peer
}

func (e *AuthError) Error() string {
	if e.ByController() {
		return fmt.Sprintf("the target refuses this host: %v%s", e.Err, e.hint())
	}
	return fmt.Sprintf("this host refuses the target: %v%s", e.Err, e.hint())
}

// hint suggests what to check if a key is wrong.
func (e *AuthError) hint() string {
	var reason *auth.Error
	if !errors.As(e.Err, &reason) || reason.Reason != auth.ReasonFailed {
		return ""
	}
	switch {
	case reason.Peer && e.Mutual:
		return "; is --dhchap-secret the key that it has for this host, and does it have a key for --dhchap-ctrl-secret?"
	case reason.Peer:
		return "; is --dhchap-secret the key that it has for this host?"
	}
	return "; is --dhchap-ctrl-secret its key, and is this the right target?"
}

// authenticateAtConnect authenticates a queue, if its Connect response requires it.
func (c *Controller) authenticateAtConnect(ctx context.Context, q *association.Queue, r capsule.ConnectResponse) error {
	o := &c.options
	switch {
	case r.ATR && o.DHCHAPSecret.IsZero():
		return ErrNoSecret
	case r.ATR:
		return c.authenticate(ctx, q, o.DHCHAPSecret, o.DHCHAPCtrlSecret)
	case !o.DHCHAPCtrlSecret.IsZero() && !o.authOptional:
		return ErrNoProof
	}
	return nil
}

// authenticate runs one DH-HMAC-CHAP transaction on the queue. The exponentiations run in the caller's goroutine.
func (c *Controller) authenticate(ctx context.Context, q *association.Queue, secret, ctrlSecret auth.Key) error {
	x := auth.NewHost(auth.HostConfig{
		HostNQN: c.options.HostNQN, SubsystemNQN: c.options.NQN, HostKey: secret, ControllerKey: ctrlSecret,
		Transaction: auth.TransactionID(c.transactions.Add(1)), Sequence: c.host.nextSequence(), Random: rand.Reader,
	})
	for !x.Ended() {
		if err := exchange(ctx, q, x); err != nil {
			if x.Err() != nil { // the target does not wait for our AUTH_Failure2
				break
			}
			return hungUp(x, err)
		}
	}
	if x.Err() != nil {
		return &AuthError{x.Mutual(), x.Err()}
	}
	return nil
}

// hungUp explains a connection that ends after the host has sent its response to the challenge: Linux targets
// disconnect without waiting until the host has read their AUTH_Failure1.
func hungUp(x *auth.Host, err error) error {
	if x.State() != auth.StateSuccess1 || !errors.Is(err, rdmatransport.ErrDisconnected) {
		return err
	}
	return ErrHungUp
}

// exchange sends the pending message, or receives the controller's next one.
func exchange(ctx context.Context, q *association.Queue, x *auth.Host) error {
	t, data := capsule.FabricsAuthReceive, make([]byte, receiveLength)
	due := x.Pending()
	if due != nil {
		t, data = capsule.FabricsAuthSend, bytes.Clone(due)
		x.Sent()
	}
	cmd := capsule.FabricsCommand(t)
	capsule.Auth{SPSP0: 1, SPSP1: 1, SECP: capsule.SecurityProtocol, Length: uint32(len(data))}.Put(&cmd)
	if _, err := execute(ctx, nil, q, cmd, data); err != nil {
		return err
	}
	if due == nil {
		x.Receive(data)
	}
	return nil
}

// nextSequence returns the sequence number of the next challenge. 0 is reserved: it means no challenge.
func (h *Host) nextSequence() auth.Sequence {
	for {
		if n := h.sequence.Add(1); n != 0 {
			return auth.Sequence(n)
		}
	}
}

// Authenticate authenticates every queue again, for example with keys that have changed at the target since the
// connection was made. If ctrlSecret is zero, the controller need not authenticate itself. Requests continue meanwhile.
// If either side refuses, the controller is lost.
func (c *Controller) Authenticate(ctx context.Context, secret, ctrlSecret auth.Key) error {
	if secret.IsZero() {
		return errors.New("host: Authenticate without a key")
	}
	c.authenticating.Lock()
	defer c.authenticating.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	for _, q := range c.queues.Queues() {
		if err := c.authenticate(ctx, q, secret, ctrlSecret); err != nil {
			err = fmt.Errorf("authenticating queue %d: %w", q.ID, err)
			var refused *AuthError
			if errors.As(err, &refused) {
				c.queues.Lose(err)
			}
			return err
		}
	}
	return nil
}
