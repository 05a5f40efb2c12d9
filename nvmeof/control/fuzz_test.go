package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// fuzzNames replace the variables of paths.
var fuzzNames = []string{"a", "1", "h1", "2", "nqn.2014-08.org.example:b", "0", "-1", "99999999999999999999", "%", "192.0.2.9", "\xff"}

// FuzzRequests makes arbitrary API calls in turn. Each is answered in JSON, a refused one changes nothing, and
// afterwards the target has a valid document.
func FuzzRequests(f *testing.F) {
	all := routes()
	bodies := []string{`{"id": 1, "address": "192.0.2.2"}`, `{"nqn": "a"}`, `{"nqn": "h1", "access": "read"}`, `{"nsid": 1, "memory": {"size": 1048576}, "ana-group": 2}`,
		`{"group": 2, "state": "non-optimized"}`, `{"address": "192.0.2.9"}`, `{"version": 1, "subsystems": [{"nqn": "a", "namespaces": [{"nsid": 1, "memory": {"size": "1MiB"}}]}]}`,
		`{"limit": "1ms"}`, `{"size": "2MiB"}`, `{"read-only": true}`, `{"access": null}`, `[`, "a: b\n"}
	for i := 0; i < len(all); i += 4 { // a target for each
		f.Add([]byte{byte(i), byte(i), 1, byte(i), byte(i + 1), 0}, bodies[1], bodies[i%len(bodies)], "dry-run=true")
		f.Add([]byte{byte(i), 0, 0, byte(i), 0, 1}, bodies[6], bodies[i%len(bodies)], "")
	}
	network := rdmatest.NewLoopback()
	f.Fuzz(func(t *testing.T, calls []byte, first, second, query string) {
		// No call can reach a file: an absolute path has a slash.
		if strings.ContainsAny(first+second+query, `/\%`) {
			return
		}
		r := newRig(t, func(c *Config) {
			c.Device = func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
				return network.Open(a, rdmatest.Attrs())
			}
		})
		r.apply(r.doc("version: 1\nsubsystems:\n  - nqn: a\n    hosts:\n      - nqn: h1\n    namespaces:\n      - nsid: 1\n        memory:\n          size: 1MiB\n"))
		h := Handler(r.Manager)
		for n := 0; len(calls) >= 3 && n < 4; n, calls = n+1, calls[3:] {
			route := all[int(calls[0])%len(all)]
			path := route.path
			for i, name := range route.parameters() {
				value := fuzzNames[int(calls[1+i%2])%len(fuzzNames)]
				path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
			}
			body := first
			if n%2 == 1 {
				body = second
			}
			q := httptest.NewRequest(route.method, path, strings.NewReader(body))
			q.URL.RawQuery = query
			before := r.Document().JSON()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			after := r.Document()
			switch text := w.Body.Bytes(); {
			case w.Code != http.StatusNotFound && w.Code != http.StatusMovedPermanently && w.Code != http.StatusTemporaryRedirect && !json.Valid(text):
				t.Fatalf("%s %s: %d, which is no JSON:\n%s", route.method, path, w.Code, text)
			case (w.Code != http.StatusOK || route.method == "GET" || query == "dry-run=true" && route.answer != nil && route.id != "pauseNamespace") && !bytes.Equal(after.JSON(), before):
				t.Fatalf("%s %s: %d, but the target changed:\n%s", route.method, path, w.Code, after.YAML())
			}
			if again, _, err := config.Parse("again", after.JSON()); err != nil || !bytes.Equal(again.JSON(), after.JSON()) {
				t.Fatalf("after %s %s: %v\n%s", route.method, path, err, after.YAML())
			}
		}
	})
}

// FuzzPaths makes a call with any method, path, query and body. It is answered, in JSON if the path belongs to the
// API, and changes nothing unless it succeeds.
func FuzzPaths(f *testing.F) {
	f.Add("GET", "/v1/status", "", "")
	f.Add("PUT", "/v1/config", "dry-run=maybe", "version: 1")
	f.Add("PATCH", "/v1/subsystems/a/namespaces/1", "a=%zz&;", `{"size": "2MiB"}`)
	f.Add("POST", "/v1/subsystems/%2e%2e%2f/hosts", "", `{"nqn": "h2"}`)
	f.Add("DELETE", "/v1/subsystems/a/hosts/h1", "", "")
	f.Add("DELETE", "//v1/../v1/subsystems/a", "", "")
	f.Add("GET", "/v1/subsystems/\x00/namespaces/\xff", "", "")
	f.Add("CONNECT", "/v1", "", "")
	f.Add("PRI", "*", "", "SM")
	for _, r := range routes() {
		f.Add(r.method, strings.NewReplacer("{nqn}", "a", "{nsid}", "1", "{id}", "1").Replace(r.path), "wait=1ns&dry-run=1", "{}")
	}
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if strings.ContainsAny(body, `/\\`) { // as in FuzzRequests
			return
		}
		text := method + " " + (&url.URL{Path: path, RawQuery: query}).RequestURI() + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return // the server does not call the handler either
		}
		// Some calls wait for an event, which does not occur here.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := newRig(t)
		r.apply(r.doc("version: 1\nsubsystems:\n  - nqn: a\n    hosts:\n      - nqn: h1\n    namespaces:\n      - nsid: 1\n        memory:\n          size: 1MiB\n"))
		before := r.Document().JSON()
		w := httptest.NewRecorder()
		Handler(r.Manager).ServeHTTP(w, q.WithContext(ctx))
		after := r.Document()
		if w.Code != http.StatusOK && !bytes.Equal(after.JSON(), before) {
			t.Fatalf("%q: %d, but the target changed:\n%s", text, w.Code, after.YAML())
		}
		if again, _, err := config.Parse("again", after.JSON()); err != nil || !bytes.Equal(again.JSON(), after.JSON()) {
			t.Fatalf("after %q: %v\n%s", text, err, after.YAML())
		}
	})
}
