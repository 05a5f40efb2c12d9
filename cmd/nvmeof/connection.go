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
	flags := cmd.Flags()
	flags.StringVarP(&c.transport, "transport", "t", "rdma", "transport type: rdma")
	flags.StringVar(&c.provider, "provider", transportSoftroce, "RDMA transport of this host: "+transportHelp)
	flags.StringVar(&c.windows, "windows", windowsAuto, "a key of its own for each command's memory: on, off, or auto (where the RDMA device has sound memory windows)")
	flags.StringVarP(&c.traddr, "traddr", "a", "", "transport address: the controller's IP address, or a name that this machine knows")
	flags.StringVarP(&c.trsvcid, "trsvcid", "s", "", "transport service id: the controller's port (default 4420)")
	flags.StringVarP(&c.nqn, "nqn", "n", "", "subsystem nqn")
	flags.StringVarP(&c.hostTraddr, "host-traddr", "w", "", "this host's address (default: the route's, or a free 127/8 address)")
	flags.StringVarP(&c.hostIface, "host-iface", "f", "", "not supported: use --host-traddr")
	flags.StringVarP(&c.hostNQN, "hostnqn", "q", "", "user-defined hostnqn (default: /etc/nvme/hostnqn, or one kept for this user)")
	flags.StringVarP(&c.hostID, "hostid", "I", "", "user-defined hostid (default: /etc/nvme/hostid, or the one in the hostnqn)")
	flags.StringVarP(&c.secret, "dhchap-secret", "S", "", "this host's key for in-band authentication (DHHC-1:...), or file:PATH")
	flags.StringVarP(&c.ctrlSecret, "dhchap-ctrl-secret", "C", "", "key that the target has to prove that it knows, or file:PATH")
	flags.IntVarP(&c.nrIOQueues, "nr-io-queues", "i", 1, "number of io queues to use, each with a thread of its own")
	flags.IntVarP(&c.queueSize, "queue-size", "Q", nvmeof.DefaultQueueDepth, "number of io queue elements to use")
	flags.IntVarP(&c.keepAlive, "keep-alive-tmo", "k", 0, "keep alive timeout period in seconds (default 5)")
	flags.Uint8VarP(&c.tos, "tos", "T", 0, "type of service")
	flags.BoolVarP(&c.disableSQFlow, "disable-sqflow", sqflow, false, "disable controller sq flow control")
	c.timeout = 30 * time.Second
	flags.Var((*patience)(&c.timeout), "timeout", "how long a command may take, in milliseconds or as in 30s")
	flags.Var((*patience)(&c.ackTimeout), "ack-timeout", ackTimeoutHelp)
	flags.IntVar(&c.rcvbuf, "rcvbuf", 0, "bytes of each receive socket's buffer with softroce (default: 8 MiB, as far as allowed)")
	flags.Var((*congestion)(&c.congestion), "congestion", congestionHelp)
	_ = flags.MarkHidden("host-iface")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return lookUp(cmd, net.DefaultResolver) }
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
	flags := cmd.Flags()
	flags.IntP("reconnect-delay", "c", 10, "")
	flags.IntP("ctrl-loss-tmo", "l", 600, "")
	flags.IntP("fast_io_fail_tmo", "F", 0, "")
	flags.BoolP("duplicate-connect", "D", false, "")
	for _, name := range []string{"reconnect-delay", "ctrl-loss-tmo", "fast_io_fail_tmo", "duplicate-connect"} {
		_ = flags.MarkHidden(name)
	}
}

// addr checks the flags that say where the controller is.
func (c *connection) addr() (netip.AddrPort, error) {
	switch {
	case c.transport != "rdma":
		return netip.AddrPort{}, usage("--transport %s: only rdma is supported%s", c.transport, providerHint(c.transport))
	case !isTransport(c.provider):
		return netip.AddrPort{}, usage("--provider %s: want %s", c.provider, transportHelp)
	case c.windows != windowsAuto && c.windows != windowsOn && c.windows != windowsOff:
		return netip.AddrPort{}, usage("--windows %s: it is auto, on or off", c.windows)
	case c.traddr == "":
		return netip.AddrPort{}, usage("--traddr is missing: the IP address of the controller, as in -a 192.0.2.1")
	case strings.Contains(c.traddr, ","):
		return netip.AddrPort{}, usage("--traddr %s: one address here; attach and bench take several", nvmeof.Printable(c.traddr))
	case c.hostIface != "":
		return netip.AddrPort{}, usage("--host-iface is not supported: give that interface's address as --host-traddr")
	case c.secret == "" && c.ctrlSecret != "":
		return netip.AddrPort{}, usage("--dhchap-ctrl-secret needs --dhchap-secret too: only a host that authenticates can ask for proof")
	}
	addr, err := nvmeof.ParseAddress(c.traddr, c.trsvcid)
	if err != nil {
		return addr, usage("%v", err)
	}
	if lacksZone(addr.Addr()) {
		return addr, usage("--traddr %v is link-local: name the interface that leads to it, as in %v%%eth0", addr.Addr(), addr.Addr())
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
	if c.nrIOQueues < 1 || c.nrIOQueues > nvmeof.MaxIOQueues {
		return o, usage("--nr-io-queues %d: 1 to %d", c.nrIOQueues, nvmeof.MaxIOQueues)
	}
	if c.queueSize < 2 || c.queueSize > nvmeof.MaxQueueDepth {
		return o, usage("--queue-size %d: 2 to %d", c.queueSize, nvmeof.MaxQueueDepth)
	}
	if err := c.secrets(&o); err != nil {
		return o, err
	}
	if nqn != "" {
		n, err := nvmeof.AnyNQN(nqn)
		if err != nil {
			return o, usage("--nqn: %v", err)
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
