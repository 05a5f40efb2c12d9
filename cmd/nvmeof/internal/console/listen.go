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

// Connections at a time, and those of one address; see connlimit.
const (
	maxConnections = 256
	maxOfAddress   = 64
)

// A Socket is an address that is taken, with what serves there. Nobody is served yet.
type Socket struct {
	listener    net.Listener
	tokens      *token.Keeper
	certificate *certificate // nil: none
	unusable    error        // why tokens or certificate could not be used
}

// Listen takes the address, and finds out whether tokens and certificate can be used. It is nil where
// the document has no console. Through take it listens, or goes on with a listener that there is already.
// With anyway, files that cannot be used are no reason not to: see [Socket.Unusable].
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

// socket is one whose address is not taken.
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

// Check finds what is wrong with the console's files, without its address, which the target that runs may have: unusable as
// [Socket.Unusable] is, and outdated where the certificate can be used, and clients refuse it.
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

// Unusable is why the file of the tokens, or those of the certificate, could not be used; nil: they could. Until they can
// nobody is let in.
func (s *Socket) Unusable() error { return s.unusable }

// URL is where browsers find it.
func (s *Socket) URL() string {
	if s.certificate != nil {
		return fmt.Sprintf("https://%v/", s.listener.Addr())
	}
	return fmt.Sprintf("http://%v/", s.listener.Addr())
}

// Close gives the address back.
func (s *Socket) Close() error { return s.listener.Close() }
