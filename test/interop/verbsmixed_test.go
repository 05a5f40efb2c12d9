package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A pairing is a target and a host, each over some transport: softroce, verbs, auto,
// or kernel for Linux's own.
type pairing struct {
	name      string
	target    end
	transport string
	host      end
	provider  string
	windows   string // of our host
	lossy     bool
}

// TestVerbsMixed pairs verbs, on the kernel's rxe at the host's end, with what fits
// in the same guest: Linux and verbs itself on the same device, and softroce at the
// other end of the link, also where that loses packets in both directions.
func TestVerbsMixed(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.installWith(t, "verbs", "./cmd/nvmeof", "nvmeof")
	l.link(t, 1500)
	l.segmentation(t, "off")
	for _, p := range []pairing{
		{name: "kernel-to-verbs", target: hostEnd, transport: "verbs", host: hostEnd, provider: "kernel"},
		{name: "kernel-to-auto", target: hostEnd, transport: "auto", host: hostEnd, provider: "kernel"},
		{name: "verbs-to-kernel,windows", target: hostEnd, transport: "kernel", host: hostEnd, provider: "verbs", windows: "on"},
		{name: "verbs-to-verbs", target: hostEnd, transport: "verbs", host: hostEnd, provider: "verbs", windows: "auto"},
		{name: "softroce-to-verbs", target: hostEnd, transport: "verbs", host: peerEnd, provider: "softroce", windows: "auto"},
		{name: "auto-to-softroce", target: peerEnd, transport: "softroce", host: hostEnd, provider: "auto", windows: "auto"},
		{name: "softroce-to-verbs,loss", target: hostEnd, transport: "verbs", host: peerEnd, provider: "softroce", windows: "auto", lossy: true},
		{name: "verbs-to-softroce,loss", target: peerEnd, transport: "softroce", host: hostEnd, provider: "verbs", windows: "auto", lossy: true},
	} {
		t.Run(p.name, func(t *testing.T) { l.pair(t, p) })
	}
}

// env are the parameters of scripts for both.
func (p pairing) env() env {
	addresses := map[end]string{hostEnd: "10.9.0.2", peerEnd: "10.9.0.1"}
	return setting{"memory", 1500, "ipv4"}.env().with(env{
		"storage": "memory", "addr": addresses[p.target], "host": addresses[p.host], "transport": p.transport, "provider": p.provider, "windows": p.windows,
	})
}

func (l *lab) pair(t *testing.T, p pairing) {
	e := p.env()
	program := "target"
	if p.transport == "kernel" {
		program = "nvmet"
	}
	l.must(t, p.target, 90*time.Second, program, e.with(env{"action": "start"}))
	t.Cleanup(func() {
		l.must(t, p.target, time.Minute, program, e.with(env{"action": "stop"}))
		if t.Failed() {
			t.Logf("what the target logged:\n%s", l.targetLog())
		}
	})
	l.cleanUpAtEnd(t)
	if p.transport == "auto" {
		l.wantVerbsChosen(t)
	}
	at := l.logEnd(t)
	switch {
	case p.lossy:
		l.loss(t, "loss 3%")
		defer l.loss(t, "")
		l.must(t, p.host, 3*time.Minute, "ourload", e.with(env{"seconds": 2}))
	case p.provider == "kernel":
		l.onHost(t, time.Minute, "connect", e)
		l.onHost(t, time.Minute, "fio", e.with(env{"blocks": "512-256k", "depth": 16, "jobs": 1, "size": 8}))
		l.onHost(t, time.Minute, "disconnect", e.with(env{"limit_ms": 5000}))
	default:
		l.must(t, p.host, 3*time.Minute, "ourhost", e)
	}
	l.wantCleanLog(t, at, nil)
}

// loss impairs both directions of the link; "" ends that.
func (l *lab) loss(t *testing.T, impair string) {
	t.Helper()
	filter := "all"
	if impair == "" {
		filter = "none"
	}
	l.netem(t, impairment{impair: impair, filter: filter})
	l.netem(t, impairment{impair: impair, filter: filter, atPeer: true})
}

// wantVerbsChosen: a target that may choose says that it has chosen verbs.
func (l *lab) wantVerbsChosen(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(l.hostDir, "target.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`"name":"verbs","why":"10.9.0.2 belongs to the RDMA device rxe0"`).Match(b) {
		t.Errorf("the target does not say that it chose verbs:\n%s", b)
	}
}
