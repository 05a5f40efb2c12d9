package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// A held connection is one that stays: what to connect to, and what happens when
// that is lost.
type held struct {
	connection
	reconnectDelay int // seconds
	ctrlLoss       int // seconds; -1: never
	fastIOFail     int // seconds; 0, -1: off
	duplicate      bool
	policy         string         // Linux's iopolicy; empty: as it is
	flags          *pflag.FlagSet // with the options that exist elsewhere
}

func (h *held) addFlags(cmd *cobra.Command, sqflow string) {
	h.addConnectionFlags(cmd, sqflow)
	h.flags = cmd.Flags()
	own := h.values()
	for name := range h.connection.values() {
		delete(own, name)
	}
	addOptions(h.flags, own, "")
	addRefused(h.flags)
}

// values are where the options are kept, by their names.
func (h *held) values() map[string]any {
	all := h.connection.values()
	all["reconnect-delay"], all["ctrl-loss-tmo"], all["fast_io_fail_tmo"] = &h.reconnectDelay, &h.ctrlLoss, &h.fastIOFail
	all["duplicate-connect"], all["iopolicy"] = &h.duplicate, &h.policy
	return all
}

// newHeld is a connection with options by their long names, as a file or another
// process has them.
func newHeld(options map[string]string) (*held, error) {
	var h held
	cmd := &cobra.Command{}
	h.addFlags(cmd, "")
	for name, value := range options {
		if name == "persistent" { // of a discovery controller
			continue
		}
		known := slices.ContainsFunc(allOptions(), func(o hostconfig.Option) bool { return o.Name == name && o.Unset != "" && o.Unset == value })
		if known { // the default
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return nil, failure.Usagef("%s: %v", name, err)
		}
	}
	return &h, nil
}

// settings are the flags of a command line that say something about a connection.
func settings(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	values := new(held).values()
	for _, o := range allOptions() {
		f := cmd.Flags().Lookup(o.Name)
		if values[o.Name] == nil || f == nil || !f.Changed {
			continue
		}
		given[o.Name] = f.Value.String()
		if path, ok := strings.CutPrefix(given[o.Name], secretFile); ok && o.Secret {
			if whole, err := filepath.Abs(path); err == nil {
				given[o.Name] = secretFile + whole
			}
		}
	}
	return given
}

// over returns options of a file with those of the command line in their place, but
// for what says who and where the controller is.
func over(file hostconfig.Options, given map[string]string) map[string]string {
	all := maps.Clone(map[string]string(file))
	if all == nil {
		all = map[string]string{}
	}
	for _, o := range allOptions() {
		if v, is := given[o.Name]; is && !o.Where {
			all[o.Name] = v
		}
	}
	return all
}

// checkHeld checks what addr does not.
func (h *held) checkHeld() error {
	if err := checkRefused(h.flags); err != nil {
		return err
	}
	if err := checkBounds(h.values()); err != nil {
		return err
	}
	if h.policy != "" {
		if _, err := multipath.ParsePolicy(h.policy); err != nil {
			return failure.Usagef("--iopolicy %v", err)
		}
	}
	return nil
}

const iopolicyHelp = "which of several paths a request takes: numa|round-robin|queue-depth|latency (default numa, the nearest of the best)"

func (h *held) timers() multipath.Timers {
	t := multipath.Timers{
		ReconnectDelay: time.Duration(h.reconnectDelay) * time.Second,
		CtrlLossTmo:    time.Duration(h.ctrlLoss) * time.Second,
		FastIOFailTmo:  time.Duration(h.fastIOFail) * time.Second,
	}
	if h.ctrlLoss == 0 {
		t.CtrlLossTmo = time.Nanosecond // at once; 0 is the default
	}
	if h.fastIOFail <= 0 {
		t.FastIOFailTmo = -1
	}
	return t
}

