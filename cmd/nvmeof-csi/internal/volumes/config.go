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

// A Config says which targets a driver has.
type Config struct{ Targets []TargetConfig }

// A TargetConfig is a target and where volumes are on it.
type TargetConfig struct {
	Name      string
	Control   string   // unix:PATH, or https://HOST:PORT of its console
	TokenFile string   // of a console
	CAFile    string   // of its certificate; default: those of the system
	Subsystem string   // of which volumes are the namespaces
	Directory string   // of files, on the target's machine
	Thick     bool     // files are allocated in advance
	Pool      string   // of images of Ceph, POOL or POOL/NAMESPACE
	CephConf  string   // on the target's machine; default: where Ceph's programs look
	CephID    string   // default: admin
	Addresses []string // where hosts connect; default: the target's listeners
}

// A target is a target that can be asked.
type target struct {
	TargetConfig
	nqn    nvmeof.NQN
	client *control.Client
}

// A Set is the targets of a driver.
type Set struct{ targets []*target }

// Read reads the file of a driver.
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

// New returns the targets that a configuration has, none of which is asked yet.
func New(c Config) (*Set, error) {
	s := &Set{}
	for i, t := range c.Targets {
		if s.named(t.Name) != nil {
			return nil, fmt.Errorf("targets[%d]: there are two of the name %s", i, t.Name)
		}
		x, err := newTarget(t)
		if err != nil {
			return nil, fmt.Errorf("targets[%d]: %w", i, err)
		}
		s.targets = append(s.targets, x)
	}
	if len(s.targets) == 0 {
		return nil, errors.New("targets: there is none")
	}
	return s, nil
}

// targetName is short, since it is in the identifiers of volumes, of at most 128 bytes.
var targetName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?$`)

func newTarget(c TargetConfig) (*target, error) {
	nqn, err := nvmeof.ParseNQN(c.Subsystem)
	switch {
	case !targetName.MatchString(c.Name):
		return nil, fmt.Errorf("name %q: a-z, 0-9, - and . make names, of at most 62", c.Name)
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

// newClient is a client of a target's control socket or console. The file of the token is read for each
// call, so that another token counts at once.
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
		return nil, errors.New("token-file: a console needs one, with a token of the role operate")
	}
	token := func() (string, error) {
		text, err := os.ReadFile(c.TokenFile)
		return strings.TrimSpace(string(text)), err
	}
	client, err := control.NewRemoteClient(c.Control, token, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool})
	if err != nil {
		return nil, fmt.Errorf("control: %w, and no unix:PATH", err)
	}
	return client, nil
}

// named is the target of a name, or nil.
func (s *Set) named(name string) *target {
	for _, t := range s.targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Close gives all connections back.
func (s *Set) Close() {
	for _, t := range s.targets {
		t.client.Close()
	}
}
