package relay

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// TestSeal: the CRC of a packet between two kernels is the recorded one.
func TestSeal(t *testing.T) {
	n := 0
	for _, name := range golden.Names("") {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			if p.ID != 0 {
				continue
			}
			n++
			got := bytes.Clone(p.Payload)
			clear(got[len(got)-sumSize:])
			if Seal(got, p.Src, p.Dst); !bytes.Equal(got, p.Payload) {
				t.Fatalf("%s, packet %d: % x, want % x", name, p.Number, got[len(got)-4:], p.Payload[len(got)-4:])
			}
		}
	}
	if n < 100 {
		t.Errorf("looked at %d packets", n)
	}
}

// TestRename: a connection request contains the addresses that its receiver knows, and no other packet is changed.
func TestRename(t *testing.T) {
	var packets []golden.Packet
	for _, name := range golden.Names("") {
		p, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, p...)
	}
	from := &side{proxy: netip.MustParseAddr("192.0.2.1")}
	to := &side{own: netip.MustParseAddr("192.0.2.2")}
	requests := 0
	for _, p := range packets {
		old := [][]byte{p.Src.Addr().AsSlice(), p.Dst.Addr().AsSlice()}
		b := bytes.Clone(p.Payload)
		rename(b, from, to)
		if bytes.Equal(b, p.Payload) || !p.Src.Addr().Is4() {
			continue
		}
		requests++
		back := b
		for i, a := range []netip.Addr{from.proxy, to.own} {
			if n := bytes.Count(b, a.AsSlice()); n != 2 {
				t.Errorf("packet %d names %v %d times", p.Number, a, n)
			}
			back = bytes.ReplaceAll(back, a.AsSlice(), old[i])
		}
		if !bytes.Equal(back, p.Payload) {
			t.Errorf("packet %d: more than the addresses is other", p.Number)
		}
	}
	if requests == 0 {
		t.Error("no packet was changed")
	}
}

// TestConnect: our host reaches our device through a relay without faults, and does not if its packets are cut.
func TestConnect(t *testing.T) {
	at := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	listener, front, own, alias := at("127.88.3.1"), at("127.88.3.2"), at("127.88.3.3"), at("127.88.3.4")
	var devices []*softroce.Device
	for _, a := range []netip.Addr{listener, own} {
		d, err := softroce.Open(softroce.Config{Addr: a})
		if err != nil {
			t.Skip(err) // another test run uses the addresses
		}
		t.Cleanup(func() { d.Close() })
		devices = append(devices, d)
	}
	r := New(Faults{}, 1)
	if err := errors.Join(r.AddListener(listener, front), r.AddHost(own, alias)); err != nil {
		t.Fatal(err)
	}
	r.Start()
	defer r.Close()
	served, err := target.New(target.Config{Device: devices[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	s, err := served.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2026-11.org.example:disk"})
	if err != nil {
		t.Fatal(err)
	}
	s.AllowAnyHost(true)
	if _, err := served.Listen(netip.AddrPortFrom(listener, nvmeof.DefaultPort)); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: devices[1]})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	connect := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		c, err := h.Connect(ctx, host.Options{Traddr: front, NQN: s.NQN()})
		if err != nil {
			return err
		}
		return c.Disconnect(ctx)
	}
	if err := connect(30 * time.Second); err != nil {
		t.Error(err)
	}
	r.Cut(listener, true)
	if err := connect(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connect where all is cut: %v", err)
	}
	if s := r.Stats(); s.Carried < 2 || s.Cut == 0 {
		t.Errorf("%+v", s)
	}
}