// wanted is what the connection would be, and as whom.
func (h *held) wanted() (connections.Wanted, nvmeof.HostIdentity, error) {
	var w connections.Wanted
	if err := h.checkHeld(); err != nil {
		return w, nvmeof.HostIdentity{}, err
	}
	addr, err := h.addr()
	if err != nil {
		return w, nvmeof.HostIdentity{}, err
	}
	if h.nqn == "" {
		return w, nvmeof.HostIdentity{}, failure.Usagef("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	if h.nqn == string(nvmeof.DiscoveryNQN) {
		return w, nvmeof.HostIdentity{}, failure.Usagef("--nqn %s is the name of discovery controllers: use nvmeof discover --persistent, or nvmeof connect-all", h.nqn)
	}
	identity, err := h.identity()
	w = connections.Wanted{NQN: h.nqn, HostNQN: string(identity.NQN), Traddr: addr.Addr().String(), Trsvcid: fmt.Sprint(addr.Port()), HostTraddr: h.hostTraddr}
	return w, identity, err
}

// path is the connection for a holder.
func (h *held) path(all *hosts) (connections.Path, error) {
	_, identity, err := h.wanted()
	if err != nil {
		return connections.Path{}, err
	}
	addr, err := h.addr()
	if err != nil {
		return connections.Path{}, err
	}
	o, err := h.options(addr, h.nqn)
	if err != nil {
		return connections.Path{}, err
	}
	at, err := all.reach(&h.connection, addr.Addr())
	if err != nil {
		return connections.Path{}, err
	}
	o.HostNQN, o.HostID = identity.NQN, identity.ID
	return connections.Path{Host: at.host, Options: o, Timers: h.timers(), Policy: h.policy, HostTraddr: h.hostTraddr}, nil
}

// each is one connection for each address of --traddr.
func (h *held) each() (all []*held) {
	for traddr := range strings.SplitSeq(h.traddr, ",") {
		one := *h
		one.traddr = traddr
		all = append(all, &one)
	}
	return all
}

// A retry is what happens between attempts of what may pass by itself. The first pause
// is connectPause, and each next one is twice as long, up to --reconnect-delay.
type retry struct {
	h     *held
	warn  io.Writer
	start time.Time
	pause time.Duration
	told  string
}

func (h *held) retry(warn io.Writer) *retry {
	return &retry{h: h, warn: warn, start: time.Now(), pause: connectPause}
}

// late reports whether another attempt would come too late.
func (r *retry) late() bool {
	return r.h.ctrlLoss >= 0 && time.Since(r.start)+r.pause > time.Duration(r.h.ctrlLoss)*time.Second
}

// wait tells what stands in the way, each thing once, and pauses.
func (r *retry) wait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if text := err.Error(); text != r.told {
		r.told = text
		fmt.Fprintf(r.warn, "nvmeof: %s; still trying\n", text)
	}
	select {
	case <-time.After(r.pause):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.pause = min(2*r.pause, time.Duration(r.h.reconnectDelay)*time.Second)
	return nil
}

// paths are the connections by all addresses of --traddr, as one host.
func (h *held) paths(all *hosts) (paths []connections.Path, identity nvmeof.HostIdentity, err error) {
	for _, one := range h.each() {
		path, err := one.path(all)
		if err != nil {
			return nil, identity, err
		}
		identity.NQN, identity.ID = path.Options.HostNQN, path.Options.HostID
		paths = append(paths, path)
	}
	return paths, identity, nil
}

// asWhom puts the identity into options for another process, whose own may differ.
func asWhom(options map[string]string, id nvmeof.HostIdentity) map[string]string {
	options["hostnqn"], options["hostid"] = string(id.NQN), uuid.UUID(id.ID).String()
	return options
}

// effective tells what the timeouts of a connection are.
func effective(name string, p *connections.Path) string {
	kato, fast := "off", "with that"
	switch k := p.Options.KeepAliveTmo; {
	case k == 0:
		kato = nvmeof.DefaultKeepAlive.String()
	case k > 0:
		kato = k.String()
	}
	if f := p.Timers.FastIOFailTmo; f >= 0 {
		fast = "after " + f.String()
	}
	loss := "never given up"
	if l := p.Timers.CtrlLossTmo; l >= 0 {
		loss = "given up after " + l.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%s: keep alive timeout %s; when lost, connected to again at intervals of at most %v, %s; requests fail %s",
		name, kato, p.Timers.ReconnectDelay, loss, fast)
}

// explain says what a refused connection means for its user.
func explain(ctx context.Context, err error, id nvmeof.HostIdentity) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isStranger(err) {
		err = fmt.Errorf("%w\nThis host is %s; on a target of ours: --allow-host %s", err, id.NQN, id.NQN)
	}
	var use failure.Usage
	if errors.As(err, &use) {
		return err
	}
	return &failure.Connect{Err: err}
}
