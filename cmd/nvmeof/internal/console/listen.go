package console

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/internal/connlimit"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Limits on connections, in all and per address; see connlimit.
const (
	maxConnections = 256
	maxOfAddress   = 64
)

// A Socket is an open listener with the tokens and the certificate of its server. It does not serve yet.
type Socket struct {
	listener    net.Listener
	tokens      *token.Keeper
	certificate *certificate // nil: none
	unusable    error        // why tokens or certificate could not be used
}

// Listen opens the console's listener by a call of take, and checks whether tokens and certificate can be used. take
// calls its argument to open a new listener, or returns an existing one. If the document has no console, Listen
// returns nil. With anyway, it succeeds even if files cannot be used: see [Socket.Unusable].
func Listen(c config.Console, anyway bool, take func(begin func() (net.Listener, error)) (net.Listener, error)) (*Socket, error) {
	if !c.Listen.IsValid() {
		return nil, nil
	}
	s := socket(c)
	if s.certificate == nil && !c.Listen.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("console: %v needs a certificate", c.Listen)
	}
	if s.unusable != nil && !anyway {
		return nil, s.unusable
	}
	l, err := take(func() (net.Listener, error) { return listen(c.Listen.AddrPort.String()) })
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	s.listener = connlimit.New(l, maxConnections, maxOfAddress)
	return s, nil
}

// socket returns a Socket without a listener.
func socket(c config.Console) *Socket {
	s := &Socket{tokens: &token.Keeper{Path: string(c.Tokens)}}
	if _, err := s.tokens.List(); err != nil {
		s.unusable = fmt.Errorf("console: %w", err)
	}
	if c.TLS != (config.ConsoleTLS{}) {
		s.certificate = &certificate{files: c.TLS}
		if _, err := s.certificate.get(); err != nil {
			s.unusable = errors.Join(s.unusable, fmt.Errorf("console: %w", err))
		}
	}
	return s
}

// Check checks the console's files but not its address, which a running target may use. unusable is the error of
// [Socket.Unusable]; outdated says why clients reject a certificate that can be used.
func Check(c config.Console) (unusable, outdated error) {
	if !c.Listen.IsValid() {
		return nil, nil
	}
	s := socket(c)
	if s.certificate != nil && s.certificate.good != nil {
		outdated = validNow(s.certificate.good.Leaf, time.Now())
	}
	return s.unusable, outdated
}

func listen(at string) (net.Listener, error) {
	l, err := net.Listen("tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%w: another program uses it; choose another port", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: it is not an address of this machine", err)
	}
	return l, err
}

// Unusable returns why the tokens or the certificate could not be read; nil: they could. Until they can be read, no
// client is admitted.
func (s *Socket) Unusable() error { return s.unusable }

// URL returns the URL for browsers.
func (s *Socket) URL() string {
	if s.certificate != nil {
		return fmt.Sprintf("https://%v/", s.listener.Addr())
	}
	return fmt.Sprintf("http://%v/", s.listener.Addr())
}

// Close closes the listener.
func (s *Socket) Close() error { return s.listener.Close() }
