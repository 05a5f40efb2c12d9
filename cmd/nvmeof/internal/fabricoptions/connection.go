package fabricoptions

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Connection holds the flags that select a controller, with nvme-cli's names.
type Connection struct {
	Transport  string // nvme-cli's name for the kind of fabric
	Traddr     string
	Trsvcid    string
	NQN        string
	hostIface  string
	HostNQN    string
	HostID     string
	secret     string
	ctrlSecret string

	NrIOQueues    int
	queueSize     int
	keepAlive     int // seconds
	tos           uint8
	disableSQFlow bool

	Timeout time.Duration

	provider.Options
}

// AddFlags adds the flags of a command that ends by itself.
func (c *Connection) AddFlags(cmd *cobra.Command) {
	c.addConnectionFlags(cmd, "")
	addIgnored(cmd)
}

// addConnectionFlags adds the flags that say what to connect to and how. sqflow is the shorthand of --disable-sqflow,
// which differs between nvme-cli's commands.
func (c *Connection) addConnectionFlags(cmd *cobra.Command, sqflow string) {
	c.Transport, c.Provider, c.Windows, c.Timeout = "rdma", provider.Softroce, provider.WindowsAuto, 30*time.Second
	addOptions(cmd.Flags(), c.values(), sqflow)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return lookUp(cmd, net.DefaultResolver) }
}

// values maps the names of the options to their variables.
func (c *Connection) values() map[string]any {
	return map[string]any{
		"transport": &c.Transport, "traddr": &c.Traddr, "trsvcid": &c.Trsvcid, "nqn": &c.NQN,
		"host-traddr": &c.HostTraddr, "host-iface": &c.hostIface, "hostnqn": &c.HostNQN, "hostid": &c.HostID,
		"dhchap-secret": &c.secret, "dhchap-ctrl-secret": &c.ctrlSecret,
		"nr-io-queues": &c.NrIOQueues, "queue-size": &c.queueSize, "keep-alive-tmo": &c.keepAlive, "tos": &c.tos, "disable-sqflow": &c.disableSQFlow,
		"provider": &c.Provider, "windows": &c.Windows, "timeout": (*Duration)(&c.Timeout), "ack-timeout": (*Duration)(&c.AckTimeout),
		"rcvbuf": &c.ReceiveBuffer, "congestion": (*provider.CongestionFlag)(&c.Congestion),
	}
}

// addIgnored adds flags about the time after a connection is lost, which have no effect on a command that ends then.
func addIgnored(cmd *cobra.Command) {
	var none Held
	all, values := none.values(), map[string]any{}
	for _, name := range LostNames() {
		values[name] = all[name]
	}
	addOptions(cmd.Flags(), values, "")
	for name := range values {
		_ = cmd.Flags().MarkHidden(name)
	}
}

// Addr checks the flags that select the controller, and returns its address.
func (c *Connection) Addr() (netip.AddrPort, error) {
	switch {
	case c.Transport != "rdma":
		return netip.AddrPort{}, failure.Usagef("--transport %s: only rdma is supported%s", c.Transport, providerHint(c.Transport))
	case !provider.IsName(c.Provider):
		return netip.AddrPort{}, failure.Usagef("--provider %s: want %s", c.Provider, provider.Help)
	case c.Windows != provider.WindowsAuto && c.Windows != provider.WindowsOn && c.Windows != provider.WindowsOff:
		return netip.AddrPort{}, failure.Usagef("--windows %s: want auto, on or off", c.Windows)
	case c.Traddr == "":
		return netip.AddrPort{}, failure.Usagef("--traddr is missing: the IP address of the controller, as in -a 192.0.2.1")
	case strings.Contains(c.Traddr, ","):
		return netip.AddrPort{}, failure.Usagef("--traddr %s: want one address; only attach and bench take several", nvmeof.Printable(c.Traddr))
	case c.hostIface != "":
		return netip.AddrPort{}, failure.Usagef("--host-iface is not supported: give that interface's address as --host-traddr")
	case c.secret == "" && c.ctrlSecret != "":
		return netip.AddrPort{}, failure.Usagef("--dhchap-ctrl-secret needs --dhchap-secret too: only a host that authenticates can require the controller to")
	}
	addr, err := nvmeof.ParseAddress(c.Traddr, c.Trsvcid)
	if err != nil {
		return addr, failure.Usagef("%v", err)
	}
	if provider.LacksZone(addr.Addr()) {
		return addr, failure.Usagef("--traddr %v is link-local: name the interface that leads to it, as in %v%%eth0", addr.Addr(), addr.Addr())
	}
	return addr, nil
}

