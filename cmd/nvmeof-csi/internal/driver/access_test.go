package driver

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A console is the API of a target over TLS, with a token for each role.
type console struct {
	*httptest.Server
	dir string
}

// newConsole makes a console. If at is not empty, its target listens at that address, on the given device. If group is
// not nil, the target is a gateway of it.
func newConsole(t *testing.T, device softroce.Config, at string, group control.Gateways) *console {
	t.Helper()
	c := &console{dir: t.TempDir()}
	var gateway *target.Gateway
	if group != nil {
		gateway = new(target.Gateway)
	}
	tgt, err := target.New(target.Config{Arena: 4 << 20, Gateway: gateway})
	if err != nil {
		t.Fatal(err)
	}
	settings := &config.Document{Version: 1, Sandbox: config.Sandbox{Paths: []config.Path{config.Path(c.dir)}}}
	m := control.New(control.Config{Target: tgt, Settings: settings, File: filepath.Join(c.dir, "saved.yaml"), State: filepath.Join(c.dir, "state"),
		Gateway: gateway, Gateways: group,
		Device: func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
			device := device
			device.Addr = a
			return softroce.Open(device)
		}})
	if at != "" {
		address, err := nvmeof.ParseListen(at)
		if err != nil {
			t.Fatal(err)
		}
		settings.Listeners = []*config.Listener{{ID: 1, Address: config.Address{AddrPort: address}}}
		if _, err := m.Apply(settings, control.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Server = httptest.NewTLSServer(control.HandlerFor(m, func(q *http.Request) control.Caller {
		return control.Caller{Name: "t", Address: "192.0.2.7", Role: control.Role(strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "))}
	}))
	t.Cleanup(func() {
		c.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	c.put(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})))
	return c
}

func (c *console) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// volumes returns the volumes of a driver that has the token of a role. Its target has the name g.
func (c *console) volumes(t *testing.T, role control.Role) *volumes.Set {
	t.Helper()
	c.put(t, "token", string(role))
	set, err := volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "g", Control: c.URL, TokenFile: filepath.Join(c.dir, "token"),
		CAFile: filepath.Join(c.dir, "ca.pem"), Subsystem: subsystemNQN, Directory: c.dir}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// TestTokens checks that the file of the token is read for each call, and that calls that the token does not permit
// fail with the right code.
func TestTokens(t *testing.T) {
	c := newConsole(t, softroce.Config{}, "", nil)
	c.put(t, "csi.yaml", strings.ReplaceAll(`targets:
  - name: remote
    control: `+c.URL+`
    token-file: DIR/token
    ca-file: DIR/ca.pem
    subsystem: `+subsystemNQN+`
    directory: DIR
    addresses: [192.0.2.1]
`, "DIR", c.dir))
	set, err := volumes.Read(filepath.Join(c.dir, "csi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	s := newServices(t, set, nil)
	const a = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
	create := func(code codes.Code) string { return s.create(code, "v", mounting(writer), 1<<20, nil) }
	create(codes.Unavailable) // there is no token
	for token, code := range map[string]codes.Code{"": codes.PermissionDenied, "wrong": codes.PermissionDenied, "read": codes.PermissionDenied, "operate\n": codes.PermissionDenied} {
		c.put(t, "token", token)
		create(code) // the role operate must not add a subsystem
	}
	c.put(t, "token", "admin")
	v := create(codes.OK)
	c.put(t, "token", "operate")
	create(codes.OK)
	if p := s.publish(codes.OK, v, a, mounting(writer)); p[contextAddresses] != "192.0.2.1:4420" || p[contextNQN] != subsystemNQN {
		t.Errorf("nodes are told %v", p)
	}
	if r, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{}); err != nil || r.GetAvailableCapacity() <= 0 {
		t.Errorf("capacity %v, %v", r, err)
	}
	if r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: v}); err != nil || len(r.GetStatus().GetPublishedNodeIds()) != 1 {
		t.Errorf("%v, %v", r, err)
	}
	s.create(codes.PermissionDenied, "elsewhere", mounting(writer), 1<<20, map[string]string{"directory": "/etc"})
	_, err = s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"directory": "/etc"}})
	s.want("capacity of another folder", codes.PermissionDenied, err)
	i := newIdentity("test", zap.NewNop(), set)
	if r, err := i.Probe(t.Context(), nil); err != nil || !r.GetReady().GetValue() {
		t.Errorf("probe: %v, %v", r, err)
	}
	c.put(t, "token", "none")
	_, err = i.Probe(t.Context(), nil)
	s.want("probe with a wrong token", codes.FailedPrecondition, err)
	c.put(t, "token", "operate")
	s.unpublish(codes.OK, v, a)
	s.delete(codes.OK, v)
	c.Server.Close()
	if r, err := i.Probe(t.Context(), nil); err != nil || r.GetReady().GetValue() {
		t.Errorf("probe of nobody: %v, %v", r, err)
	}
	s.delete(codes.Unavailable, v)
}

