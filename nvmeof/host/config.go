package host

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Config describes a host. Fields that are zero take their defaults.
type Config struct {
	// Device is required. The caller owns it, and closes it after the host.
	Device rdmatransport.Device
	// Identity identifies the host to controllers; default: a new one.
	Identity nvmeof.HostIdentity

	Shards  int            // event loops; default: one per CPU, up to what the device supports
	Polling nvmeof.Polling // when an idle loop blocks
	Spin    time.Duration  // minimum time that an idle loop polls under PollAdaptive; default 50 µs
}

func (c *Config) shards() int {
	limit := c.Device.Attrs().Shards
	if c.Shards == 0 {
		return max(1, min(limit, runtime.NumCPU()))
	}
	return c.Shards
}

// Options describe a connection. The names are those of nvme-cli's options. Fields that are zero take their defaults.
type Options struct {
	Traddr  netip.Addr // required
	Trsvcid uint16     // default 4420
	NQN     nvmeof.NQN // required by Connect; default of Discover: the discovery NQN

	HostNQN nvmeof.NQN     // default: the host's identity
	HostID  capsule.HostID // default: the host's identity

	NrIOQueues    int           // default: one for each shard; negative: none
	QueueSize     int           // entries of each I/O queue, 2 to 1024; default 128
	KeepAliveTmo  time.Duration // at least 1 ms; default 5 s; negative: none
	TOS           uint8         // IP type of service
	DisableSQFlow bool

	// DHCHAPSecret is the key with which the host authenticates itself on each queue if the controller requires it.
	// With DHCHAPCtrlSecret the controller must authenticate itself too. A controller that fails to, or that does not
	// support authentication, is refused.
	DHCHAPSecret     auth.Key
	DHCHAPCtrlSecret auth.Key
	authOptional     bool // accept a controller that requires no authentication

	// Timeout ends the connection if a command has no response for this long. The default is 30 s; negative means
	// never.
	Timeout time.Duration
	// BounceMemory is the size in bytes of each shard's buffers for data that is not in Buffers; default 16 MiB, limit
	// below 4 GiB. The operations on one namespace, on one I/O queue, use at most half of it, and never more than they
	// leave free for other namespaces.
	BounceMemory int
	// SharedKeys gives controllers the key of all registered memory. Otherwise each command has its own key, which is
	// invalidated when the command ends. Devices without memory windows always use shared keys.
	SharedKeys bool
	// Event is called for each asynchronous event, on a separate goroutine and one at a time; see [KindOf]. Events
	// receives them as well. If both are nil, no events are requested.
	Event  func(capsule.AsyncEvent)
	Events chan<- capsule.AsyncEvent
	// EventMask selects the events that the controller is to report, of those that it supports: capsule.EventSMART,
	// capsule.EventNamespaceAttribute and so on. The default is changes of namespaces, of ANA states and of the
	// discovery log.
	EventMask uint32
}

func (o *Options) addr() netip.AddrPort {
	port := o.Trsvcid
	if port == 0 {
		port = nvmeof.DefaultPort
	}
	return netip.AddrPortFrom(o.Traddr, port)
}

func (o *Options) queueSize() int {
	if o.QueueSize == 0 {
		return nvmeof.DefaultQueueDepth
	}
	return o.QueueSize
}

func (o *Options) queues(shards int) int {
	switch {
	case o.NrIOQueues < 0:
		return 0
	case o.NrIOQueues == 0:
		return shards
	}
	return o.NrIOQueues
}

// keepAlive returns KATO, or 0 for none.
func (o *Options) keepAlive() time.Duration {
	return durationOr(o.KeepAliveTmo, nvmeof.DefaultKeepAlive)
}

func (o *Options) timeout() time.Duration { return durationOr(o.Timeout, 30*time.Second) }

func durationOr(d, fallback time.Duration) time.Duration {
	switch {
	case d < 0:
		return 0
	case d == 0:
		return fallback
	}
	return d
}

func (o *Options) bounceMemory() int {
	if o.BounceMemory == 0 {
		return 16 << 20
	}
	return o.BounceMemory
}

func (o *Options) check() error {
	switch {
	case !o.Traddr.IsValid():
		return errors.New("host: Options.Traddr is missing")
	case o.NQN == "":
		return errors.New("host: Options.NQN is missing")
	case o.queueSize() < 2 || o.queueSize() > nvmeof.MaxQueueDepth:
		return fmt.Errorf("host: queue size %d: want 2 to %d", o.QueueSize, nvmeof.MaxQueueDepth)
	case o.NrIOQueues > nvmeof.MaxIOQueues:
		return fmt.Errorf("host: %d I/O queues: want at most %d", o.NrIOQueues, nvmeof.MaxIOQueues)
	case o.bounceMemory() < shard.MaxBuffer || int64(o.bounceMemory()) >= 4<<30:
		return fmt.Errorf("host: %d bytes of bounce memory: want 1 MiB to 4 GiB", o.BounceMemory)
	case o.DHCHAPSecret.IsZero() && !o.DHCHAPCtrlSecret.IsZero():
		return errors.New("host: Options.DHCHAPCtrlSecret needs a DHCHAPSecret too: only a host that authenticates can require the controller to")
	case o.KeepAliveTmo > 0 && o.KeepAliveTmo < time.Millisecond: // KATO is in ms, and 0 disables it
		return fmt.Errorf("host: Options.KeepAliveTmo is %v: want at least 1ms, or a negative value for none", o.KeepAliveTmo)
	case o.keepAlive().Milliseconds() > 1<<32-1:
		return fmt.Errorf("host: keep alive timeout %v is too long", o.KeepAliveTmo)
	}
	for _, n := range []nvmeof.NQN{o.NQN, o.HostNQN} {
		if n != "" {
			if _, err := nvmeof.AnyNQN(string(n)); err != nil {
				return fmt.Errorf("host: %w", err)
			}
		}
	}
	return nil
}
