package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

const (
	directoryPrefix = "directory/"
	// directoryVersion is the version of the lists.
	directoryVersion = 1
	// directoryEvery is the interval at which a gateway updates the list of its controllers.
	directoryEvery = time.Second
	// maxDirectory is the greatest size of a gateway's list, in bytes.
	maxDirectory = state.MaxValue / 2
)

// A directory lists the controllers of hosts at the other gateways, for Reservation Report.
type directory struct {
	gateway *Gateway
	stale   chan struct{} // signals that another gateway has come or ended since the lists were read
	others  atomic.Pointer[map[hostAt][]capsule.ControllerID]
}

// A hostAt is a host in a subsystem.
type hostAt struct {
	nqn  nvmeof.NQN
	host capsule.HostID
}

// A controllerList is the list of a gateway in the store: identifiers of controllers, by subsystem and host.
type controllerList struct {
	Version     int                                              `json:"version"`
	Controllers map[nvmeof.NQN]map[string][]capsule.ControllerID `json:"controllers"`
}

// of returns the controllers of a host. It is the Directory of [target.Gateway].
func (d *directory) of(nqn nvmeof.NQN, host capsule.HostID) []capsule.ControllerID {
	all := d.others.Load()
	if all == nil {
		return nil
	}
	return append([]capsule.ControllerID(nil), (*all)[hostAt{nqn, host}]...)
}

// run writes the list of this gateway, and reads those of others, until ctx ends; then it removes its own.
// It writes only while wanted reports that the group has reservations.
func (d *directory) run(ctx context.Context, wanted func() bool) {
	go func() { // ends with ctx
		_ = d.gateway.store.Watch(ctx, directoryPrefix, func() { d.read(ctx) })
	}()
	key, tick, put, tooLong := directoryPrefix+d.gateway.name, time.NewTicker(directoryEvery), []byte(nil), false
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if put != nil {
				last, cancel := context.WithTimeout(context.Background(), directoryEvery)
				defer cancel()
				_, _ = d.gateway.store.Txn(last, state.Txn{Then: []state.Op{{Key: key, Delete: true}}}) // if it stays, others ignore it when the gateway has ended
			}
			return
		case <-d.stale:
			d.read(ctx)
			continue
		case <-tick.C:
		}
		if !wanted() {
			continue
		}
		now := listControllers(d.gateway.target.Controllers())
		if long := len(now) > maxDirectory; long {
			if !tooLong {
				d.gateway.cfg.Log.Warn("too many controllers for the group's store: reservation reports at other gateways do not list the controllers of this one", zap.Int("bytes", len(now)))
			}
			tooLong = long
			continue
		}
		if tooLong = false; bytes.Equal(now, put) {
			continue
		}
		if _, err := d.gateway.store.Txn(ctx, state.Txn{Then: []state.Op{{Key: key, Value: now}}}); err == nil {
			put = now
		}
	}
}

// outdated makes run read the lists again.
func (d *directory) outdated() {
	select {
	case d.stale <- struct{}{}:
	default:
	}
}

// listControllers encodes a gateway's list. Equal lists have equal bytes.
func listControllers(all []target.ControllerInfo) []byte {
	l := controllerList{Version: directoryVersion, Controllers: map[nvmeof.NQN]map[string][]capsule.ControllerID{}}
	for i := range all {
		c := &all[i]
		if c.Discovery {
			continue
		}
		if l.Controllers[c.Subsystem] == nil {
			l.Controllers[c.Subsystem] = map[string][]capsule.ControllerID{}
		}
		host := hex.EncodeToString(c.HostID[:])
		l.Controllers[c.Subsystem][host] = append(l.Controllers[c.Subsystem][host], c.ID)
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// read reads the lists of the other gateways that have not ended.
func (d *directory) read(ctx context.Context) {
	all, err := d.gateway.store.Get(ctx, directoryPrefix)
	if err != nil {
		return // the lists that were read before stay
	}
	others := map[hostAt][]capsule.ControllerID{}
	for _, e := range all.Entries {
		name := strings.TrimPrefix(e.Key, directoryPrefix)
		if name == d.gateway.name || d.gateway.isGone(name) {
			continue
		}
		var l controllerList
		if json.Unmarshal(e.Value, &l) != nil || l.Version != directoryVersion {
			continue // damaged, or of a later version
		}
		for nqn, hosts := range l.Controllers {
			for text, ids := range hosts {
				var host capsule.HostID
				if b, err := hex.DecodeString(text); err == nil && copy(host[:], b) == len(host) {
					at := hostAt{nqn, host}
					others[at] = append(others[at], ids...)
				}
			}
		}
	}
	d.others.Store(&others)
}

// isGone reports whether a gateway has ended, or is not registered.
func (g *Gateway) isGone(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	state, known := g.states[name]
	return !known || state == "ended"
}
