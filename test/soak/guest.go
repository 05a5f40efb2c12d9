package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

//go:embed guest.sh
var guestScript string

const (
	guestNQN  = "guest" // its subsystem, of the target that is killed
	guestLink = "link"  // the socket of its Ethernet
	guestPass = 20 * time.Minute
)

// addGuest adds a Linux guest to the relay as a host. Its Ethernet is a socket of QEMU.
func (l *lab) addGuest() (err error) {
	w := &wire{relay: l.relay, guest: guestAddr, fronts: map[netip.Addr]netip.Addr{}, names: map[netip.Addr]netip.Addr{}}
	name := guestFront
	for id := 1; id <= 2; id++ {
		front := l.addrs.front("kept", id)
		w.fronts[name], w.names[front] = front, name
		name = name.Next()
	}
	if w.listener, err = net.Listen("unix", filepath.Join(l.sockets, guestLink)); err != nil {
		return err
	}
	l.wire = w
	return l.relay.AddOutside(guestAddr, l.addrs.at(guestAlias), w.deliver)
}

// linux runs a stock Linux host: fio writes, reads and verifies over both paths, again and again, while its target is
// killed. It uses the kernel's multipath.
func (l *lab) linux(ctx context.Context, random *rand.Rand) {
	if l.wire == nil {
		return
	}
	go l.wire.serve(l.o.seed) // ends with the wire
	defer func() { _ = l.wire.close() }()
	g, err := l.boot(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.violation("guest: %v", err)
		}
		return
	}
	defer func() { _ = g.Close() }()
	l.story.add("linux", "booted")
	for step := "connect"; ctx.Err() == nil; step = "verify" {
		script := fmt.Sprintf("step=%s nqn=%s first=%v second=%v host=%v seed=%d\n%s", step, subsystemNQN(guestNQN), guestFront, guestFront.Next(),
			guestAddr, random.Uint32(), guestScript)
		began := time.Now()
		out, err := g.Run(ctx, guestPass, script)
		var failed *guest.ExitError
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &failed):
			l.violation("Linux host, %s: %v", step, err)
			return
		case err != nil:
			l.violation("guest: %v", err)
			return
		}
		l.story.add("linux", "%s took %.0f s: %q", step, time.Since(began).Seconds(), out)
		l.mu.Lock()
		l.totals.Linux.add(step, out)
		l.mu.Unlock()
	}
}

func (l *lab) boot(ctx context.Context) (*guest.Guest, error) {
	image, err := guest.Find()
	if err != nil {
		return nil, err
	}
	if err := image.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	mac := net.HardwareAddr(guestMAC[:]).String()
	return guest.Boot(ctx, image, guest.Config{Share: l.path("guest"), Link: filepath.Join(l.sockets, guestLink), MAC: mac, CPUs: 2, Memory: 2048})
}

// linuxCounts counts what the Linux host did.
type linuxCounts struct {
	Passes        int    // of fio
	Written, Read uint64 // bytes
	Reconnects    uint64 // by the kernel's log
}

var fioCount = regexp.MustCompile(`(?m)^(written|read|reconnects) (\d+)$`)

func (c *linuxCounts) add(step, out string) {
	if step == "verify" {
		c.Passes++
	}
	for _, m := range fioCount.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.ParseUint(m[2], 10, 64)
		switch m[1] {
		case "written":
			c.Written += n
		case "read":
			c.Read += n
		case "reconnects":
			c.Reconnects += n
		}
	}
}