// through returns the target's volumes for a driver whose calls pass through handle, which may forward them.
func (r *targetRig) through(handle func(w http.ResponseWriter, q *http.Request, forward http.Handler)) *volumes.Set {
	r.t.Helper()
	forward := &httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.Out.URL.Scheme, q.Out.URL.Host = "http", "target" },
		Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", r.socket()) }}}
	path := filepath.Join(r.dir, "between")
	l, err := net.Listen("unix", path)
	if err != nil {
		r.t.Fatal(err)
	}
	between := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { handle(w, q, forward) })}
	go func() { _ = between.Serve(l) }() // ends with Close
	r.t.Cleanup(func() { _ = between.Close() })
	set, err := volumes.New(volumes.Config{Targets: []volumes.TargetConfig{{Name: "t", Control: "unix:" + path, Subsystem: subsystemNQN, Directory: r.dir}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(set.Close)
	return set
}

// TestGrantedMeanwhile checks that a volume is kept if another driver publishes it after this one has seen it unused,
// and before this one deletes it.
func TestGrantedMeanwhile(t *testing.T) {
	r := newTargetRig(t)
	other := newServices(t, r.set, nil)
	const a = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
	v := other.create(codes.OK, "kept", mounting(writer), 1<<20, nil)
	set := r.through(func(w http.ResponseWriter, q *http.Request, forward http.Handler) {
		if strings.HasSuffix(q.URL.Path, "/erase") {
			other.publish(codes.OK, v, a, mounting(writer))
		}
		forward.ServeHTTP(w, q)
	})
	newServices(t, set, nil).delete(codes.FailedPrecondition, v)
	if _, err := os.Stat(filepath.Join(r.dir, "kept.img")); err != nil {
		t.Error(err)
	}
}

// TestConfigurations checks that an invalid file is rejected with the reason.
func TestConfigurations(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "no.pem"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "targets:\n  - {name: a, control: 'unix:/s', subsystem: " + subsystemNQN + ", directory: /srv}\n"
	for text, want := range map[string]string{
		good: "", "\ufeff" + good: "", "": "targets is empty", "# none\n": "the document is empty", "targets: []": "targets is empty", "targets: 1": "", "colour: red": "colour",
		strings.Replace(good, "name: a", "name: 010", 1):                                              "name: is a number, want text; put it in quotes",
		strings.Replace(good, "name: a", "name: true", 1):                                             "want text",
		strings.Replace(good, "/srv", "/srv, pool: 0123", 1):                                          `pool: is a number, want text; put it in quotes: "0123"`,
		strings.Replace(good, "/srv", "/srv, thick: yes", 1):                                          "write true",
		strings.Replace(good, "/srv", "/srv, Pool: rbd", 1):                                           "did you mean pool?",
		strings.Replace(good, "/srv", "/srv, pool: a, pool: b", 1):                                    "given twice",
		good + "---\n" + good:                                                                         "second document",
		strings.Replace(good, "/srv", `"/srv/\udce4"`, 1):                                             "UTF-8",
		good + good[len("targets:\n"):]:                                                               "is used twice",
		strings.Replace(good, "name: a", "name: A/B", 1):                                              "name",
		strings.Replace(good, subsystemNQN, "disk", 1):                                                "subsystem",
		strings.Replace(good, "/srv", "srv", 1):                                                       "directory",
		strings.Replace(good, "unix:/s", "https://192.0.2.1:1", 1):                                    "token-file",
		strings.Replace(good, "/srv", "/srv, addresses: [host]", 1):                                   "addresses",
		strings.Replace(good, "unix:/s'", "ftp://a', token-file: /t", 1):                              "address of a console",
		strings.Replace(good, "unix:/s'", "https://a', token-file: /t, ca-file: '"+dir+"/no.pem'", 1): "no certificate",
		strings.Replace(good, "unix:/s'", "https://a', token-file: /t, ca-file: '"+dir+"/none'", 1):   "ca-file",
	} {
		file := filepath.Join(dir, "csi.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := volumes.Read(file)
		if text == good || text == "\ufeff"+good {
			if err != nil {
				t.Error(err)
			}
			s.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
	if _, err := volumes.Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

// TestHostileClients is row 115: invalid, oversized and very many calls fail for their sender, and others are served.
func TestHostileClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "csi.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Version: "test"})
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(l) }() // ends with Stop
	for range 100 {
		c, err := net.DialTimeout("unix", path, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nnothing of that kind"))
		defer c.Close()
	}
	c, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = csi.NewControllerClient(c).CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: strings.Repeat("n", 8<<20)})
	if code := statusOf(err).Code(); code != codes.ResourceExhausted && code != codes.Unimplemented {
		t.Errorf("8 MiB: %v", err)
	}
	r, err := csi.NewIdentityClient(c).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || r.GetName() != Name || r.GetVendorVersion() != "test" {
		t.Errorf("%v, %v", r, err)
	}
	_ = c.Close()
	d.server.Stop() // the other clients have not disconnected
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNameOfBefore checks that a new volume does not contain the data of an existing file of its name. Such a file may
// belong to a volume whose namespace was removed, or have been left by a gateway that ended. A file without data, as a
// killed process leaves it, is used.
func TestNameOfBefore(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	file := filepath.Join(r.dir, "again.img")
	secret := bytes.Repeat([]byte("secret.."), 512)
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, thick := range []string{"false", "true"} {
		s.create(codes.AlreadyExists, "again", mounting(writer), 1<<20, map[string]string{"thick": thick})
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("the file is not as it was: %d bytes, %v", len(got), err)
	}
	for _, thick := range []string{"false", "true"} {
		if err := errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<20)); err != nil {
			t.Fatal(err)
		}
		v := s.create(codes.OK, "again", mounting(writer), 1<<20, map[string]string{"thick": thick})
		s.create(codes.OK, "again", mounting(writer), 1<<20, map[string]string{"thick": thick})
		s.delete(codes.OK, v)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWritersBesideTheOnlyOne checks that a node that has a volume exclusively, or is its only writer, keeps it so
// whatever mode another node requests later, and whatever process handles the request.
func TestWritersBesideTheOnlyOne(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	const a, b = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000b"
	const oneWrites = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	v := s.create(codes.OK, "one", mounting(writer), 1<<20, nil)
	for _, first := range []*csi.VolumeCapability{mounting(writer), asBlock(writer), asBlock(oneWrites), mounting(allRead)} {
		s.publish(codes.OK, v, a, first)
		s.publish(codes.FailedPrecondition, v, b, asBlock(allWrite))
		s.publish(codes.AlreadyExists, v, a, asBlock(allWrite)) // which would let b have it
		s.publish(codes.OK, v, a, first)
		s.publish(codes.FailedPrecondition, v, b, asBlock(allWrite))
		s.unpublish(codes.OK, v, a)
		s.publish(codes.OK, v, b, asBlock(allWrite))
		s.unpublish(codes.OK, v, "")
	}
	s.delete(codes.OK, v)
}

// TestTargetOfBefore checks grants on a target of an earlier version, which cannot exclude writers: they work as
// before.
func TestTargetOfBefore(t *testing.T) {
	r := newTargetRig(t)
	set := r.through(func(w http.ResponseWriter, q *http.Request, forward http.Handler) {
		body, err := io.ReadAll(q.Body)
		if err != nil || bytes.Contains(body, []byte("no-writer")) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": {"code": "invalid", "message": "no-writer: unknown"}}`)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, q)
	})
	s := newServices(t, set, nil)
	const a, b = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000b"
	v := s.create(codes.OK, "one", mounting(allRead), 1<<20, nil)
	for _, node := range []string{a, b} {
		s.publish(codes.OK, v, node, mounting(allRead))
	}
	s.unpublish(codes.OK, v, "")
	s.publish(codes.OK, v, a, mounting(writer))
	s.publish(codes.FailedPrecondition, v, b, mounting(allRead))
}

// TestReadersBesideAWriter checks that no node gets a volume in a mode without writers while another node writes to
// it, and that a volume for one writer has no second one.
func TestReadersBesideAWriter(t *testing.T) {
	r := newTargetRig(t)
	s := newServices(t, r.set, nil)
	const a, b = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000b"
	const oneWrites = csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	v := s.create(codes.OK, "one", mounting(writer), 1<<20, nil)
	for _, c := range []*csi.VolumeCapability{mounting(writer), asBlock(writer), asBlock(oneWrites), asBlock(allWrite)} {
		s.publish(codes.OK, v, a, c)
		for _, read := range []*csi.VolumeCapability{mounting(allRead), asBlock(allRead), asBlock(oneWrites)} {
			s.publish(codes.FailedPrecondition, v, b, read)
		}
		s.publish(codes.OK, v, a, c)
		s.unpublish(codes.OK, v, "")
	}
	reads := &csi.ControllerPublishVolumeRequest{VolumeId: v, NodeId: b, VolumeCapability: asBlock(oneWrites), Readonly: true}
	for range 2 { // whichever is first
		s.publish(codes.OK, v, a, asBlock(oneWrites))
		_, err := s.ControllerPublishVolume(t.Context(), reads)
		s.want("publish to be read beside a writer", codes.OK, err)
		s.unpublish(codes.OK, v, a)
	}
	s.unpublish(codes.OK, v, "")
	s.delete(codes.OK, v)
}
