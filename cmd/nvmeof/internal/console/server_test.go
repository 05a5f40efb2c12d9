package console

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A rig is a console of a target without listeners, with a token for each role.
type rig struct {
	*server
	t       *testing.T
	dir     string
	tokens  map[control.Role]string
	handler http.Handler
	logs    *observer.ObservedLogs
	audited []control.Operation
}

func newRig(t *testing.T) *rig {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	r := &rig{t: t, dir: t.TempDir(), tokens: map[control.Role]string{}, logs: logs}
	tgt, err := target.New(target.Config{Arena: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	happened := events.New(events.Config{})
	m := control.New(control.Config{Target: tgt, Settings: &config.Document{Version: 1}, Events: happened, Audit: func(o control.Operation) { r.audited = append(r.audited, o) }})
	t.Cleanup(func() { _ = m.Close() })
	r.server = newServer(&Socket{tokens: &token.Keeper{Path: r.writeTokens()}}, Config{Manager: m, Events: happened, Log: zap.New(core), Version: "test"})
	r.handler = r.server.handler()
	return r
}

func (r *rig) writeTokens() string {
	var text strings.Builder
	for _, role := range []control.Role{control.RoleRead, control.RoleOperate, control.RoleAdmin} {
		secret, hash := token.New()
		r.tokens[role] = secret
		fmt.Fprintf(&text, "t-%s %s %x\n", role, role, hash)
	}
	path := filepath.Join(r.dir, "tokens")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// do returns the response to a request, which the change functions may modify.
func (r *rig) do(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	q.Host, q.RemoteAddr = "127.0.0.1:9430", "127.0.0.9:5"
	for _, c := range change {
		c(q)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(q *http.Request) { q.Header.Set(name, value) }
}

// bearer returns what adds the token of a role to a request, or that text if there is no such role.
func (r *rig) bearer(role control.Role) func(*http.Request) {
	text := r.tokens[role]
	if text == "" {
		text = string(role)
	}
	return header("Authorization", "Bearer "+text)
}

// want checks a response.
func (r *rig) want(w *httptest.ResponseRecorder, code int, parts ...string) {
	r.t.Helper()
	body := w.Body.String()
	for _, p := range parts {
		if !strings.Contains(body, p) {
			r.t.Errorf("no %q in\n%s", p, body)
		}
	}
	if w.Code != code {
		r.t.Errorf("%d, want %d:\n%s", w.Code, code, body)
	}
}

func TestAPI(t *testing.T) {
	r := newRig(t)
	const subsystem = `{"nqn": "nqn.2026-11.org.example:a"}`
	r.want(r.do("GET", "/v1/status", ""), 401, `"forbidden"`, "Authorization: Bearer TOKEN")
	r.want(r.do("GET", "/v1/status?token="+r.tokens[control.RoleRead], ""), 401)
	r.want(r.do("GET", "/v1/status", "", header("Authorization", "Basic "+r.tokens[control.RoleRead])), 401)
	r.want(r.do("GET", "/v1/status", "", r.bearer("wrong")), 401, "unknown token")
	r.want(r.do("GET", "/v1/status", "", r.bearer(control.RoleRead)), 200)
	r.want(r.do("POST", "/v1/subsystems", subsystem, r.bearer(control.RoleOperate)), 403, "needs a token with the role admin")
	r.want(r.do("POST", "/v1/subsystems", subsystem, r.bearer(control.RoleAdmin)), 200)
	if o := r.audited[len(r.audited)-1]; o.By.Token != "t-admin" || o.By.Address != "127.0.0.9" {
		t.Errorf("audited %+v", o.By)
	}
	w := r.do("GET", "/v1/config", "", r.bearer(control.RoleRead))
	r.want(w, 200, "org.example:a")
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if w.Header().Get(name) != want {
			t.Errorf("%s: %q", name, w.Header().Get(name))
		}
	}
}

// TestNoWayAround checks that no path of the API is redirected to another one, before or after the token is checked.
func TestNoWayAround(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/v1/subsystems/a/hosts/..", "/v1/../login", "/v1//status", "//v1/subsystems/a/hosts/..", "/x/../v1/subsystems/a", "/./v1/subsystems/a", "/static/../v1/subsystems/a"} {
		r.want(r.do("DELETE", path, ""), 401)
		r.want(r.do("DELETE", path, "", r.bearer(control.RoleRead)), 400, "a segment of the path is empty")
	}
}

// TestNames checks that a site whose own name resolves to this address is rejected.
func TestNames(t *testing.T) {
	r := newRig(t)
	for host, want := range map[string]int{"127.0.0.1:9430": 200, "localhost:9430": 200, "LOCALHOST": 200, "[::1]:9430": 200, "192.0.2.1": 200,
		"evil.example:9430": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:9430": 421, "": 421, "[evil]": 421, "127.0.0.1:9430:x": 421} {
		w := r.do("GET", "/v1/status", "", r.bearer(control.RoleRead), func(q *http.Request) { q.Host = host })
		if w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

// TestFailures checks that an address that sends wrong tokens gets fewer and fewer answers, is logged only as often,
// and keeps no other client out.
func TestFailures(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	r.now = func() time.Time { return now }
	codes := map[int]int{}
	for range 50 {
		w := r.do("GET", "/v1/status", "", r.bearer("wrong"))
		codes[w.Code]++
		if w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if codes[401] != 10 || codes[429] != 40 || r.logs.FilterMessage("console: a token was refused").Len() != 10 {
		t.Errorf("%v, and %d lines", codes, r.logs.Len())
	}
	for _, l := range r.logs.All() {
		if strings.Contains(fmt.Sprint(l.Message, l.ContextMap()), "wrong") {
			t.Error("the log has the token", l)
		}
	}
	r.want(r.do("GET", "/v1/status", "", r.bearer(control.RoleRead)), 200)
	r.want(r.do("GET", "/v1/status", "", r.bearer("wrong"), func(q *http.Request) { q.RemoteAddr = "127.0.0.10:1" }), 401)
	now = now.Add(time.Minute)
	r.want(r.do("GET", "/v1/status", "", r.bearer("wrong")), 401)
}

// TestTokensUnreadable checks that no client is admitted if the tokens cannot be read.
func TestTokensUnreadable(t *testing.T) {
	r := newRig(t)
	if err := os.Remove(filepath.Join(r.dir, "tokens")); err != nil {
		t.Fatal(err)
	}
	r.want(r.do("GET", "/v1/status", "", r.bearer(control.RoleRead)), 503, "its log has the reason")
}

// certify writes a certificate for some names.
func certify(t *testing.T, dir string, names ...string) config.ConsoleTLS {
	t.Helper()
	return certifyFor(t, dir, time.Time{}, time.Now().Add(time.Hour), names...)
}

// certifyFor writes a certificate with a period of validity.
func certifyFor(t *testing.T, dir string, from, to time.Time, names ...string) config.ConsoleTLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "both.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return config.ConsoleTLS{Certificate: config.Path(path), Key: config.Path(path)}
}

func begin(listen func() (net.Listener, error)) (net.Listener, error) { return listen() }

// listenAt opens a document's console at a free port.
func (r *rig) listenAt(c config.ConsoleTLS) *Socket {
	r.t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	at := netip.MustParseAddrPort(free.Addr().String())
	_ = free.Close()
	s, err := Listen(config.Console{Listen: config.HTTPAddress{AddrPort: at}, TLS: c, Tokens: config.Path(r.socket.tokens.Path)}, false, begin)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// TestTLS checks that programs that trust the certificate are admitted, and those that use an old version of TLS, or
// none, are not.
func TestTLS(t *testing.T) {
	r := newRig(t)
	files := certify(t, r.dir, "target.example")
	s := r.listenAt(files)
	defer Serve(s, r.cfg)()
	pool := x509.NewCertPool()
	text, _ := os.ReadFile(string(files.Certificate))
	pool.AppendCertsFromPEM(text)
	get := func(host string, most uint16) (int, error) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: most}}}
		q, _ := http.NewRequest("GET", s.URL()+"v1/status", nil)
		q.Header.Set("Authorization", "Bearer "+r.tokens[control.RoleRead])
		q.Host = host
		a, err := c.Do(q)
		if err != nil {
			return 0, err
		}
		return a.StatusCode, a.Body.Close()
	}
	for host, want := range map[string]int{"": 200, "target.example": 200, "evil.example": 421} {
		if code, err := get(host, 0); code != want || err != nil {
			t.Errorf("%q: %d, %v", host, code, err)
		}
	}
	if code, err := get("", tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken", code)
	}
	if a, err := http.Get(strings.Replace(s.URL(), "https", "http", 1) + "v1/status"); err == nil && a.StatusCode < 400 {
		t.Error("it is served without TLS", a.Status)
	}
}

// TestCertificateDamaged checks that the previous certificate is used while a renewed one is invalid, and that the log
// says so once. If there never was a valid one, no client is admitted, which is logged too.
func TestCertificateDamaged(t *testing.T) {
	r := newRig(t)
	c := &certificate{files: certify(t, r.dir, "target.example"), log: r.cfg.Log}
	path := string(c.files.Certificate)
	good, err := c.renew()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
		if now, err := c.renew(); err != nil || now != good {
			t.Errorf("while it is damaged: %v, %v", now, err)
		}
	}
	if n := r.logs.FilterMessageSnippet("the previous one stays in use").Len(); n != 1 {
		t.Errorf("that is logged %d times", n)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if now, err := c.renew(); err != nil || now == good || r.logs.FilterMessageSnippet("is usable again").Len() != 1 {
		t.Errorf("when it is whole again: %v, %v", now, err)
	}
	never := &certificate{files: config.ConsoleTLS{Certificate: "/no/cert", Key: "/no/key"}, log: r.cfg.Log}
	if now, err := never.renew(); err == nil || r.logs.FilterMessageSnippet("connections are refused").Len() != 1 {
		t.Errorf("one that is not there: %v, %v", now, err)
	}
}

func TestListenRefuses(t *testing.T) {
	r := newRig(t)
	tokens, all := config.Path(r.socket.tokens.Path), config.HTTPAddress{AddrPort: netip.MustParseAddrPort("0.0.0.0:1")}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	here := config.HTTPAddress{AddrPort: netip.MustParseAddrPort(taken.Addr().String())}
	for want, c := range map[string]config.Console{
		"needs a certificate":                 {Listen: all, Tokens: tokens},
		"nvmeof token create":                 {Listen: here, Tokens: "/no/tokens"},
		"certificate: open /no/cert":          {Listen: all, Tokens: tokens, TLS: config.ConsoleTLS{Certificate: "/no/cert", Key: "/no/key"}},
		"another program uses it":             {Listen: here, Tokens: tokens},
		"failed to find any PEM data":         {Listen: all, Tokens: tokens, TLS: config.ConsoleTLS{Certificate: tokens, Key: tokens}},
		"it is not an address of this machin": {Listen: config.HTTPAddress{AddrPort: netip.MustParseAddrPort("192.0.2.1:1")}, Tokens: tokens, TLS: certify(t, r.dir)},
	} {
		if s, err := Listen(c, false, begin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", s, err, want)
		}
	}
	goesOn := func(func() (net.Listener, error)) (net.Listener, error) { return taken, nil }
	if s, err := Listen(config.Console{Listen: here, Tokens: "/no/tokens", TLS: config.ConsoleTLS{Certificate: "/no/cert", Key: "/no/key"}}, true, goesOn); err != nil || s.Unusable() == nil || !strings.HasPrefix(s.URL(), "https:") {
		t.Errorf("a process that goes on ends for files that others have removed, or without TLS: %v", err)
	}
	if s, err := Listen(config.Console{}, false, begin); s != nil || err != nil {
		t.Error(s, err)
	}
}

// TestHostileClients is row 115: clients that send nothing, slowly, or too much keep out no others, neither from their
// own address nor from another. They do not delay the end of the console, for which hosts wait during a takeover.
func TestHostileClients(t *testing.T) {
	r := newRig(t)
	s := r.listenAt(config.ConsoleTLS{})
	end := Serve(s, r.cfg)
	at := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/")
	dial := func(from string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range maxOfAddress { // these send nothing
		defer dial("127.0.0.31").Close()
	}
	over := dial("127.0.0.31")
	defer over.Close()
	if _, err := over.Read(make([]byte, 1)); err == nil {
		t.Error("an address has more connections than it may")
	}
	ask := func(text string) string {
		c := dial("127.0.0.32")
		defer c.Close()
		_, _ = io.WriteString(c, text)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	key := "Host: " + at + "\r\nAuthorization: Bearer " + r.tokens[control.RoleAdmin] + "\r\n"
	for text, want := range map[string]string{
		"GET /v1/status HTTP/1.1\r\n" + key + "\r\n":                                                            "200",
		"GET /v1/status HTTP/1.1\r\n" + key + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n":                  "431",
		"PUT /v1/config HTTP/1.1\r\n" + key + "Content-Length: 1000000000\r\n\r\n" + strings.Repeat("x", 5<<20): "400",
		"GET /v1/status HTTP/1.1\r\nHost: " + at + "\r\n\r\n":                                                   "401",
	} {
		if got := ask(text); !strings.Contains(got, want) {
			t.Errorf("%.60q: %q, want %s", text, got, want)
		}
	}
	began := time.Now()
	if end(); time.Since(began) > time.Second {
		t.Error("clients that send nothing have delayed the end by", time.Since(began))
	}
}
