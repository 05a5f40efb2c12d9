package connections

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A fake is a Connector whose subsystems are controlled by a test.
type fake struct {
	mu   sync.Mutex
	err  error // of the next connections
	subs map[nvmeof.NQN]*fakeSubsystem
}

type fakeSubsystem struct {
	fake    *fake
	changed func()
	spaces  []Namespace
	err     error // of the other namespaces
	closed  bool
	policy  string
}

type fakeController struct {
	sub    *fakeSubsystem
	status Status
}

func (f *fake) Connect(_ context.Context, paths []Path, changed func()) (Subsystem, []Controller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, nil, f.err
	}
	s := &fakeSubsystem{fake: f, changed: changed}
	f.subs[paths[0].Options.NQN] = s
	return s, []Controller{s.add()}, nil
}

func (s *fakeSubsystem) add() *fakeController { return &fakeController{s, Status{State: Live}} }

func (s *fakeSubsystem) Add(context.Context, Path) (Controller, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	if s.fake.err != nil {
		return nil, s.fake.err
	}
	return s.add(), nil
}

func (s *fakeSubsystem) Waiting() []capsule.NSID { return nil }

func (s *fakeSubsystem) Namespaces(context.Context) ([]Namespace, error) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	return slices.Clone(s.spaces), s.err
}

func (s *fakeSubsystem) Policy() string { return cmp.Or(s.policy, "numa") }

func (s *fakeSubsystem) SetPolicy(name string) error {
	s.policy = name
	return nil
}

func (s *fakeSubsystem) Measure() multipath.Measures { return multipath.Measures{} }

func (s *fakeSubsystem) Close() error { s.closed = true; return nil }

func (c *fakeController) Status() Status {
	c.sub.fake.mu.Lock()
	defer c.sub.fake.mu.Unlock()
	return c.status
}

func (c *fakeController) Disconnect() error { c.set(Dead, nil); return nil }

func (c *fakeController) set(s State, err error) {
	c.sub.fake.mu.Lock()
	c.status.State, c.status.Err = s, err
	c.sub.fake.mu.Unlock()
	c.sub.changed()
}

// A front is a FrontEnd that records what is published.
type front struct {
	mu     sync.Mutex
	disks  []string
	ended  []string // before their controllers were disconnected
	gone   []string // arguments of Gone
	closed int      // number of calls: requests that a disk does not answer end with its subsystem
}

func (f *front) Publish(disks []Disk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disks = nil
	for _, d := range disks {
		f.disks = append(f.disks, d.Name)
	}
}

func (f *front) Gone(disks []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range disks {
		if slices.Contains(f.disks, name) {
			panic(name + " is published")
		}
	}
	f.gone = append(f.gone, disks...)
}

func (f *front) End(disks []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, disks...)
	return nil
}

func (f *front) URI(d nbd.Disk) string { return "disk:" + d.Name }
func (f *front) Close() error          { f.closed++; return nil }

// A rig is a holder of fakes.
type rig struct {
	*testing.T
	fake   *fake
	front  *front
	holder *Holder
	mu     sync.Mutex
	log    []string
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, fake: &fake{subs: map[nvmeof.NQN]*fakeSubsystem{}}, front: &front{}}
	r.holder = New(Config{Dir: t.TempDir(), Connector: r.fake, FrontEnd: r.front, Log: func(line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, line)
	}})
	return r
}

func path(nqn, addr string) Path {
	return Path{Options: host.Options{NQN: nvmeof.NQN(nqn), Traddr: netip.MustParseAddr(addr), Trsvcid: 4420, HostNQN: "me"}}
}

func (r *rig) connect(nqn, addr, want string) {
	r.Helper()
	if name, err := r.holder.Connect(r.Context(), path(nqn, addr)); err != nil || name != want {
		r.Errorf("connected %q, %v, want %s", name, err, want)
	}
}

func (r *rig) controller(name string) *fakeController {
	r.Helper()
	r.holder.mu.Lock()
	defer r.holder.mu.Unlock()
	for _, s := range r.holder.subsystems {
		for _, c := range s.controllers {
			if c.name() == name {
				return c.link.(*fakeController)
			}
		}
	}
	r.Fatalf("there is no %s", name)
	return nil
}

// spaces sets the namespaces of a subsystem.
func (r *rig) spaces(nqn nvmeof.NQN, ids ...capsule.NSID) {
	r.Helper()
	s := r.fake.subs[nqn]
	r.fake.mu.Lock()
	s.spaces = nil
	for _, id := range ids {
		store, err := memory.New(memory.Config{Size: 1 << 20})
		if err != nil {
			r.Fatal(err)
		}
		s.spaces = append(s.spaces, Namespace{ID: id, Store: store})
	}
	r.fake.mu.Unlock()
	s.changed()
	synctest.Wait()
}

