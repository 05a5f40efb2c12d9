package hosts

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestRetry checks that delays grow up to --reconnect-delay, that each obstacle is printed once, and that there is no
// attempt after --ctrl-loss-tmo.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		delay, loss int // seconds
		want        []time.Duration
	}{
		{10, 20, []time.Duration{1, 2, 4, 8}},
		{3, 12, []time.Duration{1, 2, 3, 3, 3}},
		{1, 0, nil},
		{2, -1, []time.Duration{1, 2, 2, 2, 2, 2}}, // and so on
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			r := NewRetry(&fabricoptions.Held{ReconnectDelay: c.delay, CtrlLoss: c.loss}, &out)
			obstacle := errors.New("no route")
			for i, want := range c.want {
				if r.Late() {
					t.Fatalf("%d s, %d s: it is late after %d attempts", c.delay, c.loss, i)
				}
				if i == 2 {
					obstacle = errors.New("no answer")
				}
				from := time.Now()
				if err := r.Wait(t.Context(), obstacle); err != nil || time.Since(from) != want*time.Second {
					t.Errorf("%d s, %d s: pause %d of %v, %v, want %d s", c.delay, c.loss, i, time.Since(from), err, want)
				}
			}
			if r.Late() != (c.loss >= 0) {
				t.Errorf("%d s, %d s: late is %v after %d attempts", c.delay, c.loss, r.Late(), len(c.want))
			}
			if len(c.want) > 2 && out.String() != "nvmeof: no route; still trying\nnvmeof: no answer; still trying\n" {
				t.Errorf("it prints\n%s", &out)
			}
		})
	}
}

// lines collects what is printed from any goroutine.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was printed since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// TestSilence checks what a waiting user sees: nothing at first, then the obstacle of each path, once, and nothing
// after the end.
func TestSilence(t *testing.T) {
	at := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:4420"), netip.MustParseAddrPort("192.0.2.2:4420")}
	var paths []connections.Path
	for _, a := range at {
		paths = append(paths, connections.Path{Options: host.Options{Traddr: a.Addr(), Trsvcid: a.Port()}})
	}
	synctest.Test(t, func(t *testing.T) {
		var out lines
		s := StartSilence(&out, paths...)
		step := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := out.take(); got != want && (want == "" || !strings.HasPrefix(got, want)) {
				t.Errorf("it prints %q, want %q", got, want)
			}
		}
		s.Failed(at[1], errors.New("refused"))
		step("")
		time.Sleep(SilenceTime)
		step("nvmeof: refused; still trying\nnvmeof: no connection to 192.0.2.1:4420 after 2s; still trying: ")
		s.Failed(at[1], errors.New("refused"))
		step("")
		s.Failed(at[0], errors.New("busy"))
		step("nvmeof: busy; still trying\n")
		s.Stop()
		s.Failed(at[0], errors.New("another"))
		step("")
		s = StartSilence(&out, paths...)
		s.Stop()
		time.Sleep(2 * SilenceTime)
		step("")
	})
}

// TestSharesLoopback checks which targets are reached from a shared loopback endpoint.
func TestSharesLoopback(t *testing.T) {
	for _, c := range []struct {
		source, target string
		want           bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.9", true},
		{"192.0.2.1", "192.0.2.1", false}, // it gets an endpoint of its own
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::2", false},
	} {
		if got := sharesLoopback(netip.MustParseAddr(c.source), netip.MustParseAddr(c.target)); got != c.want {
			t.Errorf("from %s to %s: %v", c.source, c.target, got)
		}
	}
}
