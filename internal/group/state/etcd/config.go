package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Config says where the state of a group is stored.
type Config struct {
	// Endpoints are host:port, or https://host:port with TLS.
	Endpoints []string
	// Group is the group's name. All of its keys begin with "nvmeof/", the name and "/".
	Group string

	TLS      TLS
	User     string // empty: none
	Password string
	// Reread returns the present password. It is called when etcd refuses the one in use, which may have been changed
	// since. nil: the password never changes.
	Reread func(context.Context) (string, error)

	Timeout time.Duration // of each call; 0: 5 s
	Log     *zap.Logger   // nil: nothing is logged
}

// TLS has the names of PEM files. The certificate and key are read again for each connection.
type TLS struct {
	CA   string // empty: those of the system, if endpoints are https://
	Cert string // of this client; empty: none
	Key  string
}

const (
	defaultTimeout = 5 * time.Second
	maxGroup       = 64 // maximum length of a group's name in bytes, to limit the length of keys
)

var (
	errNoEndpoints = errors.New("etcd: no endpoint: give the host:port of each member of the cluster")
	errHalfAPair   = errors.New("etcd: a client certificate needs its private key, and a private key needs its certificate")
	errHalfAUser   = errors.New("etcd: a user needs a password, and a password needs a user")
)

// check checks the configuration and fills in defaults.
func (c *Config) check() error {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	switch {
	case len(c.Endpoints) == 0:
		return errNoEndpoints
	case c.Group == "" || len(c.Group) > maxGroup || strings.ContainsAny(c.Group, "/\x00"):
		return fmt.Errorf("etcd: group name %q: want 1 to %d bytes without a slash", c.Group, maxGroup)
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errHalfAPair
	case (c.User == "") != (c.Password == ""):
		return errHalfAUser
	}
	return c.checkEndpoints()
}

// checkEndpoints adds the scheme to each endpoint. All must have the same scheme.
func (c *Config) checkEndpoints() error {
	want := "http"
	if c.TLS != (TLS{}) || strings.HasPrefix(c.Endpoints[0], "https://") {
		want = "https"
	}
	all := make([]string, len(c.Endpoints))
	for i, e := range c.Endpoints {
		scheme, address, found := strings.Cut(e, "://")
		if !found {
			scheme, address = want, e
		}
		switch {
		case scheme != want && want == "https":
			return fmt.Errorf("etcd: endpoint %s has no TLS, but other endpoints or the configuration have it: give https:// for all", e)
		case scheme != want:
			return fmt.Errorf("etcd: endpoint %s: want host:port or https://host:port, in the same form for all endpoints", e)
		case address == "" || strings.Contains(address, "/"):
			return fmt.Errorf("etcd: endpoint %s has no host:port", e)
		}
		all[i] = scheme + "://" + address
	}
	c.Endpoints = all
	return nil
}

// tlsConfig returns nil without TLS.
func (c *Config) tlsConfig() (*tls.Config, error) {
	if !strings.HasPrefix(c.Endpoints[0], "https://") {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.CA != "" {
		pem, err := os.ReadFile(c.TLS.CA)
		if err != nil {
			return nil, fmt.Errorf("etcd: CA: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd: CA: %s has no certificate in PEM", c.TLS.CA)
		}
	}
	if c.TLS.Cert == "" {
		return t, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd: client certificate: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return t, nil
}
