package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// HostDialer is a Dialer that uses package host.
type HostDialer struct {
	// Host returns the host from which to connect to an endpoint, and the options. Address and NQN are set by Dial.
	Host func(ctx context.Context, at Endpoint) (*host.Host, host.Options, error)
}

// Dial implements [Dialer].
func (d *HostDialer) Dial(ctx context.Context, at Endpoint, stay bool, notify func()) (Session, error) {
	if d.Host == nil {
		return nil, errors.New("discovery: HostDialer.Host is missing")
	}
	h, options, err := d.Host(ctx, at)
	if err != nil {
		return nil, err
	}
	options.Traddr, options.Trsvcid, options.NQN = at.Addr.Addr(), at.Addr.Port(), at.NQN
	if !stay {
		options.KeepAliveTmo = -1 // the connection ends before a keep alive would be due
		return dial(ctx, h, options)
	}
	s, err := dialToStay(ctx, h, at, options, notify)
	switch {
	case err != nil:
		return nil, err
	case options.KeepAliveTmo < 0 || s.Identify().KAS == 0:
		return sessionWithoutKeepAlive{s}, nil
	}
	return s, nil
}

// dialToStay connects, and reconnects with the controller's unique NQN if it has one.
func dialToStay(ctx context.Context, h *host.Host, at Endpoint, options host.Options, notify func()) (*hostSession, error) {
	options.Event = func(e capsule.AsyncEvent) {
		if e.LID == capsule.LogDiscovery {
			notify()
		}
	}
	s, err := dial(ctx, h, options)
	if err != nil {
		return nil, err
	}
	own := s.Name()
	if at.NQN != nvmeof.DiscoveryNQN || own == "" || own == nvmeof.DiscoveryNQN {
		return s, nil
	}
	options.NQN = own
	better, err := dial(ctx, h, options)
	if err != nil {
		return s, nil // the controller accepts only the well-known NQN
	}
	_ = s.Close() // its error does not matter
	return better, nil
}

// A hostSession is a connected controller.
type hostSession struct{ *host.Controller }

func dial(ctx context.Context, h *host.Host, options host.Options) (*hostSession, error) {
	c, err := h.ConnectDiscovery(ctx, options)
	if err != nil {
		return nil, err
	}
	s := &hostSession{c}
	// Controllers before about NVMe 1.4 do not report their type.
	if t := c.Identify().CNTRLTYPE; t != 0 && t != capsule.ControllerTypeDiscovery {
		return nil, errors.Join(fmt.Errorf("%v is not the name of a discovery controller", options.NQN), s.Close())
	}
	return s, nil
}

// Log implements [Session].
func (s *hostSession) Log(ctx context.Context) (Log, error) {
	l, err := s.Logs().Discovery(ctx)
	if err != nil {
		return Log{}, err
	}
	return Log{l.Generation, l.Entries}, nil
}

// Name implements [Session].
func (s *hostSession) Name() nvmeof.NQN {
	n, err := nvmeof.AnyNQN(capsule.Text(s.Identify().SubNQN[:]))
	if err != nil {
		return ""
	}
	return n
}

// Notices implements [Session].
func (s *hostSession) Notices() bool { return s.Identify().OAES&capsule.EventDiscoveryChange != 0 }

// A sessionWithoutKeepAlive is a session on which nothing is sent as long as nothing changes, so that the loss of
// the controller would not be noticed. Its log is therefore read periodically.
type sessionWithoutKeepAlive struct{ *hostSession }

// Notices implements [Session].
func (sessionWithoutKeepAlive) Notices() bool { return false }

// disconnectTime bounds an orderly disconnect.
const disconnectTime = 5 * time.Second

// Close implements [Session].
func (s *hostSession) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), disconnectTime)
	defer cancel()
	return s.Disconnect(ctx)
}
