package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReceiveBufferWarning checks that the warning about a small receive buffer is printed by commands that serve or
// measure, and by those that set its size, but not by those that only query.
func TestReceiveBufferWarning(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if most, bad := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || bad != nil || most >= 8<<20 {
		t.Skipf("everybody may have 8 MiB here: net.core.rmem_max is %s, %v", text, err)
	}
	beside(t)
	setenv(t, unprivileged, "1")
	const warning = "the receive buffer holds "
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	s.errOut.await(t, s.addr+": "+warning) // each of several addresses is named
	for _, c := range []struct {
		line string
		want bool
	}{
		{"list", false}, {"discover", false}, {"id-ns -n NQN", false}, {"flush -n NQN", false}, {"list --rcvbuf 16777216", true},
		{"bench -n NQN --io_size 64k", true}, {"bench -n NQN --io_size 64k --iopolicy numa", true}, {"connect-all --matching --dump-config", false},
	} {
		w := words(strings.ReplaceAll(c.line, "NQN", testNQN))
		o := command(t, s.at(w[0], w[1:]...)...).want(t, 0)
		if got := strings.Contains(o.errOut, warning); got != c.want {
			t.Errorf("%s warns: %v, want %v:\n%s", c.line, got, c.want, o.errOut)
		}
	}
	c := startCommand(t, s.at("connect", "-n", testNQN)...)
	c.out.await(t, "nvme0\n")
	c.stop()
	c.wantEnd(0)
	if strings.Contains(c.errOut.String(), warning) {
		t.Errorf("connect warns:\n%s", c.errOut)
	}
}
