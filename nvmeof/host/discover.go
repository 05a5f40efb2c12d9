package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A DiscoveryLog is the log of a discovery controller. Its text is unfiltered: see [capsule.Text] and
// [nvmeof.Printable].
type DiscoveryLog struct {
	Generation uint64
	Entries    []capsule.DiscoveryEntry
}

const (
	maxDiscoveryEntries  = 4096
	maxDiscoveryAttempts = 10
)

// Discover connects to the discovery controller at options.Traddr, reads its log and disconnects. An error of the
// disconnect does not affect the result.
func (h *Host) Discover(ctx context.Context, options Options) (*DiscoveryLog, error) {
	if options.KeepAliveTmo == 0 {
		options.KeepAliveTmo = -1 // the connection ends before a keep alive would be due
	}
	c, err := h.ConnectDiscovery(ctx, options)
	if err != nil {
		return nil, err
	}
	log, err := c.Logs().Discovery(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Disconnect(ctx))
	}
	_ = c.Disconnect(ctx) // the log is complete, whatever happens here
	return log, nil
}

// discoveryKeepAlive is the KATO of persistent discovery controllers.
const discoveryKeepAlive = 30 * time.Second

// ConnectDiscovery connects to the discovery controller at options.Traddr and stays connected; options.Event is called
// when its log changes. options.NQN defaults to the well-known discovery NQN, options.KeepAliveTmo to 30 s. No Keep
// Alive is sent to a controller that does not support it (KAS = 0).
func (h *Host) ConnectDiscovery(ctx context.Context, options Options) (*Controller, error) {
	if options.NQN == "" {
		options.NQN = nvmeof.DiscoveryNQN
	}
	if options.KeepAliveTmo == 0 {
		options.KeepAliveTmo = discoveryKeepAlive
	}
	options.NrIOQueues = -1
	options.authOptional = true // few discovery controllers authenticate, and what they report is checked at Connect
	return h.Connect(ctx, options)
}

// Discovery reads the log of a discovery controller, and reads it again if it changes meanwhile.
func (ls Logs) Discovery(ctx context.Context) (*DiscoveryLog, error) {
	for range maxDiscoveryAttempts {
		before, err := ls.discoveryHeader(ctx)
		if err != nil {
			return nil, err
		}
		log, err := ls.discoveryEntries(ctx, before)
		if err != nil {
			return nil, err
		}
		after, err := ls.discoveryHeader(ctx)
		if err != nil {
			return nil, err
		}
		if after.GENCTR == before.GENCTR {
			return log, nil
		}
	}
	return nil, fmt.Errorf("discovery log changed during each of %d attempts to read it", maxDiscoveryAttempts)
}

func (ls Logs) discoveryHeader(ctx context.Context) (capsule.DiscoveryHeader, error) {
	b := make([]byte, capsule.DiscoveryHeaderSize)
	if err := ls.Read(ctx, 0, capsule.GetLogPage{LID: capsule.LogDiscovery}, b); err != nil {
		return capsule.DiscoveryHeader{}, err
	}
	d, err := capsule.DecodeDiscoveryHeader(b)
	switch {
	case err != nil:
	case d.RECFMT != 0:
		err = fmt.Errorf("discovery log has record format %d, this host supports 0", d.RECFMT)
	case d.NUMREC > maxDiscoveryEntries:
		err = fmt.Errorf("discovery log has %d entries, this host accepts at most %d", d.NUMREC, maxDiscoveryEntries)
	}
	return d, err
}

func (ls Logs) discoveryEntries(ctx context.Context, d capsule.DiscoveryHeader) (*DiscoveryLog, error) {
	b := make([]byte, d.NUMREC*capsule.DiscoveryEntrySize)
	if err := ls.Read(ctx, 0, capsule.GetLogPage{LID: capsule.LogDiscovery, LPO: capsule.DiscoveryHeaderSize}, b); err != nil {
		return nil, err
	}
	log := &DiscoveryLog{Generation: d.GENCTR}
	for ; len(b) > 0; b = b[capsule.DiscoveryEntrySize:] {
		e, err := capsule.DecodeDiscoveryEntry(b)
		if err != nil {
			return nil, err
		}
		log.Entries = append(log.Entries, e)
	}
	return log, nil
}
