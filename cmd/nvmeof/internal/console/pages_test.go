package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

const nqn = "nqn.2026-11.org.example:a"

// signIn signs in with the token of a role, and returns what adds the session to later requests.
func (r *rig) signIn(role control.Role) func(*http.Request) {
	r.t.Helper()
	w := r.do("POST", "/login", url.Values{"token": {" " + r.tokens[role] + "\n"}}.Encode(), form)
	r.want(w, http.StatusSeeOther)
	all := w.Result().Cookies()
	if len(all) != 1 || !all[0].HttpOnly || all[0].SameSite != http.SameSiteStrictMode || all[0].Path != "/" || all[0].Domain != "" || all[0].Secure {
		r.t.Fatalf("cookies %v", all)
	}
	return func(q *http.Request) { q.AddCookie(&http.Cookie{Name: all[0].Name, Value: all[0].Value}) }
}

func form(q *http.Request) { q.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// act sends a form, and returns the message on the next page.
func (r *rig) act(as func(*http.Request), fields ...string) string {
	r.t.Helper()
	f := url.Values{"nqn": {nqn}}
	for i := 0; i+1 < len(fields); i += 2 {
		f.Set(fields[i], fields[i+1])
	}
	w := r.do("POST", "/do", f.Encode(), form, as)
	if w.Code != http.StatusSeeOther {
		return w.Body.String()
	}
	return r.do("GET", w.Header().Get("Location"), "", as).Body.String()
}

// subsystem adds a subsystem.
func (r *rig) subsystem(name string) {
	r.t.Helper()
	body := `{"nqn": "` + name + `", "namespaces": [{"nsid": 1, "memory": {"size": "1MiB"}}], "hosts": [{"nqn": "nqn.2026-11.org.example:host"}]}`
	r.want(r.do("POST", "/v1/subsystems", body, r.bearer(control.RoleAdmin)), 200)
}

var pagePaths = []string{"/", "/subsystem?nqn=" + nqn, "/namespace?nsid=1&nqn=" + nqn, "/connections", "/events", "/health", "/live?nsid=1&nqn=" + nqn}

// TestPages checks that each page is available to signed-in users of each role, and to nobody else.
func TestPages(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	for _, path := range append(pagePaths, "/none") {
		if w := r.do("GET", path, ""); w.Code != http.StatusSeeOther && w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), nqn) {
			t.Errorf("%s without a session: %d %s", path, w.Code, w.Body)
		}
		if w := r.do("GET", path, "", r.bearer(control.RoleAdmin)); w.Code == http.StatusOK {
			t.Errorf("%s with the token of a program: %d", path, w.Code)
		}
		w := r.do("GET", path, "", header("HX-Request", "true"))
		if w.Code != http.StatusUnauthorized || w.Header().Get("HX-Redirect") != "/login" {
			t.Errorf("%s read again after the session: %d", path, w.Code)
		}
	}
	for _, role := range []control.Role{control.RoleRead, control.RoleOperate} {
		as := r.signIn(role)
		for _, path := range pagePaths {
			r.want(r.do("GET", path, "", as), 200)
		}
		r.want(r.do("GET", "/", "", as), 200, nqn, "memory", "t-"+string(role))
		r.want(r.do("GET", "/none", "", as), 404)
		found := r.do("GET", "/subsystem?q=mem&nqn="+nqn, "", as).Body.String()
		if !strings.Contains(found, `<input type="hidden" name="nqn" value="`+nqn+`">`) || !strings.Contains(found, `hx-get="/subsystem"`) {
			t.Errorf("who looks for a namespace leaves the subsystem:\n%s", found)
		}
		r.want(r.do("GET", "/subsystem?nqn=x", "", as), 404)
		r.want(r.do("GET", "/namespace?nsid=7&nqn="+nqn, "", as), 404)
		has := strings.Contains(r.do("GET", "/subsystem?nqn="+nqn, "", as).Body.String(), "Add a namespace")
		if has != role.May(control.RoleOperate) {
			t.Errorf("%s: forms %v", role, has)
		}
		r.want(r.do("GET", "/login", "", as), 303)
	}
	for _, path := range []string{"/static/app.js", "/static/style.css", "/static/vendor/htmx.min.js", "/static/vendor/uPlot.LICENSE", "/login"} {
		r.want(r.do("GET", path, ""), 200)
	}
}

// TestPagesHaveNoInline checks that pages have no inline scripts or styles, which their policy forbids.
func TestPagesHaveNoInline(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	as := r.signIn(control.RoleAdmin)
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*src=)?[^>]*>[^<]|<style|\sstyle=|\son\w+=|javascript:|https?://`)
	for _, path := range append(pagePaths, "/login") {
		w := r.do("GET", path, "", as)
		if m := inline.FindString(w.Body.String()); m != "" {
			t.Errorf("%s has %q", path, m)
		}
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: %s", path, p)
		}
	}
}

