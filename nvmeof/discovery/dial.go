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

// HostDialer dials with hosts.
type HostDialer struct {
	// Host returns the host from which to reach an endpoint, and how to connect:
	// address and name are filled in.
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
		options.KeepAliveTmo = -1 // gone before it could matter
		return dial(ctx, h, options)
	}
	s, err := dialToStay(ctx, h, at, options, notify)
	switch {
	case err != nil:
		return nil, err
	case options.KeepAliveTmo < 0 || s.Identify().KAS == 0:
		return unkeptSession{s}, nil
	}
	return s, nil
}

// dialToStay connects by the controller's own name, if it has one.
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
		return s, nil // the controller answers to the name that all have
	}
	_ = s.Close() // it is not used, however it ends
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
	// Before version 1.4 or so controllers do not say what they are.
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

// An unkeptSession is one without keep alive: nothing is sent while nothing changes, so that nobody would notice
// that the controller has gone. Its log is read now and then.
type unkeptSession struct{ *hostSession }

// Notices implements [Session].
func (unkeptSession) Notices() bool { return false }

// goodbye bounds an orderly end.
const goodbye = 5 * time.Second

// Close implements [Session].
func (s *hostSession) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	return s.Disconnect(ctx)
}
