package console

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// A certificate provides the current certificate in its files: a renewed one is used within a second. While the files
// cannot be used, for example between the replacement of the two, the last usable certificate stays in use and the log
// has the reason, so that the console remains available for the repair. The same applies if the new certificate is not
// valid yet and the last one is.
type certificate struct {
	files config.ConsoleTLS
	log   *zap.Logger // nil: not serving yet
	last  recent.Reading[*tls.Certificate]

	// Of read, which runs once at a time.
	good *tls.Certificate // nil: none yet
	why  string           // why the files cannot be used, as logged last
}

func (c *certificate) get() (*tls.Certificate, error) { return c.last.Get(c.renew) }

// begin sets the log for problems from now on, and logs whether clients reject the certificate that was read already.
// If none could be read, [Socket.Unusable] says why.
func (c *certificate) begin(log *zap.Logger) {
	c.log = log
	if c.good != nil {
		c.note(nil, validNow(c.good.Leaf, time.Now()))
	}
}

// renew returns the certificate in the files, or the last usable one.
func (c *certificate) renew() (*tls.Certificate, error) {
	now, err := c.read()
	switch at := time.Now(); {
	case err != nil && c.good == nil:
		c.note(err, nil)
		return nil, err
	case err != nil:
	case c.good == nil || validNow(now.Leaf, at) == nil || validNow(c.good.Leaf, at) != nil:
		c.good = now
	default:
		err = validNow(now.Leaf, at)
	}
	c.note(err, validNow(c.good.Leaf, time.Now()))
	return c.good, nil
}

// validNow returns why clients reject a certificate at a time because of its dates; nil: they do not.
func validNow(leaf *x509.Certificate, at time.Time) error {
	switch {
	case at.After(leaf.NotAfter):
		return fmt.Errorf("it has expired at %s: renew it", leaf.NotAfter.Format(time.RFC3339))
	case at.Before(leaf.NotBefore):
		return fmt.Errorf("it is not valid before %s: is the clock of this machine right?", leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// note logs, once, what is wrong with the files and with the certificate in use.
func (c *certificate) note(err, outdated error) {
	why := ""
	if all := errors.Join(err, outdated); all != nil {
		why = all.Error()
	}
	if why == c.why || c.log == nil {
		return
	}
	c.why = why
	switch {
	case err == nil && outdated == nil:
		c.log.Info("console: the certificate is usable again", zap.String("file", string(c.files.Certificate)))
	case err == nil:
		c.log.Error("console: browsers and programs refuse the certificate", zap.String("file", string(c.files.Certificate)), zap.Error(outdated))
	case c.good != nil:
		c.log.Error("console: the certificate cannot be used; the previous one stays in use", zap.Error(err), zap.NamedError("which_is_refused", outdated))
	default:
		c.log.Error("console: the certificate cannot be used; connections are refused", zap.Error(err))
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

// covers reports whether the certificate is valid for a name.
func (c *certificate) covers(name string) bool {
	pair, err := c.get()
	return err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(name) == nil
}
