package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A remoteDialer has discovery controllers read by the process that already uses this host's address. It does not
// receive notifications of changes.
type remoteDialer struct {
	discovery.Dialer
	options func(at discovery.Endpoint) (map[string]string, error)
	lenders *lending.Processes // nil: the log is read once
	warn    io.Writer          // receives a line if the controller does not answer

	mu    sync.Mutex // guards tried
	tried map[discovery.Endpoint]bool
}

// first reports whether a controller is dialed for the first time. Later attempts have an error that explains why they
// are repeated.
func (d *remoteDialer) first(at discovery.Endpoint) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.tried[at]
	d.tried[at] = true
	return !again
}

// Dial implements [discovery.Dialer].
func (d *remoteDialer) Dial(ctx context.Context, at discovery.Endpoint, stay bool, notify func()) (discovery.Session, error) {
	if d.first(at) {
		defer hosts.PrintSilence(d.warn, connections.Path{Options: host.Options{Traddr: at.Addr.Addr(), Trsvcid: at.Addr.Port()}})()
	}
	s, err := d.Dialer.Dial(ctx, at, stay, notify)
	var inUse *softroce.InUseError
	if !errors.As(err, &inUse) {
		return s, err
	}
	lender, err := lending.LenderOf(ctx, inUse)
	if err != nil {
		return nil, err
	}
	options, err := d.options(at)
	if err != nil {
		return nil, err
	}
	session := &remoteSession{lender: lender, options: options}
	if stay && d.lenders != nil {
		session.done = d.lenders.Follow(lender)
	}
	return session, nil
}

type remoteSession struct {
	lender  *connections.Process
	options map[string]string
	done    <-chan struct{} // closed when the lender has ended
}

// Log implements [discovery.Session].
func (s *remoteSession) Log(ctx context.Context) (discovery.Log, error) {
	page, err := s.lender.Discover(ctx, s.options)
	if err != nil {
		return discovery.Log{}, err
	}
	return parseDiscovery(page)
}

func (s *remoteSession) Name() nvmeof.NQN      { return "" }
func (s *remoteSession) Notices() bool         { return false }
func (s *remoteSession) Done() <-chan struct{} { return s.done }
func (s *remoteSession) Err() error            { return lending.ErrLenderEnded }
func (s *remoteSession) Close() error          { return nil }

// parseDiscovery parses a discovery log page.
func parseDiscovery(page []byte) (log discovery.Log, err error) {
	header, err := capsule.DecodeDiscoveryHeader(page)
	if err != nil {
		return log, err
	}
	log.Generation = header.GENCTR
	for page = page[min(len(page), capsule.DiscoveryHeaderSize):]; len(page) > 0; page = page[capsule.DiscoveryEntrySize:] {
		e, err := capsule.DecodeDiscoveryEntry(page)
		if err != nil {
			return log, err
		}
		log.Entries = append(log.Entries, e)
	}
	if n := len(log.Entries); uint64(n) != header.NUMREC {
		return log, fmt.Errorf("the discovery log announces %d records and has %d", header.NUMREC, n)
	}
	return log, nil
}

// ForOthers reads the log of the controller that the options select, for another process.
func ForOthers(ctx context.Context, all *hosts.Pool, options map[string]string) ([]byte, error) {
	s := &Survey{Hosts: all}
	at, err := s.add(&hostconfig.Entry{Discovery: true, File: "request", Options: options}, nil)
	if err != nil {
		return nil, err
	}
	session, err := s.local().Dial(ctx, at, false, nil)
	if err != nil {
		return nil, err
	}
	log, err := session.Log(ctx)
	_ = session.Close() // the log has been read, whatever error the end has
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = writeDiscovery(&host.DiscoveryLog{Generation: log.Generation, Entries: log.Entries}, &b)
	return b.Bytes(), err
}
