package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// scanInterval is how often a wildcard looks for addresses that have come.
const scanInterval = 2 * time.Second

// A wildcard is --listen 0.0.0.0 or [::]: every address of that family that other
// machines can reach, as they come. Those of one RDMA device share a device; of the
// others each is a softroce device.
type wildcard struct {
	*service
	at     netip.AddrPort
	served map[netip.Addr]bool   // in a place of ours
	rdma   map[netip.Addr]bool   // belongs to an RDMA device, which may be away
	failed map[netip.Addr]string // why it could not be, as logged
	ended  chan outcomeOf        // of places
}

// An outcomeOf says how a place ended.
type outcomeOf struct {
	place
	err error
}

// serveAll serves at all addresses that a wildcard stands for.
func (s *service) serveAll(ctx context.Context, at netip.AddrPort, settled func()) error {
	w := &wildcard{s, at, map[netip.Addr]bool{}, map[netip.Addr]bool{}, map[netip.Addr]string{}, make(chan outcomeOf)}
	up := make(chan struct{}, 1)
	running := w.start(ctx, up)
	if running == 0 {
		s.log.Warn("no address to serve at yet: waiting for one", zap.Stringer("address", at))
		settled()
	}
	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	done := ctx.Done()
	for running > 0 || done != nil {
		select {
		case <-up:
			settled()
		case o := <-w.ended:
			running--
			w.note(o)
			settled()
		case <-tick.C:
			if done != nil {
				running += w.start(ctx, up)
			}
		case <-done:
			done = nil
		}
	}
	return nil
}

// start begins to serve at addresses that are new, and reports at how many places.
func (w *wildcard) start(ctx context.Context, up chan struct{}) (n int) {
	found, err := w.scan(machineAddresses, verbs.Owner)
	if err != nil {
		w.log.Warn("looking for addresses failed", zap.Error(err))
	}
	for _, p := range found {
		if w.failed[p.addrs[0].Addr()] == "" { // else it is known
			w.log.Info("transport", zap.String("name", p.transport), zap.String("why", p.why), zap.Stringer("address", p.addrs[0]))
		}
		for _, a := range p.addrs {
			w.served[a.Addr()] = true
		}
		n++
		w.places.Go(func() { // ends with ctx at the latest
			err := w.serve(ctx, p, func() {
				select {
				case up <- struct{}{}:
				default:
				}
			})
			w.ended <- outcomeOf{p, err}
		})
	}
	return n
}

// note logs why a place ended, once for each reason, and leaves it to the next scan.
func (w *wildcard) note(o outcomeOf) {
	for _, a := range o.addrs {
		delete(w.served, a.Addr())
		if o.err != nil && w.failed[a.Addr()] != o.err.Error() {
			w.failed[a.Addr()] = o.err.Error()
			w.log.Warn("not serving here: trying again until it works", zap.Stringer("address", a), zap.Error(o.err))
		}
	}
}

// scan groups the addresses that are not served yet into places.
func (w *wildcard) scan(all func() ([]netip.Addr, error), owner func(netip.Addr) (string, error)) ([]place, error) {
	addrs, err := all()
	var places []place
	byDevice := map[string]int{}
	for _, a := range addrs {
		if a.Is4() != w.at.Addr().Is4() || !reachable(a) || w.served[a] {
			continue
		}
		at := netip.AddrPortFrom(a, w.at.Port())
		name, err := "", error(nil)
		if w.flags.transport != transportSoftroce {
			name, err = owner(a)
			w.rdma[a] = w.rdma[a] || name != ""
		}
		switch i, known := byDevice[name]; {
		case name != "" && known:
			places[i].addrs = append(places[i].addrs, at)
		case name != "":
			byDevice[name] = len(places)
			places = append(places, place{transportVerbs, a.String() + " belongs to the RDMA device " + name, []netip.AddrPort{at}})
		case w.flags.transport == transportVerbs || w.rdma[a]: // not ours, or not now
		case err != nil:
			places = append(places, place{transportSoftroce, err.Error(), []netip.AddrPort{at}})
		default:
			places = append(places, place{transportSoftroce, "asked for with --transport", []netip.AddrPort{at}})
		}
	}
	return places, err
}

// reachable reports whether other machines can reach an address with nothing but it:
// not the loopback's, not link-local ones, which need a zone.
func reachable(a netip.Addr) bool { return a.IsGlobalUnicast() }

// machineAddresses are the addresses of the interfaces that are up.
func machineAddresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	var errs []error
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		errs = append(errs, err)
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, p.Addr().Unmap())
			}
		}
	}
	return all, errors.Join(errs...)
}
