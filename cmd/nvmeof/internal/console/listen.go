package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/internal/connlimit"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/recent"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Connections at a time, and those of one address; see connlimit.
const (
	maxConnections = 256
	maxOfAddress   = 64
)

const (
	maxPEM   = 1 << 20
	readTime = 5 * time.Second
)

// A Socket is an address that is taken, with what serves there. Nobody is served yet.
type Socket struct {
	listener    net.Listener
	tokens      *token.Keeper
	certificate *certificate // nil: none
}

// Listen takes the address, and finds out whether tokens and certificate can be used. It is nil where
// the document has no console. Through take it listens, or goes on with a listener that there is already.
// Where a process goes on with its own target, files that nobody can use any more are no reason to end:
// until they can be used again no token is taken.
func Listen(c config.Console, goesOn bool, take func(begin func() (net.Listener, error)) (net.Listener, error)) (*Socket, error) {
	if !c.Listen.IsValid() {
		return nil, nil
	}
	s := &Socket{tokens: &token.Keeper{Path: string(c.Tokens)}}
	if _, err := s.tokens.List(); err != nil && !goesOn {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.TLS != (config.ConsoleTLS{}) {
		s.certificate = &certificate{files: c.TLS}
		if _, err := s.certificate.get(); err != nil && !goesOn {
			return nil, fmt.Errorf("console: %w", err)
		}
	} else if !c.Listen.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("console: %v needs a certificate", c.Listen)
	}
	l, err := take(func() (net.Listener, error) { return listen(c.Listen.AddrPort.String()) })
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	s.listener = connlimit.New(l, maxConnections, maxOfAddress)
	return s, nil
}

func listen(at string) (net.Listener, error) {
	l, err := net.Listen("tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%w: another program has it; choose another port", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: it is no address of this machine", err)
	}
	return l, err
}

// URL is where browsers find it.
func (s *Socket) URL() string {
	if s.certificate != nil {
		return fmt.Sprintf("https://%v/", s.listener.Addr())
	}
	return fmt.Sprintf("http://%v/", s.listener.Addr())
}

// Close gives the address back.
func (s *Socket) Close() error { return s.listener.Close() }

// A certificate is what its files have now: one that was renewed counts within a second.
type certificate struct {
	files config.ConsoleTLS
	last  recent.Reading[*tls.Certificate]
}

func (c *certificate) get() (*tls.Certificate, error) { return c.last.Get(c.read) }

func (c *certificate) read() (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	chain, err := namedfile.Read(ctx, string(c.files.Certificate), maxPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := namedfile.Read(ctx, string(c.files.Key), maxPEM)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", c.files.Certificate, c.files.Key, err)
	}
	return &pair, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get() }}
}

// covers reports whether the certificate is one for a name.
func (c *certificate) covers(name string) bool {
	pair, err := c.get()
	return err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(name) == nil
}