// TestActions submits each form.
func TestActions(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	as := r.signIn(control.RoleOperate)
	for _, c := range []struct {
		want   string
		fields []string
	}{
		{"Done: namespace 2 is added.", []string{"action", "add-namespace", "nsid", "2", "kind", "memory", "size", "2MiB"}},
		{"exists already", []string{"action", "add-namespace", "nsid", "2", "kind", "memory", "size", "2MiB"}},
		{"sandbox.paths", []string{"action", "add-namespace", "nsid", "3", "kind", "file", "path", filepath.Join(r.dir, "disk"), "size", "2MiB"}},
		{"sandbox.paths", []string{"action", "add-namespace", "nsid", "3", "kind", "block", "path", "/dev/null"}},
		{"", []string{"action", "add-namespace", "nsid", "x", "kind", "none"}},
		{"Done: namespace 2 is read-only.", []string{"action", "protect", "nsid", "2"}},
		{"Done: namespace 2 is writable.", []string{"action", "unprotect", "nsid", "2"}},
		{"are held until it is resumed, for 5s at most", []string{"action", "pause", "nsid", "2", "limit", "5s"}},
		{"Done: commands to namespace 2 are executed again.", []string{"action", "resume", "nsid", "2"}},
		{`role="alert"`, []string{"action", "resize", "nsid", "2", "size", "4MiB"}}, // memory has a fixed size
		{`role="alert"`, []string{"action", "clear-fault", "nsid", "9"}},
		{"Done: namespace 2 is removed.", []string{"action", "remove-namespace", "nsid", "2"}},
		{"Done: host nqn.2026-11.org.example:h2 may connect.", []string{"action", "allow-host", "host", "nqn.2026-11.org.example:h2", "access", "read"}},
		{"may no longer connect", []string{"action", "remove-host", "host", "nqn.2026-11.org.example:h2"}},
		{"no such action", []string{"action", "applyConfig"}},
		{`role="alert"`, []string{"action", "disconnect", "id", "../../../config"}},
		{`role="alert"`, []string{"action", "remove-host", "host", ".."}},
		{`role="alert"`, []string{"action", "remove-namespace", "nsid", ""}},
		{`role="alert"`, []string{"action", "protect", "nsid", "1", "save", "1"}}, // there is no configuration file
	} {
		if got := r.act(as, c.fields...); !strings.Contains(got, c.want) {
			t.Errorf("%q: no %q in\n%s", c.fields, c.want, got)
		}
	}
	x := find(r.cfg.Manager.Document(), nqn)
	if len(x.Namespaces) != 1 || len(x.Hosts) != 1 {
		t.Errorf("left: %d namespaces, %d hosts", len(x.Namespaces), len(x.Hosts))
	}
	for _, o := range r.audited {
		if o.By.Token != "t-operate" && o.Name != "addSubsystem" {
			t.Errorf("audited %+v", o)
		}
	}
	reader := r.signIn(control.RoleRead)
	for _, action := range []string{"add-namespace", "protect", "pause", "resume", "clear-fault", "remove-namespace", "allow-host", "remove-host", "disconnect", "resize"} {
		if got := r.act(reader, "action", action, "nsid", "1", "host", "h", "id", "1"); !strings.Contains(got, "needs a token with the role operate") {
			t.Errorf("%s with the role read:\n%s", action, got)
		}
	}
	r.want(r.do("POST", "/do", strings.Repeat("x", maxForm+1), form, as), 404, "too long")
}

// TestPagesReadNoBodies checks that a page is shown without reading a multipart body.
func TestPagesReadNoBodies(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	as := r.signIn(control.RoleRead)
	for _, path := range pagePaths {
		body := strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1<<20) + "\r\n--b--\r\n")
		w := r.do("GET", path, "", as, header("Content-Type", "multipart/form-data; boundary=b"), func(q *http.Request) { q.Body = io.NopCloser(body) })
		if taken := int(body.Size()) - body.Len(); w.Code != http.StatusOK || taken > 2*maxForm {
			t.Errorf("%s: %d, %d bytes of a body were taken", path, w.Code, taken)
		}
	}
}

