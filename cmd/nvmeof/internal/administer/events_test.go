package administer

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// TestEventOrder checks that people see the oldest event first, even if the count of equal events was recorded after
// later events. For programs events are in the order of their numbers.
func TestEventOrder(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	page := control.Events{Log: "a.b", Last: 3, Events: []events.Event{
		{Seq: 1, Time: start, Kind: events.Refused, Severity: events.Warning, Text: "one"},
		{Seq: 2, Time: start.Add(8 * time.Second), Kind: events.Change, Severity: events.Info, Text: "three"},
		{Seq: 3, Time: start.Add(2 * time.Second), Kind: events.Refused, Severity: events.Warning, Text: "two", Count: 7},
	}}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(config.JSON(page)) })}}
	s.Start()
	defer s.Close()
	for format, want := range map[string]string{"table": "one two three", "json": "one three two"} {
		var out strings.Builder
		cmd := newEvents()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--socket", socket, "-o", format})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for word := range strings.FieldsSeq(want) {
			_, after, found := strings.Cut(text, word)
			if !found {
				t.Errorf("as a %s %q is not in its place in\n%s", format, word, out.String())
			}
			text = after
		}
	}
}

// TestEventOfOddHost checks that a host's name cannot imitate an address or further fields of a line.
func TestEventOfOddHost(t *testing.T) {
	var w watch
	var out strings.Builder
	e := events.Event{Kind: events.Refused, Severity: events.Warning, Text: "refused", Host: "nqn.2026-01.org.example:db address=192.0.2.1:4791 (99 more)",
		Address: "198.51.100.9:4791", Subsystem: "nqn.2026-01.org.example:a"}
	if err := w.line(&out, &e); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "db address=192.0.2.1:4791 (99 more) ") || !strings.Contains(text, ` host="nqn.`) ||
		!strings.Contains(text, ` address=198.51.100.9:4791 subsystem=nqn.2026-01.org.example:a`) {
		t.Error(text)
	}
}
