package scrape

import (
	"fmt"
	"io"
	"net"

	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Source provides the counters of a process, with functions that may be called from any goroutine.
type Source struct {
	Version    string // of the program
	Subsystems func() []metrics.HostSubsystem
	Devices    func() []rdmatransport.Device
	NBD        func() nbd.Stats
}

// Serve serves the metrics until end is called, which closes the listener. If l is nil, nothing is served.
func Serve(l net.Listener, warn io.Writer, s Source) (end func()) {
	if l == nil {
		return func() {}
	}
	end = metrics.Serve(l, metrics.Handler(nil,
		metrics.NewHost(metrics.HostConfig{Subsystems: s.Subsystems, Version: s.Version}),
		metrics.NewNBD(s.NBD), metrics.NewSoftroce(s.Devices)), nil)
	fmt.Fprintf(warn, "nvmeof: metrics at http://%v%s\n", l.Addr(), metrics.Path)
	return end
}
