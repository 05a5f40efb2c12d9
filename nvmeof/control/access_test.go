package control

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// refused makes a call that is refused with a code.
func (r *apiRig) refused(code Code, method, path, body string, options ...string) {
	r.t.Helper()
	var e *Error
	body = strings.ReplaceAll(body, "DIR", r.dir)
	if err := r.client.Do(r.t.Context(), method, path, options, []byte(body), nil); !errors.As(err, &e) || e.Code != code {
		r.t.Errorf("%s %s %s: %v, want %s", method, path, body, err, code)
	}
}

const accessed = `{"nqn": "a", "namespaces": [{"nsid": 1, "file": {"path": "DIR/a1", "size": "1MiB"}},
	{"nsid": 2, "memory": {"size": "1MiB"}}, {"nsid": 3, "file": {"path": "DIR/a3"}}],
	"hosts": [{"nqn": "all"}, {"nqn": "keyed", "access": "none", "namespaces": [{"nsid": 1, "access": "read"}], "key-file": "DIR/key"}]}`

func newAccessRig(t *testing.T) *apiRig {
	r := newAPIRig(t)
	if err := os.WriteFile(filepath.Join(r.dir, "key"), []byte("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "a3"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/v1/listeners", `{"id": 1, "address": "ADDR"}`, nil)
	r.do("POST", "/v1/subsystems", accessed, nil)
	return r
}

// TestGrants: a host gets one namespace and no other, and what was granted is withdrawn without a trace.
func TestGrants(t *testing.T) {
	r := newAccessRig(t)
	const ns = "/v1/subsystems/a/namespaces/"
	before := string(r.Document().YAML())
	r.do("DELETE", ns+"2/hosts/nobody", "", nil)
	r.do("PUT", ns+"2/hosts/h", `{}`, nil)
	r.do("PUT", ns+"2/hosts/h", `{"access": "read"}`, nil)
	r.do("PUT", ns+"1/hosts/h", `{"access": "write"}`, nil)
	h, err := hosts(r.Document().Subsystems[0]).find("h")
	if err != nil || h.Access != "none" || len(h.Namespaces) != 2 || *h.Namespaces[0] != (config.Right{NSID: 2, Access: "read"}) {
		t.Fatalf("%v, %v", h, err)
	}
	r.refused(CodeInUse, "PUT", ns+"2/hosts/other", `{"only": true}`)
	r.do("DELETE", ns+"2/hosts/all", "", nil)
	r.refused(CodeInUse, "PUT", ns+"2/hosts/other", `{"only": true}`)
	r.do("PUT", ns+"2/hosts/h", `{"only": true}`, nil)
	r.do("DELETE", ns+"2/hosts/h", "", nil)
	r.do("PUT", ns+"2/hosts/other", `{"only": true}`, nil)
	r.refused(CodeNotFound, "PUT", ns+"9/hosts/h", `{}`)
	r.refused(CodeInvalid, "PUT", ns+"2/hosts/h", `{"access": "none"}`)
	r.refused(CodeInvalid, "PUT", ns+"x/hosts/h", `{}`)
	r.refused(CodeInvalid, "PUT", ns+"2/hosts/"+strings.Repeat("n", 300), `{}`)
	r.refused(CodeNotFound, "DELETE", "/v1/subsystems/b/namespaces/1/hosts/h", "")
	r.do("DELETE", ns+"2/hosts/other", "", nil, "dry-run")
	for _, path := range []string{"2/hosts/other", "1/hosts/h", "1/hosts/keyed"} {
		r.do("DELETE", ns+path, "", nil)
	}
	r.do("PUT", ns+"1/hosts/keyed", `{"access": "read"}`, nil)
	r.do("PUT", ns+"2/hosts/all", `{}`, nil)
	r.do("PATCH", "/v1/subsystems/a/hosts/all", `{"namespaces": null}`, nil)
	if after := string(r.Document().YAML()); after != before {
		t.Errorf("it is now\n%s\nand was\n%s", after, before)
	}

	r.do("PATCH", "/v1/subsystems/a", `{"allow-any-host": true}`, nil)
	r.do("DELETE", ns+"2/hosts/stranger", "", nil)
	if s := r.Document().Subsystems[0]; sees(s, "stranger", 2) || !sees(s, "stranger", 1) {
		t.Error("any host is allowed, and what one of them has lost it has yet, or more")
	}
	r.refused(CodeInUse, "PUT", ns+"2/hosts/stranger", `{"only": true}`)

	r.do("PUT", ns+"2/hosts/anybody", `{"access": "read"}`, nil)
	s := r.Document().Subsystems[0]
	if h, err := hosts(s).find("anybody"); err != nil || !sees(s, "anybody", 1) || !sees(s, "anybody", 3) || h.Access == "read" {
		t.Errorf("any host is allowed, and one that gets a namespace loses others: %v, %v", h, err)
	}
	r.do("DELETE", ns+"2/hosts/anybody", "", nil)
	if s := r.Document().Subsystems[0]; sees(s, "anybody", 2) || !sees(s, "anybody", 1) {
		t.Error("what was granted is not withdrawn, or more is")
	}
}

// TestGrantsThatExclude: whom a grant excludes has nothing beside it later either, until it is withdrawn, or granted
// again without that; what is recorded of it is in the document.
func TestGrantsThatExclude(t *testing.T) {
	r := newAccessRig(t)
	const ns = "/v1/subsystems/a/namespaces/2/hosts/"
	r.do("DELETE", ns+"all", "", nil)
	r.do("PUT", ns+"h", `{"only": true}`, nil)
	for _, body := range []string{`{}`, `{"access": "read"}`, `{"only": true}`, `{"no-writer": true}`} {
		r.refused(CodeInUse, "PUT", ns+"other", body)
	}
	h, err := hosts(r.Document().Subsystems[0]).find("h")
	if err != nil || *h.Namespaces[0] != (config.Right{NSID: 2, Access: "write", Only: true}) {
		t.Fatalf("%v, %v", h, err)
	}
	r.do("PUT", ns+"h", `{"access": "read", "no-writer": true}`, nil)
	r.refused(CodeInUse, "PUT", ns+"other", `{}`)
	r.do("PUT", ns+"other", `{"access": "read"}`, nil)
	r.do("PUT", ns+"h", `{"access": "read"}`, nil)
	r.do("PUT", ns+"other", `{}`, nil)
	r.refused(CodeInUse, "PUT", ns+"h", `{"access": "read", "no-writer": true}`)
	r.do("DELETE", ns+"other", "", nil)
	r.do("PUT", ns+"h", `{"only": true}`, nil)
	r.do("DELETE", ns+"h", "", nil)
	r.do("PUT", ns+"other", `{}`, nil)
}

// TestErase: the file goes with the namespace and all rights to it, at once or, after a crash between
// the two, by asking again; what the target has not made stays.
func TestErase(t *testing.T) {
	r := newAccessRig(t)
	const ns = "/v1/subsystems/a/namespaces/"
	r.refused(CodeInvalid, "POST", ns+"3/erase", "")
	r.refused(CodeNotFound, "POST", ns+"9/erase", "")
	r.refused(CodeNotFound, "POST", "/v1/subsystems/b/namespaces/1/erase", "")
	r.do("POST", "/v1/subsystems", `{"nqn": "b"}`, nil)
	r.do("PATCH", ns+"1", `{"shared": true}`, nil)
	r.do("POST", "/v1/subsystems/b/namespaces", `{"nsid": 1, "shared": true, "file": {"path": "DIR/a1", "size": "1MiB"}}`, nil)
	r.refused(CodeInvalid, "POST", ns+"1/erase", "")
	r.do("DELETE", "/v1/subsystems/b/namespaces/1", "", nil)

	d, err := softroce.Open(softroce.Config{Addr: r.addr.Next()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	hst, err := host.New(host.Config{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	defer hst.Close()
	c, err := hst.Connect(t.Context(), host.Options{Traddr: r.addr, NQN: "a", HostNQN: "all", HostID: capsule.HostID{1}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.Namespace(t.Context(), capsule.NSID(1))
	if err != nil {
		t.Fatal(err)
	}
	r.refused(CodeInUse, "POST", ns+"1/erase", "")
	const another = "uuid=11111111-2222-4333-8444-555555555555"
	for method, path := range map[string]string{"POST": ns + "1/erase", "PATCH": ns + "1", "DELETE": ns + "1/hosts/all", "PUT": ns + "1/hosts/all"} {
		r.refused(CodeNotFound, method, path, "{}", another)
		r.refused(CodeInvalid, method, path, "{}", "uuid=1")
	}
	r.do("DELETE", ns+"1/hosts/all", "", nil)
	if _, err := n.WriteAt(make([]byte, 4096), 0); err == nil {
		t.Error("a host writes to what was withdrawn from it")
	}
	if err := os.Remove(filepath.Join(r.dir, "a1")); err != nil { // as an erasure that ended half way
		t.Fatal(err)
	}
	r.do("POST", ns+"1/erase", "", nil, "dry-run")
	r.do("POST", ns+"1/erase", "", nil)
	r.refused(CodeNotFound, "POST", ns+"1/erase", "")
	r.do("POST", ns+"2/erase", "", nil, "force")
	for _, h := range r.Document().Subsystems[0].Hosts {
		if len(h.Namespaces) > 0 {
			t.Errorf("%s has rights to what is no more: %+v", h.NQN, h.Namespaces[0])
		}
	}
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 7, "file": {"path": "DIR/a7", "size": "1MiB"}}`, nil)
	if _, err := Erase(r.Manager, "a", 7, Options{Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(r.dir, "a7")); err == nil {
		t.Error("the file of an erased namespace is there")
	}
}

// TestEmpty: with the option empty a namespace is added only if its file has no data; then it is not touched.
func TestEmpty(t *testing.T) {
	r := newAccessRig(t)
	const namespaces, body = "/v1/subsystems/a/namespaces", `{"nsid": 7, "file": {"path": "DIR/a7", "size": "1MiB"}}`
	path := filepath.Join(r.dir, "a7")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.refused(CodeNotEmpty, "POST", namespaces, body, "empty")
	r.refused(CodeNotEmpty, "POST", namespaces, body, "empty", "dry-run")
	r.refused(CodeInvalid, "PATCH", namespaces+"/1", "{}", "empty")
	if text, err := os.ReadFile(path); err != nil || string(text) != "data" {
		t.Errorf("it has %q, %v", text, err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	r.do("POST", namespaces, body, nil, "empty")
	r.do("POST", namespaces, `{"nsid": 8, "file": {"path": "DIR/a8", "size": "1MiB"}}`, nil, "empty")
	r.do("POST", namespaces, `{"nsid": 9, "memory": {"size": "1MiB"}}`, nil, "empty")
}

// TestEraseLink: a path that is a symbolic link goes with what it leads to, also where an erasure before has come so far that
// it leads nowhere.
func TestEraseLink(t *testing.T) {
	r := newAccessRig(t)
	file, link := filepath.Join(t.TempDir(), "data"), filepath.Join(r.dir, "link")
	for _, half := range []bool{false, true} {
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 7, "file": {"path": "DIR/link", "size": "1MiB"}}`, nil)
		if half {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		r.do("POST", "/v1/subsystems/a/namespaces/7/erase", "", nil, "force")
		for _, path := range []string{file, link} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("half %v: %s of an erased namespace: %v", half, path, err)
			}
		}
	}
}

// TestEraseMark: where the mark of a file is in another one that goes too.
func TestEraseMark(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	r, dir := newAccessRig(t), t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil { // which has no extended attributes
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	left := func() (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Name())
		}
		return names
	}
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 7, "file": {"path": "`+filepath.Join(dir, "f")+`", "size": "1MiB", "thin": true, "buffered": true}}`, nil)
	if names := left(); !slices.Equal(names, []string{".f.mark", "f"}) {
		t.Errorf("there are %q", names)
	}
	r.do("POST", "/v1/subsystems/a/namespaces/7/erase", "", nil)
	if names := left(); len(names) > 0 {
		t.Errorf("left are %q", names)
	}
}

// TestEraseWithdrawn: where that is asked for, what a host may use is not erased, though none is connected and whatever
// else is said.
func TestEraseWithdrawn(t *testing.T) {
	r := newAccessRig(t)
	const ns = "/v1/subsystems/a/namespaces/"
	for _, host := range []string{"all", "keyed"} {
		r.refused(CodeInUse, "POST", ns+"1/erase", "", "withdrawn")
		r.refused(CodeInUse, "POST", ns+"1/erase", "", "withdrawn", "force")
		r.do("DELETE", ns+"1/hosts/"+host, "", nil)
	}
	r.refused(CodeNotFound, "POST", "/v1/subsystems/b/namespaces/1/erase", "", "withdrawn")
	r.do("POST", ns+"1/erase", "", nil, "withdrawn")
	r.do("POST", ns+"2/erase", "", nil)
}

// TestErasureFails: what cannot be erased is served as before.
func TestErasureFails(t *testing.T) {
	r := newAccessRig(t)
	path := filepath.Join(r.dir, "a1")
	then := func() error { return errors.New("no such luck") }
	_, err := r.Edit(func(d *config.Document) error { return namespaces(d.Subsystems[0]).remove("1") }, Options{Force: true, then: then})
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("%v", err)
	}
	if _, err := namespace(r.target.Subsystems()[0], 1); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	r.wantState(r.Document())
}

func TestCapacity(t *testing.T) {
	r := newAccessRig(t)
	var c Capacity
	r.do("GET", "/v1/capacity", "", &c, "path="+r.dir)
	if c.Path != r.dir || c.Free <= 0 || c.Size < c.Free {
		t.Errorf("%+v", c)
	}
	r.refused(CodeInvalid, "GET", "/v1/capacity", "")
	r.refused(CodeInvalid, "GET", "/v1/capacity", "", "path=/nowhere/at/all")
	r.refused(CodeInvalid, "GET", "/v1/capacity", "", "path=relative")
	if w := r.as(RoleOperate, "GET", "/v1/capacity?path=/etc", ""); w.Code != http.StatusForbidden {
		t.Errorf("an operator looks at %s", w.Body)
	}
	if w := r.as(RoleOperate, "POST", "/v1/subsystems/a/namespaces/1/erase?force=true", ""); w.Code != http.StatusForbidden {
		t.Errorf("an operator erases what is in no folder for that: %s", w.Body)
	}
}

// TestRemoteClient: the token goes with each call, as it is then, and nowhere else.
func TestRemoteClient(t *testing.T) {
	r := newRig(t)
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got = append(got, q.Header.Get("Authorization"))
		if q.URL.Path == "/v1/away" {
			http.Redirect(w, q, "/v1/status", http.StatusTemporaryRedirect)
			return
		}
		HandlerFor(r.Manager, func(*http.Request) Caller { return Caller{"t", "192.0.2.7", RoleRead} }).ServeHTTP(w, q)
	}))
	defer s.Close()
	token, failed := "one", error(nil)
	tokens := func() (string, error) { return token, failed }
	c, err := NewRemoteClient(s.URL, tokens, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var status Status
	if err := c.Do(t.Context(), "GET", "/v1/status", nil, nil, &status); err != nil || status.PID != os.Getpid() || time.Since(status.Now) > time.Minute {
		t.Errorf("%+v, %v", status, err)
	}
	token = "two"
	if err := c.Do(t.Context(), "GET", "/v1/away", nil, nil, nil); err == nil {
		t.Error("a redirection is followed")
	}
	if failed = os.ErrNotExist; c.Do(t.Context(), "GET", "/v1/status", nil, nil, nil) == nil {
		t.Error("there is no token, and it is called")
	}
	if strings.Join(got, ";") != "Bearer one;Bearer two" {
		t.Errorf("the tokens were %q", got)
	}
	for _, wrong := range []string{"", "192.0.2.1:9430", "ftp://a", "https://", "https://a/b", "https://u@a", "http://a?b", ":"} {
		if _, err := NewRemoteClient(wrong, tokens, nil); err == nil {
			t.Errorf("%q is an address", wrong)
		}
	}
	for address, safe := range map[string]bool{"http://192.0.2.1:9430": false, "http://target.example:9430": false, "http://[fe80::1%25eth0]:9430": false, "http://127.0.0.1.example:9430": false,
		"https://192.0.2.1:9430": true, "http://127.0.0.9:9430": true, "http://[::1]:9430": true, "http://localhost:9430": true} {
		if _, err := NewRemoteClient(address, tokens, nil); (err == nil) != safe {
			t.Errorf("%s, to which a token is sent: %v", address, err)
		}
	}
	if _, err := NewRemoteClient(s.URL, nil, nil); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a client that has no token: %v", err)
	}
	s.Close()
	failed = nil
	if err := c.Do(t.Context(), "GET", "/v1/status", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "console") {
		t.Errorf("of nobody: %v", err)
	}
}

// TestCallerLeaves: a change that waits for another one is not made once its caller has gone: who has given up granting a namespace, and
// withdraws it, has it withdrawn, in whatever order the two get their turn.
func TestCallerLeaves(t *testing.T) {
	r := newAccessRig(t)
	before := string(r.Document().YAML())
	h := Handler(r.Manager)
	for path, body := range map[string]string{
		"PUT /v1/subsystems/a/namespaces/2/hosts/h": `{}`, "POST /v1/subsystems/a/hosts": `{"nqn": "h"}`,
		"POST /v1/subsystems/a/namespaces": `{"nsid": 4, "memory": {"size": "1MiB"}}`, "POST /v1/subsystems/a/namespaces/1/erase": "",
		"PUT /v1/config": `{"version": 1}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		ctx, leave := context.WithCancel(t.Context())
		q, w := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)), httptest.NewRecorder()
		ended := make(chan struct{})
		r.mu.Lock() // a change is being made
		go func() { // ends with the call
			defer close(ended)
			h.ServeHTTP(w, q)
		}()
		leave()
		r.mu.Unlock()
		<-ended
		if w.Code == http.StatusOK {
			t.Errorf("%s %s was carried out for nobody", method, path)
		}
	}
	if after := string(r.Document().YAML()); after != before {
		t.Errorf("it is now\n%s\nand was\n%s", after, before)
	}
}
