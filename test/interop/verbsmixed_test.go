package interop

import (
	"testing"
	"time"
)

// A pairing is a target and a host of ours, each over a transport: softroce, verbs or auto; kernel means Linux's own
// target.
type pairing struct {
	name      string
	target    end
	transport string
	host      end
	provider  string
	windows   string // of our host
	lossy     bool
	more      string // options of our host under loss
}

// TestVerbsMixed pairs verbs, on the kernel's rxe at the host's end, with every peer that fits in the same guest:
// Linux's target and verbs itself on the same device, and softroce at the other end of the link, also with loss in both
// directions.
func TestVerbsMixed(t *testing.T) {
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.installWith(t, "verbs", "./cmd/nvmeof", "nvmeof")
	l.link(t, 1500)
	l.segmentation(t, "off")
	for _, p := range []pairing{
		{name: "verbs-to-kernel,windows", target: hostEnd, transport: "kernel", host: hostEnd, provider: "verbs", windows: "on"},
		{name: "verbs-to-verbs", target: hostEnd, transport: "verbs", host: hostEnd, provider: "verbs", windows: "auto"},
		{name: "softroce-to-verbs", target: hostEnd, transport: "verbs", host: peerEnd, provider: "softroce", windows: "auto"},
		{name: "auto-to-softroce", target: peerEnd, transport: "softroce", host: hostEnd, provider: "auto", windows: "auto"},
		{name: "softroce-to-verbs,loss", target: hostEnd, transport: "verbs", host: peerEnd, provider: "softroce", windows: "auto", lossy: true},
		{name: "verbs-to-softroce,loss", target: peerEnd, transport: "softroce", host: hostEnd, provider: "verbs", windows: "auto", lossy: true},
		{name: "verbs-to-softroce,loss,impatient", target: peerEnd, transport: "softroce", host: hostEnd, provider: "verbs", windows: "auto", lossy: true, more: "--ack-timeout 20ms"},
	} {
		t.Run(p.name, func(t *testing.T) { l.pair(t, p) })
	}
}

// env returns the parameters of scripts for both.
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
	at := l.logEnd(t)
	if p.lossy {
		l.loss(t, "loss 3%")
		defer l.loss(t, "")
		l.must(t, p.host, 3*time.Minute, "ourload", e.with(env{"seconds": 2, "more": p.more}))
	} else {
		l.must(t, p.host, 3*time.Minute, "ourhost", e)
	}
	l.wantCleanLog(t, at, nil)
}

// loss impairs both directions of the link; "" ends the impairment.
func (l *lab) loss(t *testing.T, impair string) {
	t.Helper()
	filter := "all"
	if impair == "" {
		filter = "none"
	}
	l.netem(t, impairment{impair: impair, filter: filter})
	l.netem(t, impairment{impair: impair, filter: filter, atPeer: true})
}
