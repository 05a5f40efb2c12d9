package volumes

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A Config lists the targets of a driver.
type Config struct{ Targets []TargetConfig }

// A TargetConfig describes a target and how it stores volumes.
type TargetConfig struct {
	Name      string
	Control   string   // unix:PATH, or https://HOST:PORT of its console
	TokenFile string   // for a console
	CAFile    string   // for its certificate; default: those of the system
	Subsystem string   // whose namespaces are the volumes
	Directory string   // for files, on the target's machine
	Thick     bool     // files are allocated in advance
	Pool      string   // for images of Ceph, POOL or POOL/NAMESPACE
	CephConf  string   // on the target's machine; default: where Ceph's programs look
	CephID    string   // default: admin
	Addresses []string // where hosts connect; default: the listeners of the target, and of the gateways of its group
}

// A target is a target with a client of its API.
type target struct {
	TargetConfig
	nqn    nvmeof.NQN
	client *control.Client
}

// A Set is the targets of a driver.
type Set struct{ targets []*target }

// Read reads the configuration file of a driver.
func Read(file string) (*Set, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	s, err := New(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// New returns the targets of a configuration, without connecting to them.
func New(c Config) (*Set, error) {
	s := &Set{}
	for i, t := range c.Targets {
		if s.named(t.Name) != nil {
			return nil, fmt.Errorf("targets[%d]: the name %s is used twice", i, t.Name)
		}
		x, err := newTarget(t)
		if err != nil {
			return nil, fmt.Errorf("targets[%d]: %w", i, err)
		}
		s.targets = append(s.targets, x)
	}
	if len(s.targets) == 0 {
		return nil, errors.New("targets is empty: want at least one target")
	}
	return s, nil
}

// targetName limits the length of names, since they are part of the identifiers of volumes, which have at most 128
// bytes.
var targetName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?$`)

func newTarget(c TargetConfig) (*target, error) {
	nqn, err := nvmeof.ParseNQN(c.Subsystem)
	switch {
	case !targetName.MatchString(c.Name):
		return nil, fmt.Errorf("name %q: want at most 62 of the characters a-z, 0-9, . and -", c.Name)
	case err != nil:
		return nil, fmt.Errorf("subsystem: %w", err)
	}
	if c.Directory != "" {
		if err := new(config.Path).UnmarshalText([]byte(c.Directory)); err != nil {
			return nil, fmt.Errorf("directory: %w", err)
		}
	}
	for _, a := range c.Addresses {
		if _, err := nvmeof.ParseListen(a); err != nil {
			return nil, fmt.Errorf("addresses: %w", err)
		}
	}
	t := &target{TargetConfig: c, nqn: nqn}
	if t.client, err = newClient(c); err != nil {
		return nil, err
	}
	return t, nil
}

// newClient returns a client of a target's control socket or console. The file of the token is read for each call, so
// that a new token is used at once.
func newClient(c TargetConfig) (*control.Client, error) {
	if path, isUnix := strings.CutPrefix(c.Control, "unix:"); isUnix {
		return control.NewClient(strings.TrimPrefix(path, "//")), nil
	}
	var pool *x509.CertPool
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca-file: %s has no certificate", c.CAFile)
		}
	}
	if c.TokenFile == "" {
		return nil, errors.New("token-file is missing: a console address needs a file with a token of role operate")
	}
	token := func() (string, error) {
		text, err := os.ReadFile(c.TokenFile)
		return strings.TrimSpace(string(text)), err
	}
	client, err := control.NewRemoteClient(c.Control, token, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})
	if err != nil {
		return nil, fmt.Errorf("control: %w, or unix:PATH", err)
	}
	return client, nil
}

// named returns the target with a name, or nil.
func (s *Set) named(name string) *target {
	for _, t := range s.targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Close closes all connections.
func (s *Set) Close() {
	for _, t := range s.targets {
		t.client.Close()
	}
}
