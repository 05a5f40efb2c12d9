package keeper

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// sockets is a front end that gives each disk an NBD server with a socket of its own,
// DIR/nvme0n1.sock. Who uses a disk that goes is sent away, and nothing of the disk is
// in use any more when Publish returns.
type sockets struct {
	dir     string
	polling nvmeof.Polling
	log     func(line string)

	publishing sync.Mutex // one at a time; before mu

	mu      sync.Mutex             // guards what follows; held for moments only
	servers map[string]*nbd.Server // by the disk's name
}

var _ connections.FrontEnd = (*sockets)(nil)

// Publish implements [connections.FrontEnd].
func (s *sockets) Publish(disks []nbd.Disk) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	gone := s.snapshot()
	var errs []error
	for _, d := range disks {
		delete(gone, d.Name)
		if err := s.publish(d); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Name, err))
		}
	}
	return errors.Join(append(errs, s.end(gone))...)
}

func (s *sockets) snapshot() map[string]*nbd.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.servers)
}

// publish makes a server for a disk, or reports to the one that is there how the disk is
// now.
func (s *sockets) publish(d nbd.Disk) error {
	all := s.snapshot()
	if server := all[d.Name]; server != nil {
		return server.Publish([]nbd.Disk{d})
	}
	server, err := nbd.Listen(nbd.Config{
		Socket: filepath.Join(s.dir, d.Name+".sock"), Polling: s.polling,
		Log: func(line string) { s.log(d.Name + ": " + line) },
	}, d)
	if err != nil {
		return err
	}
	processors.Need(len(all)+2, s.polling) // the servers' loops, and one of a host
	s.mu.Lock()
	s.servers[d.Name] = server
	s.mu.Unlock()
	s.log(fmt.Sprintf("%s: published at %s", d.Name, server.URI(d)))
	return nil
}

// end ends servers, all at a time, since each may have something to finish.
func (s *sockets) end(gone map[string]*nbd.Server) error {
	var wait sync.WaitGroup
	errs := make(chan error, len(gone))
	s.mu.Lock()
	for name, server := range gone {
		delete(s.servers, name)
		wait.Go(func() { // bounded by nbd.Config.Drain
			errs <- server.Close()
			s.log(fmt.Sprintf("%s: not published any more; %v", name, server.Stats()))
		})
	}
	s.mu.Unlock()
	wait.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// logCounters logs what clients did so far.
func (s *sockets) logCounters() {
	all := s.snapshot()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.log(fmt.Sprintf("%s: %v", name, all[name].Stats()))
	}
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
	s.publishing.Lock()
	defer s.publishing.Unlock()
	return s.end(s.snapshot())
}