// providerHint is for users who give a host the target's --transport.
func providerHint(transport string) string {
	if provider.IsName(transport) {
		return "; the RDMA transport is set with --provider " + transport
	}
	return ""
}

// HostOptions returns the options of a connection to addr.
func (c *Connection) HostOptions(addr netip.AddrPort, nqn string) (host.Options, error) {
	o := host.Options{
		Traddr: addr.Addr(), Trsvcid: addr.Port(),
		NrIOQueues: c.NrIOQueues, QueueSize: c.queueSize, KeepAliveTmo: time.Duration(c.keepAlive) * time.Second,
		TOS: c.tos, DisableSQFlow: c.disableSQFlow, Timeout: c.Timeout, SharedKeys: c.Windows == provider.WindowsOff,
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

// Shards returns the number of loops of a host for the connection: one for each I/O queue, as far as there are
// processors and the device has room.
func (c *Connection) Shards() (int, error) {
	if err := checkBounds(c.values()); err != nil {
		return 0, err
	}
	return min(c.NrIOQueues, runtime.NumCPU(), provider.MaxShards), nil
}

// Identity returns the identity by which controllers know this host.
func (c *Connection) Identity() (nvmeof.HostIdentity, error) {
	return hostidentity.Of(c.HostNQN, c.HostID)
}

// keyTime limits the time for reading the file of a key while a path waits to be connected.
const keyTime = 3 * time.Second

// Keys returns a function that sets the keys of a connection attempt, read from their files at that time. If a file
// cannot be read, the last key is used; before contains the present ones. Keys returns nil if no key is in a file.
func (c *Connection) Keys(before *host.Options) func(*host.Options) {
	isFile := func(text string) bool { return strings.HasPrefix(text, hostidentity.SecretFile) }
	secret, ctrlSecret, last := c.secret, c.ctrlSecret, *before
	if !isFile(secret) && !isFile(ctrlSecret) {
		return nil
	}
	return func(o *host.Options) {
		ctx, cancel := context.WithTimeout(context.Background(), keyTime)
		defer cancel()
		if isFile(secret) {
			if k, err := hostidentity.ReadSecret(ctx, secret); err == nil {
				last.DHCHAPSecret = k
			}
		}
		if isFile(ctrlSecret) {
			if k, err := hostidentity.ReadSecret(ctx, ctrlSecret); err == nil {
				last.DHCHAPCtrlSecret = k
			}
		}
		o.DHCHAPSecret, o.DHCHAPCtrlSecret = last.DHCHAPSecret, last.DHCHAPCtrlSecret
	}
}

// secrets sets the keys of a connection from the flags.
func (c *Connection) secrets(o *host.Options) (err error) {
	if c.secret != "" {
		if o.DHCHAPSecret, err = hostidentity.ParseSecret(c.secret); err != nil {
			return failure.Usagef("--dhchap-secret: %v", err)
		}
	}
	if c.ctrlSecret != "" {
		if o.DHCHAPCtrlSecret, err = hostidentity.ParseSecret(c.ctrlSecret); err != nil {
			return failure.Usagef("--dhchap-ctrl-secret: %v", err)
		}
	}
	return nil
}