func (r *rig) published(want string) {
	r.Helper()
	synctest.Wait()
	r.front.mu.Lock()
	defer r.front.mu.Unlock()
	if got := strings.Join(r.front.disks, " "); got != want {
		r.Errorf("published %q, want %q", got, want)
	}
}

// shape checks the connections in short form: "nvme-subsys0(nvme0 nvme1: nvme0n1)".
func (r *rig) shape(want string) {
	r.Helper()
	synctest.Wait()
	var all []string
	for _, s := range r.holder.Info().Subsystems {
		var cs, ns []string
		for _, c := range s.Controllers {
			cs = append(cs, c.Name)
		}
		for _, n := range s.Namespaces {
			ns = append(ns, n.Name)
		}
		all = append(all, s.Name+"("+strings.Join(cs, " ")+": "+strings.Join(ns, " ")+")")
	}
	if got := strings.Join(all, ", "); got != want {
		r.Errorf("there is %s\nwant %s", got, want)
	}
}

// TestGoneNamespaces checks that no client uses the disks of a subsystem any more when its memory is freed, including
// a disk that was removed before.
func TestGoneNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.spaces("a", 1, 2)
		r.published("nvme0n1 nvme0n2")
		r.spaces("a", 1)
		r.published("nvme0n1")
		r.controller("nvme0").set(Dead, nil)
		r.published("")
		slices.Sort(r.front.gone)
		if !slices.Equal(r.front.gone, []string{"nvme0n1", "nvme0n2"}) {
			t.Errorf("waited for who uses %q", r.front.gone)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fake.err = errors.New("no")
		if _, err := r.holder.Connect(t.Context(), path("a", "192.0.2.1")); !errors.Is(err, r.fake.err) {
			t.Errorf("connected: %v", err)
		}
		r.fake.err = nil
		r.connect("a", "192.0.2.1", "nvme0") // the number is free again
		r.connect("b", "192.0.2.1", "nvme1")
		r.connect("a", "192.0.2.2", "nvme2")
		r.spaces("a", 7, 3)
		r.spaces("b", 1)
		r.shape("nvme-subsys0(nvme0 nvme2: nvme0n1 nvme0n2), nvme-subsys1(nvme1: nvme1n1)")
		r.published("nvme0n1 nvme0n2 nvme1n1")
		if u := r.holder.Info().Subsystems[0].Namespaces[1].URI; u != "disk:nvme0n2" {
			t.Errorf("URI %q", u)
		}
		r.spaces("a", 3, 9)
		r.published("nvme0n2 nvme0n3 nvme1n1") // names are permanent

		r.controller("nvme0").set(Connecting, errors.New("lost it"))
		r.shape("nvme-subsys0(nvme0 nvme2: nvme0n2 nvme0n3), nvme-subsys1(nvme1: nvme1n1)")
		if c := r.holder.Info().Subsystems[0].Controllers[0]; c.State != Connecting || c.Error != "lost it" {
			t.Errorf("%+v", c)
		}
		r.controller("nvme0").set(Dead, errors.New("gave up"))
		r.shape("nvme-subsys0(nvme2: nvme0n2 nvme0n3), nvme-subsys1(nvme1: nvme1n1)")
		if why := r.holder.Info().Lost["nvme0"]; why != "gave up" {
			t.Errorf("nvme0 was given up because of %q", why)
		}
		r.connect("c", "192.0.2.3", "nvme3") // nvme0 is still the subsystem's number
		names, err := r.holder.Disconnect(disconnectRequest{NQN: "a"}.wants)
		if err != nil || !slices.Equal(names, []string{"nvme2"}) || !r.fake.subs["a"].closed {
			t.Errorf("disconnected %q, %v", names, err)
		}
		r.published("nvme1n1")
		r.connect("a", "192.0.2.1", "nvme0")
		want := []string{"nvme0: connecting: lost it", "nvme0: dead: gave up", "nvme2: dead"}
		if !slices.Equal(r.log, want) {
			t.Errorf("logged %q, want %q", r.log, want)
		}
		if err := r.holder.Close(); err != nil || r.front.closed != 2 {
			t.Errorf("closed: %v", err)
		}
		<-r.holder.Idle()
		if _, err := r.holder.Connect(t.Context(), path("a", "192.0.2.1")); !errors.Is(err, errClosed) {
			t.Errorf("connected after the end: %v", err)
		}
		if files, _ := filepath.Glob(r.holder.config.Dir + "/*"); len(files) != 3 { // those of the subsystems
			t.Errorf("%q are left", files)
		}
	})
}

