package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// as serves a request of a caller with the role.
func (r *rig) as(role Role, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	body = strings.ReplaceAll(body, "DIR", r.dir)
	h := HandlerFor(r.Manager, func(*http.Request) Caller { return Caller{"t-" + string(role), "192.0.2.7", role} })
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// TestRoutesHaveRoles: each route and stream has a role, every role belongs to a route, and routes that change
// something need more than RoleRead.
func TestRoutesHaveRoles(t *testing.T) {
	needed := routeRoles()
	seen := map[string]bool{}
	check := func(id, method string) {
		seen[id] = true
		if !RoleAdmin.May(needed[id]) {
			t.Errorf("%s has no role", id)
		}
		if method != http.MethodGet && RoleRead.May(needed[id]) {
			t.Errorf("%s changes something, and who may only read may do it", id)
		}
	}
	for _, r := range routes() {
		check(r.id, r.method)
	}
	for _, s := range streams() {
		check(s.id, http.MethodGet)
	}
	for id := range needed {
		if !seen[id] {
			t.Errorf("%s is no route", id)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		have, need Role
		may        bool
	}{{RoleRead, RoleRead, true}, {RoleRead, RoleOperate, false}, {RoleOperate, RoleRead, true}, {RoleAdmin, RoleAdmin, true}, {"", RoleRead, false}, {"", "", false},
		{"root", RoleRead, false}, {RoleAdmin, "", false}, {RoleAdmin, "root", false}} {
		if c.have.May(c.need) != c.may {
			t.Errorf("%q may do what needs %q: %v", c.have, c.need, !c.may)
		}
	}
}

// TestEveryRouteOfEveryRole: a call that the role does not permit is refused whatever its contents are, and changes
// nothing; one that it permits is not.
func TestEveryRouteOfEveryRole(t *testing.T) {
	var audited []Operation
	r := newRig(t, func(c *Config) { c.Audit = func(o Operation) { audited = append(audited, o) } })
	needed := routeRoles()
	for _, route := range routes() {
		for _, role := range []Role{"", RoleRead, RoleOperate, RoleAdmin} {
			path := strings.NewReplacer("{nqn}", "none", "{nsid}", "1", "{id}", "1", "{host}", "h", "{address}", "192.0.2.1").Replace(route.path)
			audited = nil
			w := r.as(role, route.method, path, "[") // no route accepts this body
			refused := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), `"forbidden"`)
			if refused == role.May(needed[route.id]) {
				t.Errorf("%s %s of %q: %d %s", route.method, path, role, w.Code, w.Body)
			}
			if refused && route.method != http.MethodGet && (len(audited) != 1 || audited[0].By.Token != "t-"+string(role) || audited[0].Result != "forbidden") {
				t.Errorf("%s %s: audited %+v", route.method, path, audited)
			}
		}
	}
	audited = nil
	if w := r.as(RoleRead, "HEAD", "/v1/status", ""); w.Code != http.StatusOK || len(audited) > 0 {
		t.Errorf("HEAD: %d, and audited %+v", w.Code, audited)
	}
	if w := r.as(RoleRead, "GET", "/v1/status", strings.Repeat(" ", maxNoBody+1)); w.Code != http.StatusBadRequest {
		t.Errorf("a long body where a route has none: %d", w.Code)
	}
	for _, size := range []int{maxPart, maxPart + 1} {
		w := r.as(RoleOperate, "PATCH", "/v1/subsystems/none/hosts/h", strings.Repeat(" ", size-2)+"{}")
		if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusNotFound}[size > maxPart]; w.Code != want {
			t.Errorf("a host in %d bytes: %d, want %d", size, w.Code, want)
		}
	}
	for _, path := range []string{"/v1/capture", "/", "/v2"} {
		if w := r.as("", "GET", path, ""); w.Code != http.StatusForbidden {
			t.Errorf("%s of nobody: %d", path, w.Code)
		}
	}
	if w := r.as(RoleOperate, "GET", "/v1/capture", ""); w.Code != http.StatusForbidden {
		t.Errorf("capture: %d", w.Code)
	}
	if w := r.as(RoleOperate, "GET", "/v1/trace?x=1", ""); w.Code != http.StatusBadRequest {
		t.Errorf("trace: %d %s", w.Code, w.Body)
	}
	if w := r.as(RoleRead, "GET", "/v2", ""); w.Code != http.StatusNotFound {
		t.Errorf("no route: %d", w.Code)
	}
}

// withImage returns a document that exports an image of the cluster of a ceph.conf.
func withImage(conf string) *config.Document {
	n := &config.Namespace{NSID: 1, RBD: &config.RBD{Image: "a/b", Conf: config.Path(conf)}}
	return &config.Document{Version: 1, Sandbox: config.Sandbox{Paths: []config.Path{"/"}}, Subsystems: []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{n}}}}
}

