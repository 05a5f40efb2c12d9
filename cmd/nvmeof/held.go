package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/hostconfig"
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
	policy         string             // Linux's iopolicy; empty: as it is
	refused        map[string]*string // options that exist elsewhere
}

// refusedOptions are nvme connect's that cannot be kept to here.
var refusedOptions = []struct {
	name, short string
	flag        bool
	why         string
}{
	{"nr-write-queues", "W", false, "each queue here carries all kinds of commands: use --nr-io-queues"},
	{"nr-poll-queues", "P", false, "queues here are polled as their threads are: use --nr-io-queues"},
	{"hdr-digest", "g", true, "there are no digests over RDMA, whose packets have a checksum of their own"},
	{"data-digest", "G", true, "there are no digests over RDMA, whose packets have a checksum of their own"},
	{"tls", "", true, "there is no TLS over RDMA"},
	{"concat", "", true, "there is no TLS over RDMA"},
	{"tls-key", "", false, "there is no TLS over RDMA"},
	{"tls_key", "", false, "there is no TLS over RDMA"},
	{"keyring", "", false, "there is no TLS over RDMA"},
}

func (h *held) addFlags(cmd *cobra.Command, sqflow string) {
	h.addConnectionFlags(cmd, sqflow)
	flags := cmd.Flags()
	flags.IntVarP(&h.reconnectDelay, "reconnect-delay", "c", 10, "most seconds between two attempts to connect again; the first come sooner")
	flags.IntVarP(&h.ctrlLoss, "ctrl-loss-tmo", "l", 600, "seconds after which a lost controller is given up; -1: never")
	flags.IntVarP(&h.fastIOFail, "fast_io_fail_tmo", "F", 0, "seconds after which requests stop waiting for a lost controller; 0: when it is given up")
	flags.BoolVarP(&h.duplicate, "duplicate-connect", "D", false, "connect also where there is such a connection already")
	flags.StringVar(&h.policy, "iopolicy", "", iopolicyHelp)
	h.refused = map[string]*string{}
	for _, r := range refusedOptions {
		h.refused[r.name] = flags.StringP(r.name, r.short, "", "")
		if r.flag {
			flags.Lookup(r.name).NoOptDefVal = "true"
		}
		_ = flags.MarkHidden(r.name)
	}
}

// newHeld is a connection with options by their long names, as a file or another
// process has them.
func newHeld(options map[string]string) (*held, error) {
	var h held
	cmd := &cobra.Command{}
	h.addFlags(cmd, "")
	for name, value := range options {
		if value == "-1" && name == "tos" || value == "0" && (name == "nr-io-queues" || name == "queue-size" || name == "reconnect-delay") {
			continue // the default
		}
		if name == "persistent" { // of a discovery controller
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return nil, usage("%s: %v", name, err)
		}
	}
	return &h, nil
}

// heldFlags are the flags of a held connection.
var heldFlags = []string{
	"transport", "provider", "windows", "traddr", "trsvcid", "nqn", "host-traddr", "host-iface", "hostnqn", "hostid",
	"dhchap-secret", "dhchap-ctrl-secret", "nr-io-queues", "queue-size", "keep-alive-tmo", "tos", "disable-sqflow",
	"timeout", "ack-timeout", "rcvbuf", "congestion", "reconnect-delay", "ctrl-loss-tmo", "fast_io_fail_tmo", "duplicate-connect",
	"iopolicy",
}

// settings are the flags of a command line that say something about a connection.
func settings(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	for _, name := range heldFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			given[name] = f.Value.String()
		}
	}
	for _, name := range []string{"dhchap-secret", "dhchap-ctrl-secret"} {
		if path, ok := strings.CutPrefix(given[name], secretFile); ok {
			if whole, err := filepath.Abs(path); err == nil {
				given[name] = secretFile + whole
			}
		}
	}
	return given
}

// over returns options of a file with those of the command line in their place, but
// for what says who and where the controller is.
func over(file hostconfig.Options, given map[string]string) map[string]string {
	all := map[string]string{}
	for name, v := range file {
		all[name] = v
	}
	for name, v := range given {
		if !slices.Contains([]string{"transport", "traddr", "trsvcid", "nqn"}, name) {
			all[name] = v
		}
	}
	return all
}

// checkHeld checks what addr does not.
func (h *held) checkHeld() error {
	for _, r := range refusedOptions {
		if v := *h.refused[r.name]; v != "" && v != "false" && v != "0" {
			return usage("--%s: %s", r.name, r.why)
		}
	}
	const most = math.MaxInt32 / 1000
	switch {
	case h.reconnectDelay < 1 || h.reconnectDelay > most:
		return usage("--reconnect-delay %d: 1 to %d seconds", h.reconnectDelay, most)
	case h.ctrlLoss < -1 || h.ctrlLoss > most:
		return usage("--ctrl-loss-tmo %d: -1 to %d seconds", h.ctrlLoss, most)
	case h.fastIOFail < -1 || h.fastIOFail > most:
		return usage("--fast_io_fail_tmo %d: -1 to %d seconds", h.fastIOFail, most)
	case h.keepAlive < 0 || h.keepAlive > most:
		return usage("--keep-alive-tmo %d: 0 to %d seconds", h.keepAlive, most)
	}
	if h.policy != "" {
		if _, err := multipath.ParsePolicy(h.policy); err != nil {
			return usage("--iopolicy %v", err)
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
		return w, nvmeof.HostIdentity{}, usage("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	if h.nqn == string(nvmeof.DiscoveryNQN) {
		return w, nvmeof.HostIdentity{}, usage("--nqn %s is the name of discovery controllers: use nvmeof discover --persistent, or nvmeof connect-all", h.nqn)
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
	var use usageError
	if errors.As(err, &use) {
		return err
	}
	return &connectError{Err: err}
}
