package fabricoptions

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A Held is a connection that stays: what to connect to, and what happens when it is lost.
type Held struct {
	Connection
	ReconnectDelay int // seconds
	CtrlLoss       int // seconds; -1: never
	fastIOFail     int // seconds; 0, -1: off
	Duplicate      bool
	Policy         string         // Linux's iopolicy; empty: unchanged
	flags          *pflag.FlagSet // also those that are rejected or ignored
}

// AddFlags adds the flags of a command whose connections stay. sqflow is the shorthand of --disable-sqflow.
func (h *Held) AddFlags(cmd *cobra.Command, sqflow string) {
	h.addConnectionFlags(cmd, sqflow)
	h.flags = cmd.Flags()
	own := h.values()
	for name := range h.Connection.values() {
		delete(own, name)
	}
	addOptions(h.flags, own, "")
	addRefused(h.flags)
}

// values maps the names of the options to their variables.
func (h *Held) values() map[string]any {
	all := h.Connection.values()
	all["reconnect-delay"], all["ctrl-loss-tmo"], all["fast_io_fail_tmo"] = &h.ReconnectDelay, &h.CtrlLoss, &h.fastIOFail
	all["duplicate-connect"], all["iopolicy"] = &h.Duplicate, &h.Policy
	return all
}

// Parse returns a connection with options by their long names, from a file or another process.
func Parse(options map[string]string) (*Held, error) {
	var h Held
	cmd := &cobra.Command{}
	h.AddFlags(cmd, "")
	for name, value := range options {
		if name == "persistent" { // of a discovery controller
			continue
		}
		if slices.ContainsFunc(All(), func(o hostconfig.Option) bool { return o.Name == name && o.IsUnset(value) }) {
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return nil, failure.Usagef("%s: %v", name, err)
		}
	}
	return &h, nil
}

// Given returns the options of a connection that were given on the command line.
func Given(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	values := new(Held).values()
	for _, o := range All() {
		f := cmd.Flags().Lookup(o.Name)
		if values[o.Name] == nil || f == nil || !f.Changed {
			continue
		}
		given[o.Name] = f.Value.String()
		if path, ok := strings.CutPrefix(given[o.Name], hostidentity.SecretFile); ok && o.Secret {
			if whole, err := filepath.Abs(path); err == nil {
				given[o.Name] = hostidentity.SecretFile + whole
			}
		}
	}
	return given
}

// Over returns the options of a file, overridden by those of the command line except those that select the controller.
func Over(file hostconfig.Options, given map[string]string) map[string]string {
	all := maps.Clone(map[string]string(file))
	if all == nil {
		all = map[string]string{}
	}
	for _, o := range All() {
		if v, is := given[o.Name]; is && !o.Where {
			all[o.Name] = v
		}
	}
	return all
}

// Check checks the options that Addr does not check.
func (h *Held) Check() error {
	if err := checkRefused(h.flags); err != nil {
		return err
	}
	if err := checkBounds(h.values()); err != nil {
		return err
	}
	if h.Policy != "" {
		if _, err := multipath.ParsePolicy(h.Policy); err != nil {
			return failure.Usagef("--iopolicy %v", err)
		}
	}
	return nil
}

const iopolicyHelp = "how requests are distributed over paths: numa|round-robin|queue-depth|latency (default numa)"

// Timers returns the timers that apply when the connection is lost.
func (h *Held) Timers() multipath.Timers {
	t := multipath.Timers{
		ReconnectDelay: time.Duration(h.ReconnectDelay) * time.Second,
		CtrlLossTmo:    time.Duration(h.CtrlLoss) * time.Second,
		FastIOFailTmo:  time.Duration(h.fastIOFail) * time.Second,
	}
	if h.CtrlLoss == 0 {
		t.CtrlLossTmo = time.Nanosecond // at once; 0 would select the default
	}
	if h.fastIOFail <= 0 {
		t.FastIOFailTmo = -1
	}
	return t
}

// Wanted returns what the connection would be, and its host identity.
func (h *Held) Wanted() (connections.Wanted, nvmeof.HostIdentity, error) {
	var w connections.Wanted
	if err := h.Check(); err != nil {
		return w, nvmeof.HostIdentity{}, err
	}
	addr, err := h.Addr()
	if err != nil {
		return w, nvmeof.HostIdentity{}, err
	}
	if h.NQN == "" {
		return w, nvmeof.HostIdentity{}, failure.Usagef("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	if h.NQN == string(nvmeof.DiscoveryNQN) {
		return w, nvmeof.HostIdentity{}, failure.Usagef("--nqn %s is that of discovery controllers: use nvmeof discover --persistent, or nvmeof connect-all", h.NQN)
	}
	identity, err := h.Identity()
	w = connections.Wanted{NQN: h.NQN, HostNQN: string(identity.NQN), Traddr: addr.Addr().String(), Trsvcid: fmt.Sprint(addr.Port()), HostTraddr: h.HostTraddr}
	return w, identity, err
}

// Each returns one connection for each address of --traddr.
func (h *Held) Each() (all []*Held) {
	for traddr := range strings.SplitSeq(h.Traddr, ",") {
		one := *h
		one.Traddr = traddr
		all = append(all, &one)
	}
	return all
}

// AsWhom adds the identity to options for another process, whose own identity may differ.
func AsWhom(options map[string]string, id nvmeof.HostIdentity) map[string]string {
	options["hostnqn"], options["hostid"] = string(id.NQN), uuid.UUID(id.ID).String()
	return options
}