// TestImagesOfOperators: a caller that is not an administrator can only use images that the document has already,
// with the same client.
func TestImagesOfOperators(t *testing.T) {
	const conf = "/aside/ceph.conf" // a namespace may have been that file, and a host may have written it
	if err := (&Caller{Role: RoleOperate}).mayName(withImage(""), withImage(conf)); err == nil || !strings.Contains(err.Error(), "the target's Ceph client") {
		t.Errorf("an operator gives an image that is there another ceph.conf: %v", err)
	}
	// An image with the same name in another cluster, or used by another client, is a different one.
	theirs := withImage(conf)
	theirs.Subsystems[0].Namespaces[0].RBD.ID = "tenant"
	for _, now := range []*config.Document{withImage(""), withImage(conf)} {
		if err := (&Caller{Role: RoleOperate}).mayName(theirs, now); err == nil || !strings.Contains(err.Error(), "rbd:a/b") {
			t.Errorf("an operator has an image of another cluster, or by another client: %v", err)
		}
	}
	for role, before := range map[Role]*config.Document{RoleAdmin: withImage(""), RoleOperate: withImage(conf)} {
		if err := (&Caller{Role: role}).mayName(before, withImage(conf)); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// TestFilesOfOperators: a caller that is not an administrator can only name files that the configuration sets
// aside.
func TestFilesOfOperators(t *testing.T) {
	var audited []Operation
	dir := t.TempDir()
	aside := filepath.Join(dir, "aside")
	r := newRig(t, func(c *Config) {
		c.Settings = &config.Document{Version: 1, Sandbox: config.Sandbox{Paths: []config.Path{config.Path(aside), "/dev/aside"}}}
		c.Audit = func(o Operation) { audited = append(audited, o) }
	})
	if w := r.as(RoleAdmin, "POST", "/v1/subsystems", `{"nqn": "a", "namespaces": [{"nsid": 9, "memory": {"size": "1MiB"}}]}`); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	const ns, host = "/v1/subsystems/a/namespaces", "/v1/subsystems/a/hosts"
	forbidden := func(role Role, method, path, body string, want bool) {
		t.Helper()
		w := r.as(role, method, path, body)
		if got := w.Code == http.StatusForbidden; got != want {
			t.Errorf("%s %s %s of %s: %d %s", method, path, body, role, w.Code, w.Body)
		}
	}
	for _, path := range []string{dir + "/disk", aside + "-not", "/etc/shadow", "/"} {
		for _, body := range []string{`{"nsid": 1, "file": {"path": %q, "size": "1MiB"}}`, `{"nsid": 1, "block": {"path": %q}}`, `{"nsid": 1, "memory": {"size": "1MiB"}, "reservations": %q}`, `{"nsid": 1, "rbd": {"image": "a/b", "conf": %q}}`} {
			forbidden(RoleOperate, "POST", ns, fmt.Sprintf(body, path), true)
		}
		forbidden(RoleOperate, "PATCH", ns+"/9", fmt.Sprintf(`{"reservations": %q}`, path), true)
		forbidden(RoleOperate, "POST", host, fmt.Sprintf(`{"nqn": "h", "key-file": %q}`, path), true)
	}
	if within([]config.Path{"/aside"}, "/aside/../disk") || !within([]config.Path{"/"}, "/disk") || !within([]config.Path{"/a/"}, "/a/b") {
		t.Error("within")
	}
	forbidden(RoleOperate, "POST", host, `{"nqn": "h", "controller-key-file": "${HOME}/key"}`, true)
	forbidden(RoleOperate, "POST", host, `{"nqn": "h"}`, false)
	forbidden(RoleOperate, "POST", ns, fmt.Sprintf(`{"nsid": 1, "file": {"path": %q, "size": "1MiB"}}`, aside+"/disk"), false)
	forbidden(RoleOperate, "POST", ns, `{"nsid": 1, "block": {"path": "/dev/aside"}}`, false) // there is none
	forbidden(RoleOperate, "POST", ns, `{"nsid": 2, "memory": {"size": "1MiB"}}`, false)
	forbidden(RoleAdmin, "PATCH", ns+"/9", fmt.Sprintf(`{"reservations": %q}`, dir+"/kept"), false)
	forbidden(RoleOperate, "PATCH", ns+"/9", `{"ana-group": 2}`, false) // a file that was named before is allowed
	forbidden(RoleOperate, "POST", ns, fmt.Sprintf(`{"nsid": 3, "file": {"path": %q}}`, dir+"/kept"), true)
	if err := os.WriteFile(dir+"/key", []byte("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	forbidden(RoleAdmin, "POST", host, fmt.Sprintf(`{"nqn": "k", "key-file": %q}`, dir+"/key"), false)
	forbidden(RoleOperate, "POST", ns, fmt.Sprintf(`{"nsid": 3, "file": {"path": %q}}`, dir+"/key"), true)
	forbidden(RoleOperate, "POST", host, fmt.Sprintf(`{"nqn": "l", "key-file": %q}`, dir+"/key"), false)
	forbidden(RoleOperate, "DELETE", ns+"/2?save=true&file=/tmp/x", "", true)
	forbidden(RoleOperate, "DELETE", ns+"/2", "", false)
	last := audited[len(audited)-1]
	if last.By.Token != "t-operate" || last.By.Address != "192.0.2.7" || last.By.Process != nil || last.Result != "ok" || len(last.Changes) != 1 {
		t.Errorf("audited %+v", last)
	}
}
