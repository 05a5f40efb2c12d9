package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A remoteDialer lets the process ask discovery controllers that has this host's
// address already. Nobody tells it of changes.
type remoteDialer struct {
	discovery.Dialer
	options func(at discovery.Endpoint) (map[string]string, error)
	owners  *owners // nil: it is asked once
}

// Dial implements [discovery.Dialer].
func (d *remoteDialer) Dial(ctx context.Context, at discovery.Endpoint, stay bool, notify func()) (discovery.Session, error) {
	s, err := d.Dialer.Dial(ctx, at, stay, notify)
	var inUse *softroce.InUseError
	if !errors.As(err, &inUse) {
		return s, err
	}
	owner, err := ownerOf(ctx, inUse)
	if err != nil {
		return nil, err
	}
	options, err := d.options(at)
	if err != nil {
		return nil, err
	}
	session := &remoteSession{owner: owner, options: options}
	if stay && d.owners != nil {
		session.done = d.owners.follow(owner)
	}
	return session, nil
}

type remoteSession struct {
	owner   *connections.Process
	options map[string]string
	done    <-chan struct{} // closed when the owner has ended
}

// Log implements [discovery.Session].
func (s *remoteSession) Log(ctx context.Context) (discovery.Log, error) {
	page, err := s.owner.Discover(ctx, s.options)
	if err != nil {
		return discovery.Log{}, err
	}
	return parseDiscovery(page)
}

func (s *remoteSession) Name() nvmeof.NQN      { return "" }
func (s *remoteSession) Notices() bool         { return false }
func (s *remoteSession) Done() <-chan struct{} { return s.done }
func (s *remoteSession) Err() error            { return errOwnerEnded }
func (s *remoteSession) Close() error          { return nil }

// parseDiscovery reads a discovery log page.
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
	return log, nil
}

// discoverForOthers reads the log of the controller of which options speak.
func discoverForOthers(ctx context.Context, all *hosts, options map[string]string) ([]byte, error) {
	s := &survey{hosts: all}
	at, err := s.add(&hostconfig.Entry{Discovery: true, File: "request", Options: options}, nil)
	if err != nil {
		return nil, err
	}
	session, err := s.local().Dial(ctx, at, false, nil)
	if err != nil {
		return nil, err
	}
	log, err := session.Log(ctx)
	if err = errors.Join(err, session.Close()); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = writeDiscovery(&host.DiscoveryLog{Generation: log.Generation, Entries: log.Entries}, &b)
	return b.Bytes(), err
}

// errOwnerEnded is why a connection ended that another process held.
var errOwnerEnded = errors.New("the process that held the connection has ended")

// ownerOf is the process that has an address. It may be about to say so.
func ownerOf(ctx context.Context, inUse *softroce.InUseError) (*connections.Process, error) {
	for range ownerTries {
		all, err := connections.All(ctx, runDir())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for i := range all {
			if slices.Contains(all[i].Addresses, inUse.Addr.String()) {
				return &all[i], nil
			}
		}
		if err != nil {
			return nil, errors.Join(inUse, err)
		}
		time.Sleep(ownerPause)
	}
	return nil, inUse
}

const (
	leaveOwner  = 10 * time.Second
	lookAtOwner = time.Second

	ownerTries = 10
	ownerPause = 100 * time.Millisecond
)

func has(p *connections.Process, controller string) bool {
	for _, s := range p.Subsystems {
		for _, c := range s.Controllers {
			if c.Name == controller {
				return true
			}
		}
	}
	return false
}
