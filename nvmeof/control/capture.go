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

const maxQPN = 1<<24 - 1 // highest queue pair number

func captureStream() stream {
	return stream{"/v1/capture", "capture", "Capture packets of the target's RDMA devices, as pcapng. They contain data that hosts read and write, up to snaplen.",
		"application/x-pcapng", nil, []streamOption{
			nqnOption("host", "Only packets of this host's controllers."),
			numberOption("qpn", "Only packets of this queue pair of the target; 1 is connection management.", maxQPN),
			numberOption("snaplen", "Bytes to keep of each packet, from its IP header on; 0: all. Default 384.", 1<<20),
			numberOption("count", "Number of packets after which the capture ends; 0: no limit. Default 0.", 1<<31-1),
			secondsOption(),
		}, serveCapture}
}

func serveCapture(ctx context.Context, m *Manager, q url.Values, w *streamWriter) error {
	if len(m.gauge.captured()) == 0 {
		return errNoCapture
	}
	snap := capture.DefaultSnap
	if q.Has("snaplen") {
		snap = number(q, "snaplen")
	}
	err := capture.Stream(ctx, capture.Config{
		Sources: m.gauge.captured, Pairs: func() []capture.Pair { return pairs(m) }, Program: "nvmeof target",
		Host: q.Get("host"), QPN: rdmatransport.QPN(number(q, "qpn")), Snap: snap, Count: number(q, "count"),
	}, w.write)
	if errors.Is(err, rdmatransport.ErrCapturing) {
		return &busyError{"another capture is running: end it first"}
	}
	return err
}

var errNoCapture = &busyError{"no device of the target can capture packets: with transport verbs only the RDMA device sees them, and a target without listeners has no device"}

// A busyError reports that a stream cannot begin now.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }

// A captureSource is an open device, with the target's object for it.
type captureSource struct {
	capture.Source
	target *target.Device
}

func (g *gauge) setSources(all map[string]*heldDevice) {
	var there []captureSource
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if c, ok := all[name].rdma.(rdmatransport.Capturer); ok {
			there = append(there, captureSource{capture.Source{Name: name, Device: c}, all[name].target})
		}
	}
	g.sources.Store(&there)
}

// captured returns the devices whose packets can be captured.
func (g *gauge) captured() (sources []capture.Source) {
	if there := g.sources.Load(); there != nil {
		for _, s := range *there {
			sources = append(sources, s.Source)
		}
	}
	return sources
}

// pairs returns the queue pairs of controllers, with names.
func pairs(m *Manager) (all []capture.Pair) {
	there := m.gauge.sources.Load()
	if there == nil {
		return nil
	}
	for _, c := range target.Connections(m.target) {
		if i := slices.IndexFunc(*there, func(s captureSource) bool { return s.target == c.Device }); i >= 0 {
			all = append(all, capture.Pair{Device: (*there)[i].Device, QPN: c.QPN, Host: string(c.Host),
				Name: fmt.Sprintf("host %s, subsystem %s, controller %d, queue %d", string(c.Host), string(c.Subsystem), c.Controller, c.Queue)})
		}
	}
	return all
}
