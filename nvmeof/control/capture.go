package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/capture"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const maxQPN = 1<<24 - 1 // the highest number of a queue pair

func captureStream() stream {
	return stream{"/v1/capture", "capture", "Capture packets of the target's RDMA devices, as pcapng. They have what hosts read and write, as far as snaplen goes.",
		"application/x-pcapng", nil, []streamOption{
			nqnOption("host", "Packets of this host's controllers alone."),
			numberOption("qpn", "Packets of this queue pair of the target alone; 1 is connection management.", maxQPN),
			numberOption("snaplen", "Bytes of each packet, from its IP header on; 0: all; default 384.", 1<<20),
			numberOption("count", "Packets after which it ends; default, and 0: none.", 1<<31-1),
			secondsOption(),
		}, serveCapture}
}

func serveCapture(ctx context.Context, m *Manager, q url.Values, w *streamWriter) error {
	sources, devices := captureSources(m)
	if len(sources) == 0 {
		return errNoCapture
	}
	snap := capture.DefaultSnap
	if q.Has("snaplen") {
		snap = number(q, "snaplen")
	}
	err := capture.Stream(ctx, capture.Config{
		Sources: sources, Program: "nvmeof target", Pairs: func() []capture.Pair { return pairs(m.target, devices) },
		Host: q.Get("host"), QPN: rdmatransport.QPN(number(q, "qpn")), Snap: snap, Count: number(q, "count"),
	}, w.write)
	if errors.Is(err, rdmatransport.ErrCapturing) {
		return &busyError{"packets are being captured already: end the other capture first"}
	}
	return err
}

var errNoCapture = &busyError{"no device of the target can capture packets: with transport verbs the RDMA device has them, and a target without listeners has no device"}

// A busyError is a stream that cannot begin now.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }

// captureSources are the devices that are open, and what the target calls each.
func captureSources(m *Manager) (sources []capture.Source, devices []*target.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.devices)) {
		d := m.devices[name]
		if c, ok := d.rdma.(rdmatransport.Capturer); ok {
			sources, devices = append(sources, capture.Source{Name: name, Device: c}), append(devices, d.target)
		}
	}
	return sources, devices
}

// pairs names the queue pairs of controllers.
func pairs(t *target.Target, devices []*target.Device) (all []capture.Pair) {
	for _, c := range target.Connections(t) {
		if i := slices.Index(devices, c.Device); i >= 0 {
			all = append(all, capture.Pair{Source: i, QPN: c.QPN, Host: string(c.Host),
				Name: fmt.Sprintf("host %s, subsystem %s, controller %d, queue %d", string(c.Host), string(c.Subsystem), c.Controller, c.Queue)})
		}
	}
	return all
}
