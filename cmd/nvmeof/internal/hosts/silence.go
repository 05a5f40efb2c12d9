package hosts

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
)

// SilenceTime is how long a connection may take before the user is told what it is waiting for.
const SilenceTime = 2 * time.Second

// A Silence covers the time until a connection is made. If that is longer than SilenceTime, it prints each obstacle
// once.
type Silence struct {
	warn  io.Writer
	timer *time.Timer

	mu      sync.Mutex // guards the fields below
	reasons map[netip.AddrPort]string
	printed map[netip.AddrPort]string // nil: SilenceTime has not passed
	over    bool
}

// StartSilence starts to wait for a connection by the paths.
func StartSilence(warn io.Writer, paths ...connections.Path) *Silence {
	s := &Silence{warn: warn, reasons: map[netip.AddrPort]string{}}
	for i := range paths {
		s.reasons[netip.AddrPortFrom(paths[i].Options.Traddr, paths[i].Options.Trsvcid)] = ""
	}
	s.timer = time.AfterFunc(SilenceTime, func() { // at most until Stop
		s.mu.Lock()
		defer s.mu.Unlock()
		s.printed = map[netip.AddrPort]string{}
		s.print()
	})
	return s
}

// PrintSilence is StartSilence for callers that do not report their attempts.
func PrintSilence(warn io.Writer, paths ...connections.Path) (stop func()) {
	return StartSilence(warn, paths...).Stop
}

// Failed records a failed attempt. It may be called from any goroutine.
func (s *Silence) Failed(at netip.AddrPort, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons[at] = err.Error(); s.printed != nil {
		s.print()
	}
}

// print prints what is new. Called with mu held.
func (s *Silence) print() {
	if s.over {
		return
	}
	var silent []string
	for _, at := range slices.SortedFunc(maps.Keys(s.reasons), netip.AddrPort.Compare) {
		reason := s.reasons[at]
		old, known := s.printed[at]
		switch s.printed[at] = reason; {
		case known && old == reason:
		case reason == "":
			silent = append(silent, at.String())
		default:
			fmt.Fprintf(s.warn, "nvmeof: %s; still trying\n", reason)
		}
	}
	if len(silent) > 0 {
		fmt.Fprintf(s.warn, "nvmeof: no connection to %s after %v; still trying: is a target there, and do UDP packets to port 4791 arrive, also large ones?\n", strings.Join(silent, ", "), SilenceTime)
	}
}

// Stop ends the Silence.
func (s *Silence) Stop() {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
