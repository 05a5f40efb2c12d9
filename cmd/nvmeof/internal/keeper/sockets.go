package keeper

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// sockets is a front end that gives each disk an NBD server with a socket of its own, DIR/nvme0n1.sock. Clients of a
// disk that is removed are disconnected.
type sockets struct {
	dir     string
	polling nvmeof.Polling
	log     func(line string)
	drain   time.Duration // nbd.Config.Drain

	leave chan struct{} // closed by Close, before it waits
	left  sync.Once     // closes leave

	publishing sync.Mutex // held by Publish and Close; acquired before mu; guards closing
	closing    []*server  // servers that Close ends; nil: Close was not called

	mu      sync.Mutex         // guards the fields below; held only briefly
	servers map[string]*server // by the disk's name
	ending  map[*server]string // servers being ended, with the disk's name
	past    nbd.Stats          // sum of the servers that have ended
}

// A server is the NBD server of one disk.
type server struct {
	*nbd.Server
	name    string            // of the disk
	say     func(line string) // of connections.Disk
	overdue chan struct{}     // closed when the server is being ended and the disk does not answer
	ended   chan struct{}     // closed when the server has ended, with the result in err
	err     error
}

var _ connections.FrontEnd = (*sockets)(nil)

// Publish implements [connections.FrontEnd].
func (s *sockets) Publish(disks []connections.Disk) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	gone := s.snapshot()
	for _, d := range disks {
		delete(gone, d.Name)
	}
	s.end(gone, true)
	for _, d := range disks {
		if err := s.publish(d); err != nil {
			d.Say(fmt.Sprintf("publishing %s: %v", d.Name, err))
		}
	}
}

// End implements [connections.FrontEnd].
func (s *sockets) End(disks []string) error {
	ending := s.snapshot()
	maps.DeleteFunc(ending, func(name string, _ *server) bool { return !slices.Contains(disks, name) })
	var errs []error
	for _, x := range s.end(ending, true) {
		if !x.over() {
			errs = append(errs, fmt.Errorf("%s: %w", x.name, errUnfinished))
		} else if x.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.name, x.err))
		}
	}
	return errors.Join(errs...)
}

// errUnfinished is returned when a disk does not answer: its clients get no more answers.
var errUnfinished = errors.New("requests of its clients were not completed in time")

// Gone implements [connections.FrontEnd].
func (s *sockets) Gone(disks []string) {
	for _, x := range s.leaving(func(name string) bool { return slices.Contains(disks, name) }) {
		<-x.ended
	}
}

// leaving returns the servers of the selected disks that are being ended.
func (s *sockets) leaving(of func(name string) bool) (all []*server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x, name := range s.ending {
		if of(name) {
			all = append(all, x)
		}
	}
	return all
}

func (s *sockets) snapshot() map[string]*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.servers)
}

var errLeaving = errors.New("not published: all disks are being withdrawn")

// publish starts a server for a disk, or updates the disk of the existing server.
func (s *sockets) publish(d connections.Disk) error {
	all := s.snapshot()
	if server := all[d.Name]; server != nil {
		return server.Publish([]nbd.Disk{d.Disk})
	}
	for _, before := range s.leaving(func(name string) bool { return name == d.Name }) { // it still has the socket's name
		select {
		case <-before.ended:
		case <-s.leave: // which unblocks the previous server
			return errLeaving
		}
	}
	x := &server{name: d.Name, say: d.Say, overdue: make(chan struct{}), ended: make(chan struct{})}
	var err error
	x.Server, err = nbd.Listen(nbd.Config{
		Socket: filepath.Join(s.dir, d.Name+".sock"), Polling: s.polling, Drain: s.drain,
		Log:     func(line string) { d.Say(d.Name + ": " + line) },
		Overdue: func() { close(x.overdue) },
	}, d.Disk)
	if err != nil {
		return err
	}
	processors.Need(len(all)+2, s.polling) // the servers' loops, and one of a host
	s.mu.Lock()
	s.servers[d.Name] = x
	s.mu.Unlock()
	d.Say(fmt.Sprintf("%s: published at %s", d.Name, x.URI(d.Disk)))
	return nil
}

// end starts to end servers, all at once, since each may have requests to finish. With say, it also prints the errors,
// which otherwise the caller reports.
func (s *sockets) end(gone map[string]*server, say bool) (ending []*server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, x := range gone {
		delete(s.servers, name)
		if s.ending == nil {
			s.ending = map[*server]string{}
		}
		s.ending[x] = name
		ending = append(ending, x)
		go func() { // ends with the last request that a disk has, at the latest with the subsystem
			if x.err = x.Server.Close(); x.err != nil && say {
				x.say(fmt.Sprintf("%s: %v", name, x.err))
			}
			x.say(fmt.Sprintf("%s: no longer published; %v", name, x.Stats()))
			s.mu.Lock()
			delete(s.ending, x)
			s.past.Add(x.Stats())
			s.mu.Unlock()
			close(x.ended)
		}()
	}
	return ending
}

// logCounters logs the statistics of each disk's clients.
func (s *sockets) logCounters() {
	all := s.snapshot()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.log(fmt.Sprintf("%s: %v", name, all[name].Stats()))
	}
}

// stats returns the sum of the statistics of all disks' clients.
func (s *sockets) stats() nbd.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.past
	for _, x := range s.servers {
		sum.Add(x.Stats())
	}
	for x := range s.ending {
		sum.Add(x.Stats())
	}
	return sum
}

// URI implements [connections.FrontEnd].
func (s *sockets) URI(d nbd.Disk) string {
	if server := s.snapshot()[d.Name]; server != nil {
		return server.URI(d)
	}
	return ""
}

// Close implements [connections.FrontEnd].
func (s *sockets) Close() error {
	s.left.Do(func() { close(s.leave) })
	s.publishing.Lock()
	defer s.publishing.Unlock()
	again := s.closing != nil
	if !again {
		s.closing = s.leaving(func(string) bool { return true })
	}
	s.closing = append(s.closing, s.end(s.snapshot(), false)...)
	var errs []error
	left := []*server{}
	for _, x := range s.closing {
		if !again && !x.over() {
			left = append(left, x)
			continue
		}
		<-x.ended
		errs = append(errs, x.err)
	}
	s.closing = left
	return errors.Join(errs...)
}

// over waits until a server has ended (true) or is overdue (false).
func (x *server) over() bool {
	select {
	case <-x.ended:
		return true
	case <-x.overdue:
		return false
	}
}
