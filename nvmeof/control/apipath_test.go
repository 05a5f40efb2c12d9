package control

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNamesOfDots: a host can have a name that a path would treat as the parent folder, and a client that does not
// escape it changes nothing.
func TestNamesOfDots(t *testing.T) {
	r := newAPIRig(t)
	r.do("POST", "/v1/subsystems", `{"nqn": "a"}`, nil)
	for _, name := range []string{"..", ".", "...", "a/../b", "%2E%2E", "a/", "?x#y"} {
		at := Path("subsystems", "a", "hosts", name)
		var missing *Error
		if err := r.client.Do(t.Context(), "DELETE", at, nil, nil, nil); !errors.As(err, &missing) || missing.Code != CodeNotFound || !strings.Contains(missing.Message, "host ") {
			t.Fatalf("%q, which is not there: %v", name, err)
		}
		r.do("POST", "/v1/subsystems/a/hosts", `{"nqn": "`+name+`"}`, nil)
		r.do("PATCH", at, `{"access": "read"}`, nil)
		r.do("DELETE", at, "", nil)
	}
	for _, path := range []string{"/v1/subsystems/a/hosts/..", "/v1/subsystems/a/hosts/.", "/v1/subsystems//a", "/v1/x/../subsystems/a", "//v1/subsystems/a"} {
		r.refused(CodeInvalid, "DELETE", path, "")
	}
	r.refused(CodeNotFound, "DELETE", "/v1/subsystems/a/hosts/", "")
	if n := len(r.Document().Subsystems); n != 1 {
		t.Fatalf("%d subsystems are left", n)
	}
}

// TestSocketClientStays: a client does not follow a redirection to another object than it was asked to change.
func TestSocketClientStays(t *testing.T) {
	r := newAPIRig(t)
	s := httptest.NewServer(http.RedirectHandler("/v1/status", http.StatusTemporaryRedirect))
	defer s.Close()
	r.client.base, r.client.http.Transport = s.URL, http.DefaultTransport
	if err := r.client.Do(t.Context(), "GET", "/v1/subsystems", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("followed: %v", err)
	}
}
