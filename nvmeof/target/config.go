package target

import (
	"cmp"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Config describes a target. A zero field takes the default.
type Config struct {
	// Device is the first device; the default is none, and Target.AddDevice adds all of them. The caller closes
	// it, after the target.
	Device rdmatransport.Device
	// Log receives a line for each event of a connection, and none for commands; default: no log.
	Log *zap.Logger

	// Events receives the events of hosts, stores, namespaces and listeners; the target does not close it. Default: an
	// in-memory log of the target's own.
	Events *events.Log

	Shards  int            // loops of each device, each on a thread of its own; default 1; limit: the device's
	Polling nvmeof.Polling // when an idle loop blocks
	Spin    time.Duration  // the minimum time for which an idle loop polls under PollAdaptive; default 50 µs
	Arena   int            // bytes of data buffers per shard; default 64 MiB

	MaxQueues      int // I/O queues of a controller; default 128
	QueueDepth     int // entries of an I/O queue; default 128, 2 to 1024
	InCapsule      int // bytes of data in a capsule; default 4096; negative: the minimum, which Connect needs
	MaxData        int // bytes of one command's data (MDTS), a power of two; default and limit 1 MiB
	MaxControllers int // of each subsystem; default 1024
	// Controllers is the range of controller identifiers of all subsystems and of the discovery service. A
	// subsystem with a range of its own uses the intersection. Targets that serve the same subsystems need
	// disjoint ranges.
	Controllers ControllerRange
	// MaxHostControllers limits how many controllers of a subsystem one host (an NQN and a host identifier) has,
	// and how many of the discovery service one address has; default 128, or MaxControllers if that is less.
	MaxHostControllers int
	// QueueMemory is how many bytes all queues together may take: about 1 MiB each with the default QueueDepth and
	// InCapsule, half of it buffers. Default 2 GiB. An address, or a host that has authenticated, has no more than
	// it leaves free. The last eighth is for addresses from which hosts are connected, or were within the last hour.
	QueueMemory int64
	// MaxSilent limits the connections without a Connect command, or without the authentication that has to follow
	// it, of hosts that are not connected and were not within the last hour. An address (of IPv6 its first 64
	// bits) has half of them at most, and all together use a quarter of QueueMemory. A further connection
	// displaces the oldest of the address that has the most; if that is its own address, only one that has lasted
	// a second. Default 512. For hosts that are or were connected the limit is 8 times as high, or one for each
	// 64 KiB of QueueMemory if that is more.
	MaxSilent int
	// ConnectTimeout is how long a connection may exist without a Connect command; default 10 s.
	ConnectTimeout time.Duration
	// AuthTimeout is how long authentication may take, from Connect or, on a queue in use, from its first message.
	// It allows for hosts that compute slowly. Default 60 s.
	AuthTimeout time.Duration
	// SharedReceives is how many receives, each with its capsule buffer, all I/O queues of a shard share; default
	// 0: each queue has one for each of its entries. Sharing saves memory if a shard has more queue entries than
	// that. When none is left, every host on the shard has to retransmit after a delay (RNR NAK), which costs a
	// Linux host on rdma_rxe its controller; hence it is not the default.
	SharedReceives int
	// Unmeasured disables the counting of commands and their times for Target.Measure, to measure what the
	// counting costs.
	Unmeasured bool

	BackendDepth int // operations of one shard in flight to one namespace; default 256

	// Revalidate is the interval at which the size, free space and state of stores are read; default 1 s;
	// negative: never, and Target.Revalidate reads sizes.
	Revalidate time.Duration
	// Gateway makes the target one of several that serve the same subsystems, and says which ANA groups it serves.
	// Default: it serves all.
	Gateway *Gateway

	// DiscoveryNQN is another name of the discovery subsystem, in addition to the well-known one; default: none.
	DiscoveryNQN nvmeof.NQN

	Firmware  string // revision, at most 8 ASCII characters; default "1.0"
	PlainSend bool   // never invalidate a host's R_Key, even if the host requests it

	// Boot identifies the boot of the machine. Writes that were not flushed may be lost when it changes: hosts
	// learn of that (see [capsule.WriteVerifier]) if the subsystem has a State. Default: the contents of
	// /proc/sys/kernel/random/boot_id.
	Boot string
}

// ownEvents is how many events a target keeps if Config.Events is nil.
const ownEvents = 256

const (
	defaultInCapsule = 4096
	minInCapsule     = 1024 // Connect data, on every queue
	maxInCapsule     = 64 << 10
	minMaxData       = 4096
)

// orDefault returns n, or fallback if n is zero.
func orDefault[T int | int64 | time.Duration](n, fallback T) T {
	if n == 0 {
		return fallback
	}
	return n
}

// complete sets defaults and checks the configuration.
func (c Config) complete() (Config, error) {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Events == nil {
		c.Events = events.New(events.Config{Entries: ownEvents})
	}
	c.Shards = orDefault(c.Shards, 1)
	c.MaxQueues = orDefault(c.MaxQueues, 128)
	c.QueueDepth = orDefault(c.QueueDepth, 128)
	c.MaxData = orDefault(c.MaxData, shard.MaxBuffer)
	c.MaxControllers = orDefault(c.MaxControllers, 1024)
	c.MaxHostControllers = orDefault(c.MaxHostControllers, min(128, c.MaxControllers))
	c.QueueMemory = orDefault(c.QueueMemory, 2<<30)
	c.MaxSilent = orDefault(c.MaxSilent, maxSilent)
	c.Controllers = cmp.Or(c.Controllers, ControllerRange{capsule.ControllerIDMin, capsule.ControllerIDMax})
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 10*time.Second)
	c.AuthTimeout = orDefault(c.AuthTimeout, 60*time.Second)
	c.BackendDepth = orDefault(c.BackendDepth, 256)
	c.Revalidate = orDefault(c.Revalidate, time.Second)
	if c.InCapsule = orDefault(c.InCapsule, defaultInCapsule); c.InCapsule < minInCapsule {
		c.InCapsule = minInCapsule
	}
	if c.Firmware == "" {
		c.Firmware = "1.0"
	}
	if c.Boot == "" {
		b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // if it cannot be read, hosts are not told of restarts
		c.Boot = strings.TrimSpace(string(b))
	}
	return c, c.check()
}

