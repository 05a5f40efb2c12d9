package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/recent"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const (
	maxPEM   = 1 << 20
	readTime = 5 * time.Second
)

// A certificate is what its files have now: one that was renewed counts within a second. While they cannot be used, as
// between the two where both are replaced, it is the last that could, and the log says why: what can be done about it
// is done through the console, say.
type certificate struct {
	files config.ConsoleTLS
	log   *zap.Logger // nil: nobody is served yet
	last  recent.Reading[*tls.Certificate]

	// Of read, of which there is one at a time.
	good *tls.Certificate // nil: there was none
	why  string           // that they cannot be used, as it was logged
}

func (c *certificate) get() (*tls.Certificate, error) { return c.last.Get(c.renew) }

// renew is what the files have, or had.
func (c *certificate) renew() (*tls.Certificate, error) {
	now, err := c.read()
	c.note(err)
	switch {
	case err == nil:
		c.good = now
	case c.good != nil:
		return c.good, nil
	}
	return now, err
}

// note logs what is wrong with the files, once.
func (c *certificate) note(err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why == c.why || c.log == nil {
		return
	}
	c.why = why
	switch {
	case err == nil:
		c.log.Info("console: its certificate can be used again", zap.String("file", string(c.files.Certificate)))
	case c.good != nil:
		c.log.Error("console: its certificate cannot be used; the previous one stays in use", zap.Error(err))
	default:
		c.log.Error("console: its certificate cannot be used: connections are refused", zap.Error(err))
	}
}

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
