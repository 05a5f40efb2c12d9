package nbd

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// Config describes a server. Fields that are zero take their defaults.
type Config struct {
	Socket  string // required: path of the Unix socket
	Clients int    // maximum connections at a time; default 32
	// Default is the name of the disk for clients that name none; default: the first disk that is published. It does
	// not change, so that clients that reconnect find the same disk, or none.
	Default string

	Polling nvmeof.Polling // when an idle loop sleeps
	Spin    time.Duration  // PollAdaptive: minimum time that a loop without work polls; default 50 µs

	// Handshake is how long the handshake of a client may take; default 10 s.
	Handshake time.Duration
	// Drain is how long Close waits for requests in flight; default 5 s.
	Drain time.Duration
	// Overdue is called by Close, at most once, if stores have had requests for longer than Drain. It should make the
	// stores end them, for example by disconnecting: Close returns when they have. If it is nil, Close waits without
	// limit.
	Overdue func()
	// Log is called with a line of text for each event worth logging, such as a client that was disconnected; it may be
	// nil. It runs in the loop, so it must not block for long.
	Log func(string)

	look time.Duration // interval of checks whether the socket's file exists; default 1 s
}

func (c *Config) clients() int {
	if c.Clients > 0 {
		return c.Clients
	}
	return 32
}

// gone returns how many clients of a disk may have gone without all their requests having ended.
func (c *Config) gone() int { return max(1, c.clients()/4) }

func or(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}

func (c *Config) lookInterval() time.Duration { return or(c.look, time.Second) }

func (c *Config) spin() time.Duration      { return or(c.Spin, 50*time.Microsecond) }
func (c *Config) handshake() time.Duration { return or(c.Handshake, 10*time.Second) }
func (c *Config) drain() time.Duration     { return or(c.Drain, 5*time.Second) }

// A Server exports disks. Its methods may be called from any goroutine.
type Server struct {
	cfg         Config
	listener    listener
	exports     atomic.Pointer[[]*export]
	defaultName atomic.Pointer[string] // name of the default disk; nil: not known yet
	counters    counters
	wake        *shard.Event // wakes the loop
	closing     atomic.Bool
	ended       chan struct{} // closed when the loop has ended
	renewed     atomic.Pointer[renewal]
	socketKept  chan struct{} // closed when keepSocket has ended
	err         error         // result of Close
	once        sync.Once
}

// Listen starts a server that exports disks, as [Server.Publish] does, before its first client can connect. It replaces
// a socket that another server has left behind; if a server still listens on it, it returns an error.
func Listen(cfg Config, disks ...Disk) (*Server, error) {
	if cfg.Socket == "" {
		return nil, errors.New("nbd: Config.Socket is missing")
	}
	wake, err := shard.NewEvent()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, wake: wake, ended: make(chan struct{}), socketKept: make(chan struct{})}
	if cfg.Default != "" {
		s.defaultName.Store(&cfg.Default)
	}
	if err := s.Publish(disks); err != nil {
		return nil, errors.Join(err, wake.Close())
	}
	if s.listener.Socket, err = socketfile.Listen(cfg.Socket); err != nil {
		return nil, errors.Join(err, wake.Close())
	}
	l, err := newLoop(s)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close(), wake.Close())
	}
	go l.run()                         // ends in Close
	go s.keepSocket(s.listener.Socket) // likewise
	return s, nil
}

// Publish replaces the exports. Clients of a disk that is no longer included continue to use it; its store may be
// closed when it fails.
func (s *Server) Publish(disks []Disk) error {
	all := make([]*export, 0, len(disks))
	names := map[string]bool{}
	for _, d := range disks {
		e, err := newExport(d)
		if err != nil {
			return fmt.Errorf("disk %s: %w", d.Name, err)
		}
		if names[d.Name] {
			return fmt.Errorf("two disks are called %q", d.Name)
		}
		names[d.Name] = true
		all = append(all, e)
	}
	if len(disks) > 0 {
		s.defaultName.CompareAndSwap(nil, &disks[0].Name)
	}
	s.exports.Store(&all)
	return nil
}