// TestOtherSites checks that requests that another site has a browser send change nothing.
func TestOtherSites(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	as := r.signIn(control.RoleOperate)
	remove := url.Values{"action": {"remove-namespace"}, "nqn": {nqn}, "nsid": {"1"}}.Encode()
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		for _, path := range []string{"/do", "/login", "/logout"} {
			r.want(r.do("POST", path, remove, form, as, header(name, value)), http.StatusForbidden)
		}
	}
	r.want(r.do("POST", "/do", remove, form, as, header("Sec-Fetch-Site", "same-site")), http.StatusForbidden)
	r.want(r.do("POST", "/do", remove, form, as, func(q *http.Request) { q.Host = "evil.example" }), http.StatusMisdirectedRequest)
	r.want(r.do("GET", "/do?"+remove, "", as), http.StatusNotFound)
	if x := find(r.cfg.Manager.Document(), nqn); len(x.Namespaces) != 1 {
		t.Error("another site has removed a namespace")
	}
	r.want(r.do("POST", "/do", remove, form, as, header("Sec-Fetch-Site", "same-origin"), header("Origin", "http://127.0.0.1:9430")), http.StatusSeeOther)
}

// TestHostileTexts checks that names and events are shown as text.
func TestHostileTexts(t *testing.T) {
	r := newRig(t)
	const evil = `nqn.2026-11.org.example:"><img src=x onerror=alert(1)>'`
	body := `{"nqn": "nqn.2026-11.org.example:\"><img src=x onerror=alert(1)>'", "hosts": [{"nqn": "nqn.2026-11.org.example:</td><script>alert(2)</script>"}], "namespaces": [{"nsid": 1, "memory": {"size": "1MiB"}}]}`
	r.want(r.do("POST", "/v1/subsystems", body, r.bearer(control.RoleAdmin)), 200)
	r.cfg.Events.Record(events.Event{Kind: events.Refused, Severity: events.Warning, Host: "<script>alert(3)</script>", Text: "</table><script>alert(4)</script>\x1b[2J\u202e"})
	as := r.signIn(control.RoleOperate)
	q := url.QueryEscape(evil)
	for _, path := range []string{"/", "/?q=%22%3E%3Cscript%3Ealert(5)%3C/script%3E", "/subsystem?nqn=" + q, "/namespace?nsid=1&nqn=" + q, "/events", "/health", "/connections?q=%22%3E%3Cscript%3E", "/none%3Cscript%3E"} {
		text := r.do("GET", path, "", as).Body.String()
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, "\x1b") || strings.Contains(text, "\u202e") {
			t.Errorf("%s:\n%s", path, text)
		}
	}
	if got := r.act(as, "action", "allow-host", "nqn", evil, "host", "<script>alert(6)</script>"); strings.Contains(got, "<script>") {
		t.Error(got)
	}
	if got := quoted("a'b$(x)"); got != `'a'\''b$(x)'` {
		t.Error(got)
	}
}

