package targetcommand

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/console"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// announce prints once how a Linux host connects to an address of a target of flags.
func (d *Daemon) announce(_ int, at netip.AddrPort) {
	if slices.Contains(d.announced, at) {
		return
	}
	d.announced = append(d.announced, at)
	if d.gateway != nil {
		fmt.Fprintf(d.Out, "listening on %v: hosts find the group's subsystems by nvme discover -t rdma -a %v\n", at, at.Addr())
		return
	}
	s := d.Document.Subsystems[0]
	fmt.Fprintf(d.Out, "serving %d namespace(s) of %s on %v\n", len(s.Namespaces), s.NQN, at)
	fmt.Fprintf(d.Out, "on a Linux host: %s\n", console.ConnectLine(at, s))
}

// maxAnnounced limits how many subsystems are printed, and how many waiting exports of each.
const maxAnnounced = 10

// announceAll prints what a target of a file serves, what waits, and how Linux hosts connect.
func (d *Daemon) announceAll(m *control.Manager, socket *control.Socket) {
	if d.Flags != nil { // each address was announced when it was opened
		return
	}
	if socket != nil {
		fmt.Fprintf(d.Out, "controlled at %s\n", socket.Path())
	}
	doc, status := m.Document(), m.Status()
	waits := func(of func(control.Waiting) bool) []control.Waiting {
		return slices.DeleteFunc(slices.Clone(status.Waiting), func(w control.Waiting) bool { return !of(w) })
	}
	d.announceWaiting(waits(func(w control.Waiting) bool { return w.Listener > 0 }))
	for i, s := range doc.Subsystems {
		if i == maxAnnounced {
			fmt.Fprintf(d.Out, "and %d more: nvmeof ls\n", len(doc.Subsystems)-i)
			return
		}
		d.announceSubsystem(s, waits(func(w control.Waiting) bool { return w.Subsystem == s.NQN && w.Listener == 0 }))
		for _, at := range waysTo(s, doc, status.Addresses) {
			fmt.Fprintf(d.Out, "on a Linux host: %s\n", console.ConnectLine(at, s))
		}
	}
}

// announceSubsystem prints how much of a subsystem is served, and what waits.
func (d *Daemon) announceSubsystem(s *config.Subsystem, waiting []control.Waiting) {
	namespaces := 0
	for _, w := range waiting {
		if w.NSID > 0 {
			namespaces++
		}
	}
	fmt.Fprintf(d.Out, "serving %d namespace(s) of %s", len(s.Namespaces)-namespaces, s.NQN)
	if namespaces > 0 {
		fmt.Fprintf(d.Out, "; %d of %d cannot be served yet", namespaces, len(s.Namespaces))
	}
	fmt.Fprintln(d.Out)
	d.announceWaiting(waiting)
}

// announceWaiting prints what waits, and why.
func (d *Daemon) announceWaiting(waiting []control.Waiting) {
	for i, w := range waiting {
		if i == maxAnnounced {
			fmt.Fprintf(d.Out, "and %d more wait: nvmeof ls\n", len(waiting)-i)
			return
		}
		what := fmt.Sprintf("listener %d (%s)", w.Listener, w.Address)
		switch {
		case w.NSID > 0:
			what = fmt.Sprintf("namespace %d (%s)", w.NSID, w.Export)
		case w.Host != "":
			what = "host " + string(w.Host)
		}
		fmt.Fprintf(d.Out, "waiting: %s: %s\n", what, strings.TrimPrefix(w.Why, what+": ")) // the target's errors name it too
	}
}

// waysTo returns the addresses at which a subsystem is served, or will be.
func waysTo(s *config.Subsystem, doc *config.Document, everywhere []control.Address) (at []netip.AddrPort) {
	for _, l := range doc.Listeners {
		if s.On(l.ID) && !l.Wildcard() {
			at = append(at, l.Address.AddrPort)
		}
	}
	for _, a := range everywhere {
		if s.On(a.Listener) {
			at = append(at, netip.MustParseAddrPort(a.Address))
		}
	}
	return at
}
