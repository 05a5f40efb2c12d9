package topcommand

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// serve serves a handler at a socket.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l := listen(t)
	s := &http.Server{Handler: h}
	go s.Serve(l) // ends with Close
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// top runs a command line.
func top(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := newCommand(time.Millisecond)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// answering serves a target whose counters are a second later in each reading.
func answering(t *testing.T) string {
	var asked atomic.Int64
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(config.JSON(after(int(asked.Add(1)), 2)))
	})
}

func TestOnce(t *testing.T) {
	socket := answering(t)
	out, err := top(t, "--socket", socket, "-o", "json")
	var r struct {
		Seconds    float64
		Namespaces []struct{ IOPS float64 }
		Hosts      []struct{ Host string }
	}
	if err != nil || json.Unmarshal([]byte(out), &r) != nil || r.Seconds != 1 || len(r.Namespaces) != 2 || r.Namespaces[1].IOPS != 2 || r.Hosts[0].Host != "\x1b]0;owned\a" {
		t.Errorf("%v, %+v\n%s", err, r, out)
	}
	if strings.ContainsAny(out, "\x1b\a\x7f\u009b") {
		t.Errorf("JSON that a terminal obeys: %q", out)
	}
	out, err = top(t, "--socket", socket)
	for _, want := range []string{"3.0 IOPS  read 0.0 MB/s", "\nnamespaces\nNAMESPACE ", "disk/2    2.0 ", "\nhosts\n", `\x1b]0;owned\a`, "\ncontrollers\n", "\nshards\n", "\ntransport\n", "packets_in"} {
		if !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", err, want, out)
		}
	}
	if strings.Contains(out, "drop_crc") {
		t.Errorf("a counter that never counted:\n%s", out)
	}
	if out, err = top(t, "--socket", socket, "--once", "--view", "namespaces", "--filter", "DISK/2"); err != nil || strings.Contains(out, "disk/1") || !strings.Contains(out, "disk/2") || strings.Contains(out, "\nhosts") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPrintJSON checks that unprintable text is escaped, and decodes to the same text.
func TestPrintJSON(t *testing.T) {
	r := newTestScreen(1).report
	r.Hosts[0].Host = "\u009b31m\x7f\u202e\U000e0001ü\""
	var b strings.Builder
	if err := printJSON(&b, r, nil, ""); err != nil {
		t.Fatal(err)
	}
	var back struct{ Hosts []struct{ Host string } }
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back.Hosts[0].Host != string(r.Hosts[0].Host) {
		t.Errorf("%v: %q", err, back.Hosts)
	}
	if strings.ContainsAny(b.String(), "\u009b\x7f\u202e\U000e0001") || !strings.Contains(b.String(), "ü") {
		t.Errorf("%q", b.String())
	}
}

// TestWrong checks the error of each mistake.
func TestWrong(t *testing.T) {
	fails := func(status int, text string, alive bool) string {
		return serve(t, func(w http.ResponseWriter, q *http.Request) {
			if alive && q.URL.Path == "/v1/alive" {
				_, _ = w.Write([]byte("{}"))
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		})
	}
	disks := listen(t)
	go func() { // ends with the test
		for c, err := disks.Accept(); err == nil; c, err = disks.Accept() {
			_, _ = c.Write([]byte("NBDMAGICIHAVEOPT\x00\x03"))
			_ = c.Close()
		}
	}()
	for _, c := range []struct{ args, want string }{
		{"--socket " + fails(404, `{"error": {"code": "not-found", "message": "route"}}`, false), "runs an earlier version"},
		{"--socket " + fails(404, "404 page not found", true), "is a process of nvmeof connect, which is a host: top shows targets"},
		{"--socket " + fails(500, `{"error": {"code": "failed", "message": "of no use"}}`, false), "of no use"},
		{"--socket " + disks.Addr().String(), "is a disk of nvmeof attach or connect, which is a host"},
		{"--socket /nowhere/s", "no target responds at /nowhere/s"},
		{"--interval 999ms", "want at least 1s"},
		{"--view disks", "want controllers, hosts, namespaces, shards, transport"},
		{"-o xml", "want one of json, normal"},
	} {
		if out, err := top(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %v, want %q\n%s", c.args, err, c.want, out)
		}
	}
}

// TestEndedBetween checks that if the target ends between two readings, the error names its socket rather than the
// default one.
func TestEndedBetween(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("NVMEOF_SOCKET", filepath.Join(dir, "target.sock"))
	t.Setenv("TMPDIR", dir)
	found := filepath.Join(dir, "target-one.sock")
	l, err := net.Listen("unix", found)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.Close()
		w.Header().Set("Connection", "close")
		_, _ = w.Write(config.JSON(after(1, 2)))
	})}
	go s.Serve(l) // ends with its first answer
	defer s.Close()
	if _, err := top(t, "--once"); err == nil || !strings.Contains(err.Error(), "second reading: no target responds at "+found+":") {
		t.Error(err)
	}
}
