package main

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// connection are the flags by which a command says which controller it wants, with
// nvme-cli's names.
type connection struct {
	transport  string // nvme-cli's name for the kind of fabric
	provider   string // softroce, verbs or auto
	windows    string // auto, on or off
	traddr     string
	trsvcid    string
	nqn        string
	hostTraddr string
	hostIface  string
	hostNQN    string
	hostID     string
	secret     string
	ctrlSecret string

	nrIOQueues    int
	queueSize     int
	keepAlive     int // seconds
	tos           uint8
	disableSQFlow bool

	timeout    time.Duration
	ackTimeout time.Duration
	rcvbuf     int
	congestion config.Congestion

	measures bool // tells of what makes its device slow, which others do only where it is not what was asked for
}

// addFlags adds the flags of a command that ends by itself.
func (c *connection) addFlags(cmd *cobra.Command) {
	c.addConnectionFlags(cmd, "")
	c.addIgnored(cmd)
}

// addConnectionFlags adds those that say what to connect to and how; sqflow is the
// short name of --disable-sqflow, which differs between nvme-cli's commands.
func (c *connection) addConnectionFlags(cmd *cobra.Command, sqflow string) {
	c.transport, c.provider, c.windows, c.timeout = "rdma", transportSoftroce, windowsAuto, 30*time.Second
	addOptions(cmd.Flags(), c.values(), sqflow)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return lookUp(cmd, net.DefaultResolver) }
}

// values are where the options are kept, by their names.
func (c *connection) values() map[string]any {
	return map[string]any{
		"transport": &c.transport, "traddr": &c.traddr, "trsvcid": &c.trsvcid, "nqn": &c.nqn,
		"host-traddr": &c.hostTraddr, "host-iface": &c.hostIface, "hostnqn": &c.hostNQN, "hostid": &c.hostID,
		"dhchap-secret": &c.secret, "dhchap-ctrl-secret": &c.ctrlSecret,
		"nr-io-queues": &c.nrIOQueues, "queue-size": &c.queueSize, "keep-alive-tmo": &c.keepAlive, "tos": &c.tos, "disable-sqflow": &c.disableSQFlow,
		"provider": &c.provider, "windows": &c.windows, "timeout": (*patience)(&c.timeout), "ack-timeout": (*patience)(&c.ackTimeout),
		"rcvbuf": &c.rcvbuf, "congestion": (*congestion)(&c.congestion),
	}
}

// What --windows takes.
const (
	windowsAuto = "auto"
	windowsOn   = "on"
	windowsOff  = "off"
)

// addIgnored accepts options about what happens after a connection is lost, which
// cannot matter to a command that then is over.
func (c *connection) addIgnored(cmd *cobra.Command) {
	var none held
	values := map[string]any{}
	for _, name := range lostOptions() {
		values[name] = none.values()[name]
	}
	addOptions(cmd.Flags(), values, "")
	for name := range values {
		_ = cmd.Flags().MarkHidden(name)
	}
}

// addr checks the flags that say where the controller is.
func (c *connection) addr() (netip.AddrPort, error) {
	switch {
	case c.transport != "rdma":
		return netip.AddrPort{}, failure.Usagef("--transport %s: only rdma is supported%s", c.transport, providerHint(c.transport))
	case !isTransport(c.provider):
		return netip.AddrPort{}, failure.Usagef("--provider %s: want %s", c.provider, transportHelp)
	case c.windows != windowsAuto && c.windows != windowsOn && c.windows != windowsOff:
		return netip.AddrPort{}, failure.Usagef("--windows %s: it is auto, on or off", c.windows)
	case c.traddr == "":
		return netip.AddrPort{}, failure.Usagef("--traddr is missing: the IP address of the controller, as in -a 192.0.2.1")
	case strings.Contains(c.traddr, ","):
		return netip.AddrPort{}, failure.Usagef("--traddr %s: one address here; attach and bench take several", nvmeof.Printable(c.traddr))
	case c.hostIface != "":
		return netip.AddrPort{}, failure.Usagef("--host-iface is not supported: give that interface's address as --host-traddr")
	case c.secret == "" && c.ctrlSecret != "":
		return netip.AddrPort{}, failure.Usagef("--dhchap-ctrl-secret needs --dhchap-secret too: only a host that authenticates can ask for proof")
	}
	addr, err := nvmeof.ParseAddress(c.traddr, c.trsvcid)
	if err != nil {
		return addr, failure.Usagef("%v", err)
	}
	if lacksZone(addr.Addr()) {
		return addr, failure.Usagef("--traddr %v is link-local: name the interface that leads to it, as in %v%%eth0", addr.Addr(), addr.Addr())
	}
	return addr, nil
}

// lacksZone reports whether an address means nothing without an interface, and has none.
func lacksZone(a netip.Addr) bool {
	return a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == ""
}

// providerHint is for who gives a host the target's --transport.
func providerHint(transport string) string {
	if isTransport(transport) {
		return "; as for the RDMA transport, it is --provider " + transport
	}
	return ""
}

// options are those of the connection to addr.
func (c *connection) options(addr netip.AddrPort, nqn string) (host.Options, error) {
	o := host.Options{
		Traddr: addr.Addr(), Trsvcid: addr.Port(),
		NrIOQueues: c.nrIOQueues, QueueSize: c.queueSize, KeepAliveTmo: time.Duration(c.keepAlive) * time.Second,
		TOS: c.tos, DisableSQFlow: c.disableSQFlow, Timeout: c.timeout, SharedKeys: c.windows == windowsOff,
	}
	if err := checkBounds(c.values()); err != nil {
		return o, err
	}
	if err := c.secrets(&o); err != nil {
		return o, err
	}
	if nqn != "" {
		n, err := nvmeof.AnyNQN(nqn)
		if err != nil {
			return o, failure.Usagef("--nqn: %v", err)
		}
		o.NQN = n
	}
	return o, nil
}

// A session is a host on a device of its own, for as long as a command runs.
type session struct {
	flags    *connection
	addr     netip.AddrPort // of the controller
	identity nvmeof.HostIdentity
	device   rdmatransport.Device
	host     *host.Host
	warn     io.Writer // is told where nobody answers
}

// open starts a host that can reach the address. What is worth knowing about its
// device goes to warn.
func (c *connection) open(warn io.Writer) (*session, error) {
	addr, err := c.addr()
	if err != nil {
		return nil, err
	}
	identity, err := c.identity()
	if err != nil {
		return nil, err
	}
	shards := min(c.nrIOQueues, runtime.NumCPU(), maxShards)
	needProcessors(shards, nvmeof.PollAdaptive)
	device, err := c.openDevice(addr.Addr(), shards, warn)
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Config{Device: device, Identity: identity, Shards: shards})
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return &session{c, addr, identity, device, h, warn}, nil
}

// maxShards is the most that a device of either provider has.
const maxShards = 64

// needProcessors lets shards, each of which may keep a processor busy unless it never
// polls, leave the Go runtime one for the rest of the program. With a single processor
// they share it with whoever makes their work.
func needProcessors(shards int, polling nvmeof.Polling) {
	if polling != nvmeof.PollNever {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+shards))
	} else if singleProcessor() {
		queueBehindWakers()
	}
}

func (s *session) close() error { return errors.Join(s.host.Close(), s.device.Close()) }
