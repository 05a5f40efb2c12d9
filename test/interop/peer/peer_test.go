package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// A transcript is what a tool prints; listening is closed when it says so.
type transcript struct {
	mu        sync.Mutex
	text      bytes.Buffer
	once      sync.Once
	listening chan struct{}
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if strings.Contains(w.text.String(), "listening") {
		w.once.Do(func() { close(w.listening) })
	}
	return len(b), nil
}

// converse runs a tool's server and client and returns their errors.
func converse(t *testing.T, server, client string) (serverErr, clientErr error) {
	t.Helper()
	w := &transcript{listening: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- run(strings.Fields(server), w) }() // ends with the client
	select {
	case <-w.listening:
	case err := <-ended:
		return err, nil
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not listen")
	}
	clientErr = run(strings.Fields(client), io.Discard)
	return <-ended, clientErr
}

// TestTools runs every tool's server against its client.
func TestTools(t *testing.T) {
	for _, c := range []struct{ name, server, client string }{
		{"rping", "rping -s -a 127.91.0.1 -C 20 -S 1000 -V -v", "rping -c -a 127.91.0.1 -I 127.91.0.2 -C 20 -S 1000 -V -v"},
		{"rdma_client", "rdma_server -s 127.91.1.1 -p 7471", "rdma_client -s 127.91.1.1 -p 7471 -I 127.91.1.2"},
		{"ib_send_bw", "ib_send_bw -R --bind_source_ip 127.91.2.1 -F -s 10000 -n 200", "ib_send_bw -R -F -s 10000 -n 200 --bind_source_ip 127.91.2.2 127.91.2.1"},
		{"ib_write_bw", "ib_write_bw -R --bind_source_ip 127.91.3.1 -F -s 10000 -n 200", "ib_write_bw -R -F -s 10000 -n 200 --bind_source_ip 127.91.3.2 127.91.3.1"},
		{"ib_read_bw", "ib_read_bw -R --bind_source_ip 127.91.4.1 -F -s 10000 -n 200", "ib_read_bw -R -F -s 10000 -n 200 --bind_source_ip 127.91.4.2 127.91.4.1"},
		{"fetch and add", "ib_atomic_bw -R --bind_source_ip 127.91.5.1 -n 200", "ib_atomic_bw -R -n 200 --bind_source_ip 127.91.5.2 127.91.5.1"},
		{"compare and swap", "ib_atomic_bw -R -A CMP_AND_SWAP --bind_source_ip 127.91.6.1 -n 200", "ib_atomic_bw -R -A CMP_AND_SWAP -n 200 --bind_source_ip 127.91.6.2 127.91.6.1"},
		{"fewer than the window", "ib_write_bw -R --bind_source_ip 127.91.7.1 -s 1 -n 5", "ib_write_bw -R -s 1 -n 5 --bind_source_ip 127.91.7.2 127.91.7.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			serverErr, clientErr := converse(t, c.server, c.client)
			if serverErr != nil || clientErr != nil {
				t.Errorf("server: %v; client: %v", serverErr, clientErr)
			}
		})
	}
}

// TestDisagreement: an end notices when the other does something else than it
// was told to.
func TestDisagreement(t *testing.T) {
	for _, c := range []struct{ name, server, client, serverSays, clientSays string }{
		{"fewer pings", "rping -s -a 127.92.0.1 -C 4", "rping -c -a 127.92.0.1 -I 127.92.0.2 -C 3", "3 pings, want 4", ""},
		{"other size", "ib_send_bw -R --bind_source_ip 127.92.1.1 -s 2000 -n 10", "ib_send_bw -R -s 1000 -n 10 --bind_source_ip 127.92.1.2 127.92.1.1", "message 0 has 1000 bytes, want 2000", ""},
		{"other operation", "ib_write_bw -R --bind_source_ip 127.92.2.1 -n 10", "ib_read_bw -R -n 10 --bind_source_ip 127.92.2.2 127.92.2.1", "ended", "remote access"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			serverErr, clientErr := converse(t, c.server, c.client)
			wantError(t, "server", serverErr, c.serverSays)
			wantError(t, "client", clientErr, c.clientSays)
		})
	}
}

func wantError(t *testing.T, who string, err error, says string) {
	t.Helper()
	if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %q", who, err, says)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{"", "rdma_xclient", "rping", "rping -s -c", "rping -c -a 127.0.0.1", "rping -s -S 5",
		"ib_send_bw", "ib_send_bw -R -n 0", "ib_atomic_bw -R -A SWAP", "ib_read_bw -R nowhere", "rdma_client", "rdma_server -p 0"} {
		if err := run(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("peer %s: no error", args)
		}
	}
}