// TestNamesAreKept checks that after any end of a process the next one gives the same disks the same names, and no
// others, in whatever order they are connected and whichever are missing.
func TestNamesAreKept(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(*rig) error
	}{
		{"killed", func(r *rig) error {
			var errs []error
			for _, s := range r.holder.subsystems {
				errs = append(errs, s.claim.file.Close())
			}
			r.holder.subsystems = nil
			return errors.Join(append(errs, r.holder.Close())...)
		}},
		{"ended", func(r *rig) error { return r.holder.Close() }},
		{"disconnected", func(r *rig) error {
			_, err := r.holder.Disconnect(disconnectRequest{}.wants)
			return errors.Join(err, r.holder.Close())
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.connect("a", "192.0.2.1", "nvme0")
				r.connect("b", "192.0.2.1", "nvme1")
				r.spaces("a", 3, 7)
				r.spaces("b", 1)
				r.shape("nvme-subsys0(nvme0: nvme0n1 nvme0n2), nvme-subsys1(nvme1: nvme1n1)")
				if err := end.do(r); err != nil {
					t.Error(err)
				}

				next := newRig(t)
				next.holder.config.Dir = r.holder.config.Dir
				next.fake.err = errors.New("not yet")
				if _, err := next.holder.Connect(t.Context(), path("a", "192.0.2.1")); !errors.Is(err, next.fake.err) {
					t.Errorf("connected: %v", err)
				}
				next.fake.err = nil
				next.connect("b", "192.0.2.1", "nvme1")
				next.connect("b", "192.0.2.2", "nvme2")
				next.connect("c", "192.0.2.1", "nvme3")
				next.connect("a", "192.0.2.1", "nvme0")
				next.spaces("a", 7)
				next.spaces("a", 7, 9)
				next.shape("nvme-subsys1(nvme1 nvme2: ), nvme-subsys3(nvme3: ), nvme-subsys0(nvme0: nvme0n2 nvme0n3)")
				if err := next.holder.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClaimOfOthers checks that the number of another subsystem is taken if there is no other, and then no longer
// belongs to that subsystem. A file that cannot be decoded counts as another subsystem's.
func TestClaimOfOthers(t *testing.T) {
	had := map[int]nvmeof.NQN{0: "b", 3: "a", 5: "a"}
	turn := inTurn(had, "a")
	if !slices.Equal(turn[:4], []int{3, 5, 1, 2}) || len(turn) != maxNumber || turn[maxNumber-1] != 0 {
		t.Errorf("tried are %v and so on, at the end %d", turn[:4], turn[maxNumber-1])
	}
	if turn = inTurn(had, ""); !slices.Equal(turn[:4], []int{1, 2, 4, 6}) {
		t.Errorf("for another path tried are %v and so on", turn[:4])
	}
	dir := t.TempDir()
	for n, text := range []string{`{"subsystem":"b","name`, `{"subsystem":"a","namespaces":{"5":4}}` + "\n}}\n"} {
		if err := os.WriteFile(claimPath(dir, n), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for nqn, want := range map[nvmeof.NQN]int{"a": 1, "b": 2} {
		if c, err := claimNumber(dir, nqn); err != nil || c.number != want || c.past.Namespaces[5] != 4 && nqn == "a" {
			t.Errorf("%s: %+v, %v, want number %d", nqn, c, err, want)
		}
	}
}

// TestClaims checks that a number belongs to one holder, and is free when that ends.
func TestClaims(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var wait sync.WaitGroup
	claims := make([]*claim, 20)
	for i := range claims {
		wait.Go(func() {
			c, err := claimNumber(dir, "")
			if err != nil {
				t.Error(err)
			}
			claims[i] = c
		})
	}
	wait.Wait()
	seen := map[int]bool{}
	for _, c := range claims {
		if seen[c.number] || c.number >= len(claims) {
			t.Errorf("number %d", c.number)
		}
		seen[c.number] = true
	}
	for range 50 { // concurrent release and claim
		for _, i := range []int{3, 7} {
			wait.Go(func() {
				if err := claims[i].release(); err != nil {
					t.Error(err)
				}
				c, err := claimNumber(dir, "")
				if err != nil {
					t.Error(err)
				}
				claims[i] = c
			})
		}
		wait.Wait()
		if claims[3].number == claims[7].number {
			t.Fatalf("both have %d", claims[3].number)
		}
	}
	claims[5].file.Close() // as when the process ends
	if c, err := claimNumber(dir, ""); err != nil || c.number != claims[5].number {
		t.Errorf("%+v, %v, want number %d", c, err, claims[5].number)
	}
}

// serve runs a holder with a socket in a directory of its own. connect is called to connect for others.
func serve(t *testing.T, connect func(h *Holder, options map[string]string, borrower *Process) (string, error)) (*Holder, *Process) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := New(Config{Dir: filepath.Join(dir, "run"), Connector: &fake{subs: map[nvmeof.NQN]*fakeSubsystem{}}})
	s, err := Serve(h, Services{
		Connect:  func(_ context.Context, o map[string]string, p *Process) (string, error) { return connect(h, o, p) },
		Discover: func(_ context.Context, o map[string]string) ([]byte, error) { return []byte(o["traddr"]), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), h.Close()); err != nil {
			t.Error(err)
		}
		if all, err := All(context.Background(), h.config.Dir); err != nil || len(all) != 0 {
			t.Errorf("after the end: %+v, %v", all, err)
		}
	})
	all, err := All(t.Context(), h.config.Dir)
	if err != nil || len(all) != 1 || all[0].PID != os.Getpid() {
		t.Fatalf("%+v, %v", all, err)
	}
	return h, &all[0]
}

func TestSocket(t *testing.T) {
	h, p := serve(t, nil)
	// A process that ended without removing its socket.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.config.Dir, "1.0.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if all, err := All(t.Context(), h.config.Dir); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.config.Dir, "*.sock")); len(left) != 1 {
		t.Errorf("sockets %q", left)
	}
	for path, want := range map[string]os.FileMode{h.config.Dir: 0o700, p.Socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	for _, body := range []string{"", "{", `{"what":1}`, strings.Repeat("x", maxBody+1)} {
		if code := post(t, p.Socket, "/v1/disconnect", body); code != http.StatusBadRequest {
			t.Errorf("%.20q is answered with %d", body, code)
		}
	}
}

// TestCalls checks that one process connects and disconnects for another.
func TestCalls(t *testing.T) {
	asked := map[string]string{}
	h, p := serve(t, func(h *Holder, o map[string]string, borrower *Process) (string, error) {
		asked = o
		if o["nqn"] == "none" {
			return "", errors.New("there is none")
		}
		one := path(o["nqn"], "192.0.2.1")
		one.Borrower = borrower.Socket
		return h.Connect(t.Context(), one)
	})
	if name, err := p.Connect(t.Context(), map[string]string{"nqn": "a", "tos": "3"}, "/elsewhere/7.0.sock"); err != nil || name != "nvme0" || asked["tos"] != "3" {
		t.Errorf("connected %q, %v", name, err)
	}
	if _, err := p.Connect(t.Context(), map[string]string{"nqn": "none"}, "7.0.sock"); err == nil || err.Error() != "there is none" {
		t.Errorf("connected: %v", err)
	}
	if log, err := p.Discover(t.Context(), map[string]string{"traddr": "192.0.2.1"}); err != nil || string(log) != "192.0.2.1" {
		t.Errorf("discovered %q, %v", log, err)
	}
	now, err := p.Info(t.Context())
	if err != nil || len(now.Subsystems) != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	if c, ok := Find([]Process{now}, Wanted{NQN: "a", HostNQN: "me", Traddr: "192.0.2.1", Trsvcid: "4420"}); !ok || c.Name != "nvme0" || c.Address() != "traddr=192.0.2.1,trsvcid=4420" {
		t.Errorf("found %+v, %v", c, ok)
	}
	if at := now.Subsystems[0].Controllers[0].Borrower; at != filepath.Join(h.config.Dir, "7.0.sock") {
		t.Errorf("held for %q", at)
	}
	for _, name := range []string{"../7.0.sock", "nvme0.lock", "[", "7.0.sock/.."} {
		if code := post(t, p.Socket, "/v1/connect?"+url.Values{borrowerKey: {name}}.Encode(), "{}"); code != http.StatusBadRequest {
			t.Errorf("a connection for %s is answered with %d", name, code)
		}
	}
	if _, ok := Find([]Process{now}, Wanted{NQN: "a", HostNQN: "you", Traddr: "192.0.2.1", Trsvcid: "4420"}); ok {
		t.Error("found another host's controller")
	}
	if names, err := p.Disconnect(t.Context(), "", "/dev/nvme0", ""); err != nil || !slices.Equal(names, []string{"nvme0"}) {
		t.Errorf("disconnected %q, %v", names, err)
	}
}

func post(t *testing.T, socket, path, body string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	r, err := client.Post("http://host"+path, "application/json", bytes.NewReader([]byte(body)))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return http.StatusBadRequest // the server closed the connection before everything was written, and its response is lost
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

func TestDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{map[string]string{"NVMEOF_RUN_DIR": "/x", "XDG_RUNTIME_DIR": "/run/user/1"}, 1, "/x"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/1"}, 1, "/run/user/1/nvmeof/host"},
		{map[string]string{"HOME": "/home/me"}, 1, "/home/me/.local/state/nvmeof/host"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/0", "HOME": "/root"}, 0, "/run/nvmeof-host"},
	} {
		if got := Dir(func(s string) string { return c.env[s] }, c.uid); got != c.want {
			t.Errorf("%v, %d: %s, want %s", c.env, c.uid, got, c.want)
		}
	}
}
