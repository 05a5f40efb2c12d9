package metrics

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/internal/recent"
)

// A slowCollector counts its calls.
type slowCollector struct{ asked atomic.Int64 }

func (*slowCollector) Describe(chan<- *prometheus.Desc) {}
func (c *slowCollector) Collect(out chan<- prometheus.Metric) {
	c.asked.Add(1)
	sink(out).put(gauge("slow", "A gauge."), 1)
}

// TestHostileScrapers (row 115): clients that send nothing, send too much, or send requests all the time neither keep others
// from the metrics for long, nor keep the shards busy.
func TestHostileScrapers(t *testing.T) {
	t.Parallel()
	var c slowCollector
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := Serve(l, Handler(nil, &c), nil)
	defer end()
	at := l.Addr().String()

	began := time.Now()
	for i := range maxConnections { // all places
		from := net.IPv4(127, 0, 0, byte(31+i/maxOfAddress))
		silent, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	say := func(request string) string {
		t.Helper()
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() { _, _ = io.WriteString(conn, request) }() // ends with the connection
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	for request, want := range map[string]string{
		"GET /metrics HTTP/1.0\r\n\r\n":                                                       "HTTP/1.0 200",
		"POST /metrics HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde":                            "HTTP/1.0 405",
		"GET /../../etc/passwd HTTP/1.0\r\n\r\n":                                              "HTTP/1.0 ",
		"GET /metrics HTTP/1.0\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n":             "HTTP/1.1 431",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 200) + "\n\n": "HTTP/1.1 400",
	} {
		if got := say(request); !strings.HasPrefix(got, want) || strings.Contains(got, "root:") {
			t.Errorf("%.40q gets %.60q, want %s", request, got, want)
		}
	}
	for range 300 {
		answer, err := http.Get(fmt.Sprintf("http://%s%s", at, Path))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	if asked, most := c.asked.Load(), int64(time.Since(began)/recent.Interval)+2; asked > most {
		t.Errorf("asked %d times in %v", asked, time.Since(began))
	}
}
