package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
)

// silenceTime is after what time without a connection a user is told what is waited for.
const silenceTime = 3 * time.Second

// tellSilence tells so, unless stop is called before.
func tellSilence(warn io.Writer, paths ...connections.Path) (stop func()) {
	var all []string
	for i := range paths {
		all = append(all, netip.AddrPortFrom(paths[i].Options.Traddr, paths[i].Options.Trsvcid).String())
	}
	t := time.AfterFunc(silenceTime, func() {
		fmt.Fprintf(warn, "nvmeof: no connection to %s after %v; still trying: is a target there, and may UDP packets to port 4791 pass?\n", strings.Join(all, ", "), silenceTime)
	})
	return func() { t.Stop() }
}
