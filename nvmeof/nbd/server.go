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

// Config describes a server. A zero field takes the default.
type Config struct {
	Socket  string // required: path of the unix socket
	Clients int    // connections at a time; default 32
	// Default is the name of the disk for clients that name none; default: that of the first
	// disk that is published. It does not change: those who come back find the disk that they had, or none.
	Default string

	Polling nvmeof.Polling // when an idle loop sleeps
	Spin    time.Duration  // PollAdaptive: how long a loop without work polls at least; default 50 µs

	// Handshake is how long a client may take for it; default 10 s.
	Handshake time.Duration
	// Drain is how long Close waits for what is in flight; default 5 s.
	Drain time.Duration
	// Overdue is called in Close, at most once, where stores have requests for longer than
	// Drain. It is to have them end those, as by disconnecting them: Close returns when they
	// have. nil: it waits for as long as that takes.
	Overdue func()
	// Log is told, in a line, of clients that were sent away; nil: nobody is. It is
	// called by the loop, so that it must not block for long.
	Log func(string)

	look time.Duration // between looks whether the file of the socket is there; default 1 s
}

func (c *Config) clients() int {
	if c.Clients > 0 {
		return c.Clients
	}
	return 32
}

// gone is how many clients of a disk may have gone whose requests it has not finished.
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

// A Server publishes disks. Its methods may be called from any goroutine.
type Server struct {
	cfg      Config
	listener listener
	exports  atomic.Pointer[[]*export]
	usual    atomic.Pointer[string] // the name of the default disk; nil: not known yet
	counters counters
	wake     *shard.Event // ends the loop's sleep
	closing  atomic.Bool
	ended    chan struct{} // the loop is over
	renewed  atomic.Pointer[renewal]
	stayed   chan struct{} // nobody looks after the socket's file any more
	err      error         // of its end
	once     sync.Once
}

// Listen starts a server of disks, as [Server.Publish] has them: its first client finds
// them. A socket that its server left behind is replaced; of one that is served it says
// so.
func Listen(cfg Config, disks ...Disk) (*Server, error) {
	if cfg.Socket == "" {
		return nil, errors.New("nbd: Config.Socket is missing")
	}
	wake, err := shard.NewEvent()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, wake: wake, ended: make(chan struct{}), stayed: make(chan struct{})}
	if cfg.Default != "" {
		s.usual.Store(&cfg.Default)
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
	go l.run()                   // ends in Close
	go s.stay(s.listener.Socket) // likewise
	return s, nil
}

// Publish replaces what is published. Who uses a disk
// that is not among them goes on with it as it was; its store may be closed once it fails.
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
		s.usual.CompareAndSwap(nil, &disks[0].Name)
	}
	s.exports.Store(&all)
	return nil
}

// URI is where a published disk is, as the NBD project's doc/uri.md has it, by its Alias if it has one.
func (s *Server) URI(d Disk) string { return uri(s.cfg.Socket, d.lasting()) }

// Usage is what to type to use a disk, a line each.
func (s *Server) Usage(d Disk) []string {
	at, socket := s.URI(d), shell.Quote(s.cfg.Socket)
	return []string{
		"fio --name=t --ioengine=nbd --uri='" + at + "' --rw=randread --bs=4k --iodepth=32 --runtime=5 --time_based",
		"qemu-img info '" + at + "'",
		"qemu-system-x86_64 -drive 'file=" + at + ",format=raw,if=virtio,discard=unmap'",
		fmt.Sprintf("modprobe nbd; nbd-client -unix %s -N %s /dev/nbd0    # as root; ends with nbd-client -d /dev/nbd0", socket, d.lasting()),
	}
}

// Close ends the server: no client is accepted any more, requests that
// were read are finished and answered, the disks flushed, of which it returns what has failed. Those that a store does not finish in
// Config.Drain are waited for without answers; see Config.Overdue.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.closing.Store(true)
		s.wake.Set()
		<-s.ended
		<-s.stayed
		s.err = errors.Join(s.err, s.wake.Close())
	})
	return s.err
}

// find looks for an export; "" is the default one.
func (s *Server) find(name string) *export {
	if usual := s.usual.Load(); name == "" && usual != nil {
		name = *usual
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

// An export is a disk as clients see it. It does not change.
type export struct {
	disk   Disk
	block  int // bytes of a logical block
	about  wire.Export
	memory int // bytes for a client's data
}

// now is what clients are told of it, with the size that the disk has now.
func (e *export) now() wire.Export {
	about := e.about
	about.Size = uint64(e.disk.Store.Info().Size)
	return about
}

// maxRequest is the most that a request moves: what clients may expect of a server
// that does not say, and what Linux and qemu ask for at most.
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
	// A flush covers what was acknowledged on whatever queue of the store.
	flags |= wire.CanMultiConn
	if info.ReadOnly {
		flags |= wire.ReadOnly
	} else {
		// Write Zeroes of a store moves no data; where there is none, it is not fast
		// and says so.
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
