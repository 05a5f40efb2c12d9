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

// SilenceTime is how long there is no connection before a user sees what is waited for.
const SilenceTime = 2 * time.Second

// A Silence is the time until a connection is made. It prints for a user who waits for
// longer than SilenceTime what stands in the way, each thing once.
type Silence struct {
	warn  io.Writer
	timer *time.Timer

	mu      sync.Mutex // guards what follows
	reasons map[netip.AddrPort]string
	printed map[netip.AddrPort]string // nil: nothing yet
	over    bool
}

// StartSilence begins to wait for paths.
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

// PrintSilence is StartSilence for what does not report its attempts.
func PrintSilence(warn io.Writer, paths ...connections.Path) (stop func()) {
	return StartSilence(warn, paths...).Stop
}

// Failed notes an attempt. Any goroutine may call it.
func (s *Silence) Failed(at netip.AddrPort, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons[at] = err.Error(); s.printed != nil {
		s.print()
	}
}

// print prints what is new. Under mu.
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

// Stop ends it.
func (s *Silence) Stop() {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