func (c *Config) check() error {
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{
		{"Shards", int64(c.Shards), 1}, {"Spin", int64(c.Spin), 0}, {"Arena", int64(c.Arena), 0},
		{"MaxControllers", int64(c.MaxControllers), 1}, {"MaxHostControllers", int64(c.MaxHostControllers), 1},
		{"QueueMemory", c.QueueMemory, 1}, {"BackendDepth", int64(c.BackendDepth), 1}, {"MaxSilent", int64(c.MaxSilent), 2},
		{"ConnectTimeout", int64(c.ConnectTimeout), 0}, {"AuthTimeout", int64(c.AuthTimeout), 0}, {"SharedReceives", int64(c.SharedReceives), 0},
	} {
		if n.value < n.least {
			return fmt.Errorf("target: Config.%s is %d: want at least %d", n.name, n.value, n.least)
		}
	}
	switch {
	case c.MaxQueues < 1 || c.MaxQueues > 65534:
		return fmt.Errorf("target: Config.MaxQueues is %d: want 1 to 65534", c.MaxQueues)
	case c.QueueDepth < 2 || c.QueueDepth > 1024:
		return fmt.Errorf("target: Config.QueueDepth is %d: want 2 to 1024", c.QueueDepth)
	case c.InCapsule%16 != 0 || c.InCapsule > maxInCapsule:
		return fmt.Errorf("target: Config.InCapsule is %d bytes: want a multiple of 16 up to %d", c.InCapsule, maxInCapsule)
	case c.MaxData < minMaxData || c.MaxData > shard.MaxBuffer || bits.OnesCount(uint(c.MaxData)) != 1:
		return fmt.Errorf("target: Config.MaxData is %d bytes: want a power of two from %d to %d", c.MaxData, minMaxData, shard.MaxBuffer)
	case !c.Controllers.valid():
		return fmt.Errorf("target: Config.Controllers is %v: want a range within %d..%d", c.Controllers, capsule.ControllerIDMin, capsule.ControllerIDMax)
	case len(c.Firmware) > 8:
		return fmt.Errorf("target: Config.Firmware is %q: want at most 8 characters", c.Firmware)
	}
	return nil
}

// checkDevice checks the configuration against the limits of the device.
func (c *Config) checkDevice(a *rdmatransport.Attrs) error {
	switch {
	case c.Shards < 1 || c.Shards > a.Shards:
		return fmt.Errorf("target: %d shards: the device supports 1 to %d", c.Shards, a.Shards)
	case c.SharedReceives < 0 || c.SharedReceives > a.MaxShared:
		return fmt.Errorf("target: %d shared receives: %s supports 0 to %d", c.SharedReceives, a.Name, a.MaxShared)
	}
	return nil
}

// limits returns the limits for connection requests.
func (c *Config) limits() fabric.Limits {
	return fabric.Limits{IOQueues: c.MaxQueues, AdminDepth: discoverylog.AdminDepth, IODepth: c.QueueDepth}
}