// TestSessions checks that each sign-in has a new session, which ends when it is unused, after a maximum time, with a
// sign-out, and with its token.
func TestSessions(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	r.now = func() time.Time { return now }
	open := func(as func(*http.Request)) bool { return r.do("GET", "/", "", as).Code == http.StatusOK }
	fixed := func(q *http.Request) { q.AddCookie(&http.Cookie{Name: "nvmeof-9430", Value: "chosen"}) }
	w := r.do("POST", "/login", url.Values{"token": {r.tokens[control.RoleRead]}}.Encode(), form, fixed)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].Value == "chosen" || open(fixed) {
		t.Error("a session that somebody chose counts", c)
	}
	other := func(q *http.Request) { q.Host = "127.0.0.1:9431" }
	w = r.do("POST", "/login", url.Values{"token": {r.tokens[control.RoleRead]}}.Encode(), form, other)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].Name != "nvmeof-9431" {
		t.Error("consoles at two ports have the same cookie", c)
	}
	a := r.signIn(control.RoleRead)
	b := r.signIn(control.RoleRead)
	r.do("POST", "/logout", "", form, b)
	if !open(a) || open(b) {
		t.Error("signing out", open(a), open(b))
	}
	b = r.signIn(control.RoleRead)
	r.do("POST", "/login", url.Values{"token": {r.tokens[control.RoleAdmin]}}.Encode(), form, b)
	if open(b) {
		t.Error("the session before goes on after another token was entered")
	}
	b = r.signIn(control.RoleRead)
	for range 30 {
		now = now.Add(idleTime - time.Minute)
		if !open(a) {
			break
		}
	}
	if open(a) || open(b) {
		t.Error("sessions do not end")
	}
	a, b = r.signIn(control.RoleAdmin), r.signIn(control.RoleRead)
	if err := os.WriteFile(filepath.Join(r.dir, "tokens"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.socket.tokens = &token.Keeper{Path: r.socket.tokens.Path} // which reads the file at once
	if open(a) || open(b) {
		t.Error("sessions outlive their token")
	}
}

func TestManySessions(t *testing.T) {
	var s sessions
	now := time.Now()
	mine := s.begin(token.Hash{1}, now)
	for range 3 * maxOfOneToken {
		s.begin(token.Hash{2}, now.Add(time.Second))
	}
	if _, ok := s.use(mine, now); !ok || len(s.all) != maxOfOneToken+1 {
		t.Error("a token has ended another's sessions, or has too many:", len(s.all))
	}
	for i := range 2 * maxSessions {
		s.begin(token.Hash{3, byte(i), byte(i >> 8)}, now.Add(time.Second))
	}
	if len(s.all) > maxSessions {
		t.Error(len(s.all))
	}
	s.say("none", "x", "y")
	if done, wrong := s.take("none"); done != "" || wrong != "" {
		t.Error(done, wrong)
	}
}

// TestLoginFailures checks that oversized forms and wrong tokens are answered with a page, and count like those of
// programs.
func TestLoginFailures(t *testing.T) {
	r := newRig(t)
	enter := func(text string) *httptest.ResponseRecorder {
		return r.do("POST", "/login", url.Values{"token": {text}}.Encode(), form)
	}
	for range 10 {
		r.want(enter("wrong"), 401, "unknown token", "<form")
	}
	r.want(enter("wrong"), 429, "try again later")
	r.want(enter(strings.Repeat("x", maxForm)), 400, "too long")
	r.want(enter(r.tokens[control.RoleRead]), 303)
	r.want(r.do("POST", "/login?token="+r.tokens[control.RoleRead], "", form), 429) // a token in the URL would be logged
}

// TestPaged checks that thousands of namespaces are divided into pages.
func TestPaged(t *testing.T) {
	all := make([]int, 250)
	for i := range all {
		all[i] = i
	}
	text := func(i *int) string { return strings.Repeat("x", *i%7) }
	for path, want := range map[string][4]int{"/": {1, 100, 0, 2}, "/?page=2": {101, 200, 1, 3}, "/?page=3": {201, 250, 2, 0}, "/?page=99": {201, 250, 2, 0}, "/?page=-1": {1, 100, 0, 2}, "/?q=xxxxxx": {1, 35, 0, 0}, "/?q=y": {0, 0, 0, 0}} {
		l := some(httptest.NewRequest("GET", path, nil), all, text)
		if got := [4]int{l.From, l.To, l.Previous, l.Next}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestErasing checks that the health page shows what a group is erasing, and why that has failed.
func TestErasing(t *testing.T) {
	s, w := newRig(t).server, httptest.NewRecorder()
	s.render(w, http.StatusOK, "health", page{View: healthView{Erasing: []*config.Erasing{
		{Subsystem: nqn, Namespace: &config.Namespace{NSID: 7, RBD: &config.RBD{Image: "disks/<b>"}}, Why: "the cluster is <i>full"},
	}}})
	for _, want := range []string{"being erased", nqn + "/7 ", "disks/&lt;b&gt;", "retrying: the cluster is &lt;i&gt;full"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in %s", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), "All stores and listeners are ready") {
		t.Error("all is well")
	}
}

// TestStates checks that pages show the state of a namespace as the commands do.
func TestStates(t *testing.T) {
	r := newRig(t)
	r.subsystem(nqn)
	as := r.signIn(control.RoleOperate)
	all := func(want ...string) {
		t.Helper()
		for _, path := range []string{"/", "/subsystem?nqn=" + nqn, "/namespace?nsid=1&nqn=" + nqn} {
			r.want(r.do("GET", path, "", as), 200, want...)
		}
	}
	all(`<span class="tag good">ready</span>`)
	if text := r.act(as, "nsid", "1", "action", "pause", "limit", "25s"); !strings.Contains(text, `<span class="tag">paused</span>`) {
		t.Errorf("paused: %s", text)
	}
	all(`<span class="tag">paused</span>`)
	r.act(as, "nsid", "1", "action", "resume")
	r.act(as, "nsid", "1", "action", "protect")
	all(`<span class="tag good">ready</span> <span class="tag">protected</span></`)
}

// TestStateWords checks the words for each state of a namespace.
func TestStateWords(t *testing.T) {
	for want, test := range map[string]struct {
		n      config.Namespace
		served control.Served
	}{
		"":                    {},
		"paused":              {served: control.Served{Paused: true}},
		"protected":           {config.Namespace{ReadOnly: true}, control.Served{ReadOnly: true}},
		"read-only store":     {served: control.Served{ReadOnly: true}},
		"protected by a host": {served: control.Served{Protected: control.ProtectedByHost}},
		"paused, protected, protected by a host until the target ends": {config.Namespace{ReadOnly: true}, control.Served{Paused: true, Protected: control.ProtectedUntilOff}},
	} {
		if got := strings.Join(stateOf(&test.n, nil, &test.served, "").Words, ", "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