// URI returns the NBD URI (doc/uri.md of the NBD project) of a published disk, with its Alias if it has one.
func (s *Server) URI(d Disk) string { return uri(s.cfg.Socket, d.stableName()) }

// Usage returns example commands to use a disk, one per line.
func (s *Server) Usage(d Disk) []string {
	at, socket := s.URI(d), shell.Quote(s.cfg.Socket)
	return []string{
		"fio --name=t --ioengine=nbd --uri='" + at + "' --rw=randread --bs=4k --iodepth=32 --runtime=5 --time_based",
		"qemu-img info '" + at + "'",
		"qemu-system-x86_64 -drive 'file=" + at + ",format=raw,if=virtio,discard=unmap'",
		fmt.Sprintf("modprobe nbd; nbd-client -unix %s -N %s /dev/nbd0    # as root; ends with nbd-client -d /dev/nbd0", socket, d.stableName()),
	}
}

// Close ends the server. It accepts no more clients, completes and answers the requests that were read, and flushes the
// disks; it returns the errors of the flushes. If a store does not complete requests within Config.Drain, it waits for
// them without answering; see Config.Overdue.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.closing.Store(true)
		s.wake.Set()
		<-s.ended
		<-s.socketKept
		s.err = errors.Join(s.err, s.wake.Close())
	})
	return s.err
}

// find returns an export by name, or nil; "" is the default one.
func (s *Server) find(name string) *export {
	if byDefault := s.defaultName.Load(); name == "" && byDefault != nil {
		name = *byDefault
	}
	all := *s.exports.Load()
	i := slices.IndexFunc(all, func(e *export) bool { return e.disk.Name == name })
	if i < 0 && name != "" {
		i = slices.IndexFunc(all, func(e *export) bool { return e.disk.Alias == name })
	}
	if i < 0 {
		return nil
	}
	return all[i]
}

// An export is a disk as seen by clients. It is immutable.
type export struct {
	disk   Disk
	block  int // bytes of a logical block
	about  wire.Export
	memory int // bytes of memory for a client's data
}

// now returns the properties for clients, with the current size of the disk.
func (e *export) now() wire.Export {
	about := e.about
	about.Size = uint64(e.disk.Store.Info().Size)
	return about
}

// maxRequest is the maximum length of a request's data: what clients may expect of a server that states no maximum, and
// what Linux and qemu use at most.
const maxRequest = 32 << 20

func newExport(d Disk) (*export, error) {
	if d.Store == nil {
		return nil, errors.New("Disk.Store is missing")
	}
	info := d.Store.Info()
	if info.BlockSize < 512 || info.BlockSize > 64<<10 || info.BlockSize&(info.BlockSize-1) != 0 {
		return nil, fmt.Errorf("blocks of %d bytes", info.BlockSize)
	}
	e := &export{disk: d, block: info.BlockSize}
	span := max(info.BlockSize, pageSize)
	e.memory = maxRequest + 4*span
	flags := wire.HasFlags | wire.SendFlush | wire.SendFUA | wire.SendDF
	// A flush on one queue of the store covers what was acknowledged on any other.
	flags |= wire.CanMultiConn
	if info.ReadOnly {
		flags |= wire.ReadOnly
	} else {
		// Write Zeroes of a store transfers no data. If the store does not support it, requests with FAST_ZERO fail.
		flags |= wire.SendWriteZeroes | wire.SendFastZero
		if info.Deallocate {
			flags |= wire.SendTrim
		}
	}
	preferred := max(info.BlockSize, pageSize)
	if o := info.Optimal; o > preferred && o <= maxRequest && o&(o-1) == 0 {
		preferred = o
	}
	e.about = wire.Export{
		Name: d.Name, Description: d.Description, Size: uint64(info.Size), Flags: flags,
		MinBlock: uint32(info.BlockSize), PreferredBlock: uint32(preferred), MaxBlock: maxRequest,
	}
	return e, nil
}
