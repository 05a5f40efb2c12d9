package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Sources are the starting points of discover and connect-all: the controller of the command line, or the files.
type Sources struct {
	config string // a file, "none", or "": those of nvme-cli
	nbft   bool
	noNBFT bool
}

// AddFlags adds the flags that name files.
func (s *Sources) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&s.config, "config", "J", "", "without --traddr: read this file (config.json, discovery.conf, nvme-fabrics.conf) instead of those in "+hostidentity.SystemIdentity+", or none")
	flags.BoolVar(&s.nbft, "nbft", false, "not supported: NBFT tables are not read")
	flags.BoolVar(&s.noNBFT, "no-nbft", false, "")
	_ = flags.MarkHidden("nbft")
	_ = flags.MarkHidden("no-nbft")
}

// Entries returns the starting points. Entries of files that are not for this host are reported. The error is about
// invalid ones; the valid ones are returned all the same.
func (s *Sources) Entries(cmd *cobra.Command, h *fabricoptions.Held) ([]hostconfig.Entry, error) {
	if s.nbft {
		return nil, failure.Usagef("--nbft is not supported: give the controller as --traddr")
	}
	if h.Traddr != "" || cmd.Flags().Changed("nqn") {
		if _, err := h.Addr(); err != nil {
			return nil, err
		}
		return []hostconfig.Entry{{Discovery: true, File: "command line", Options: fabricoptions.Given(cmd)}}, nil
	}
	var r hostconfig.Result
	switch s.config {
	case "none":
	case "":
		r = hostconfig.Load(namedfile.Folder(cmd.Context(), hostidentity.SystemIdentity, config.MaxText), hostidentity.SystemIdentity)
	default:
		dir := filepath.Dir(s.config)
		r = hostconfig.LoadFile(namedfile.Folder(cmd.Context(), dir, config.MaxText), dir, filepath.Base(s.config))
	}
	for i := range r.Skipped {
		fmt.Fprintln(cmd.ErrOrStderr(), "skipped:", &r.Skipped[i])
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
	err := r.Err()
	if err != nil {
		err = failure.Usage{Err: err}
	}
	if len(r.Entries) == 0 && err == nil {
		err = failure.Usagef("--traddr is missing, and no file names a discovery controller: give one as -a 192.0.2.1, or in %s/%s", hostidentity.SystemIdentity, hostconfig.DiscoveryConf)
	}
	return r.Entries, err
}

// A Survey is a discovery in progress. Its scopes are the entries from which it started.
type Survey struct {
	Hosts   *hosts.Pool
	scopes  []scope
	Lenders *lending.Processes // nil: a controller held by another process is polled each minute
}

// A scope describes how to connect: the options by their long names, and the parsed form.
type scope struct {
	options map[string]string
	held    *fabricoptions.Held
}

// add makes a scope of an entry, and returns the entry's endpoint.
func (s *Survey) add(e *hostconfig.Entry, given map[string]string) (discovery.Endpoint, error) {
	var at discovery.Endpoint
	options := fabricoptions.Over(e.Options, given)
	h, err := fabricoptions.Parse(options)
	if err != nil {
		return at, fmt.Errorf("%s: %w", e.Where(), err)
	}
	addr, err := h.Addr()
	if err != nil {
		return at, fmt.Errorf("%s: %w", e.Where(), err)
	}
	if err := h.Check(); err != nil {
		return at, fmt.Errorf("%s: %w", e.Where(), err)
	}
	nqn, err := nvmeof.AnyNQN(e.NQN())
	if err != nil {
		return at, failure.Usagef("%s: %v", e.Where(), err)
	}
	s.scopes = append(s.scopes, scope{options, h})
	return discovery.Endpoint{Scope: discovery.Scope(len(s.scopes) - 1), Addr: addr, NQN: nqn}, nil
}

// Dialer returns a dialer that connects with the options of an endpoint's scope.
func (s *Survey) Dialer() discovery.Dialer {
	return &remoteDialer{Dialer: s.local(), lenders: s.Lenders, warn: s.Hosts.Warn, tried: map[discovery.Endpoint]bool{}, options: func(at discovery.Endpoint) (map[string]string, error) {
		h := s.scopes[at.Scope].held
		identity, err := h.Identity()
		if err != nil {
			return nil, err
		}
		options := s.at(at.Scope, at.Addr, string(at.NQN))
		return fabricoptions.AsWhom(options, identity), nil
	}}
}

// at returns a scope's options, changed to another controller.
func (s *Survey) at(sc discovery.Scope, addr netip.AddrPort, nqn string) map[string]string {
	options := maps.Clone(s.scopes[sc].options)
	options["transport"], options["nqn"] = "rdma", nqn
	options["traddr"], options["trsvcid"] = addr.Addr().String(), fmt.Sprint(addr.Port())
	return options
}

// local returns a dialer that connects from this process.
func (s *Survey) local() discovery.Dialer {
	return &discovery.HostDialer{Host: func(_ context.Context, at discovery.Endpoint) (*host.Host, host.Options, error) {
		h := s.scopes[at.Scope].held
		o, err := h.HostOptions(at.Addr, "")
		if err != nil {
			return nil, o, err
		}
		identity, err := h.Identity()
		if err != nil {
			return nil, o, err
		}
		o.HostNQN, o.HostID = identity.NQN, identity.ID
		found, err := s.Hosts.Reach(&h.Connection, at.Addr.Addr())
		if err != nil {
			return nil, o, err
		}
		return found, o, nil
	}}
}

// Seeds adds the discovery controllers among entries. The error is about those that are invalid; the others are
// returned all the same.
func (s *Survey) Seeds(entries []hostconfig.Entry, given map[string]string) (seeds []discovery.Endpoint, err error) {
	for i := range entries {
		if !entries[i].Discovery {
			continue
		}
		at, bad := s.add(&entries[i], given)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		seeds = append(seeds, at)
	}
	return seeds, err
}

// OfRecord returns the options for a connection to a record: those of the scope by which it was found, without options
// that apply to discovery controllers only. An error means that no connection is possible unless the record changes.
func (s *Survey) OfRecord(r *discovery.Record) (map[string]string, error) {
	addr, err := r.Addr()
	if err != nil {
		return nil, err
	}
	nqn, err := nvmeof.AnyNQN(r.NQN())
	if err != nil {
		return nil, err
	}
	if nqn == nvmeof.DiscoveryNQN {
		return nil, errors.New("it lists a discovery controller as an NVM subsystem")
	}
	options := s.at(r.Scope, addr, string(nqn))
	delete(options, "keep-alive-tmo")
	h, err := fabricoptions.Parse(options)
	if err == nil {
		_, err = h.Addr() // the error may be specific to this host, such as an unreachable address
	}
	return options, err
}

// SameAddress reports whether a record has the address of the controller by which it was found.
func (s *Survey) SameAddress(r *discovery.Record) bool {
	addr, err := r.Addr()
	if err != nil {
		return false
	}
	from, err := netip.ParseAddr(s.scopes[r.Scope].held.Traddr)
	return err == nil && from.Unmap() == addr.Addr()
}

// DumpConfig prints connections as a config.json.
func DumpConfig(out io.Writer, entries []hostconfig.Entry, h *fabricoptions.Held) error {
	for i := range entries {
		if entries[i].Options["transport"] == "" {
			entries[i].Options["transport"] = h.Transport
		}
	}
	text, err := hostconfig.WriteJSON(entries)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
