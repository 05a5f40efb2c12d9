package fabricoptions

import (
	"strings"
	"testing"
	"time"
)

// FuzzParse checks that options from another process or a file are rejected, or are within bounds.
func FuzzParse(f *testing.F) {
	f.Add("traddr=192.0.2.1 nqn=nqn.2014-08.org.example:a nr-io-queues=4 queue-size=128 keep-alive-tmo=5 reconnect-delay=10 ctrl-loss-tmo=600")
	f.Add("traddr=2001:db8::1 trsvcid=4420 ctrl-loss-tmo=-1 fast_io_fail_tmo=0 iopolicy=round-robin hostnqn=a hostid=8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a")
	f.Add("nqn=a nqn=b tos=999 reconnect-delay=-2147483649 persistent= ctrl-loss-tmo=99999999999")
	f.Fuzz(func(t *testing.T, text string) {
		options := map[string]string{}
		for word := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(word, "=")
			if !strings.Contains(name, "secret") && !strings.HasPrefix(value, "file:") {
				options[name] = value
			}
		}
		h, err := Parse(options)
		if err != nil || h.Check() != nil {
			return
		}
		if tm := h.Timers(); tm.ReconnectDelay < 0 || tm.ReconnectDelay > 1<<32*time.Second || tm.CtrlLossTmo == 0 || tm.FastIOFailTmo == 0 {
			t.Fatalf("%q: %+v", text, tm)
		}
		if a, err := h.Addr(); err == nil && (!a.IsValid() || a.Port() == 0) {
			t.Fatalf("%q: %v", text, a)
		}
		if len(h.Each()) != 1+strings.Count(h.Traddr, ",") {
			t.Fatalf("%q: %d connections", text, len(h.Each()))
		}
	})
}
