package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/test/soak/internal/relay"
)

// A lab is one run: the targets, the hosts and the network between them.
type lab struct {
	o       *options
	addrs   addresses
	sockets string // directory of the Unix sockets, because their paths must be short
	program string
	gremlin string // empty: no attacks
	spaces  []*space
	relay   *relay.Relay
	wire    *wire // to the guest; nil: no guest
	targets map[string]*targetState
	hosts   []*hostState
	story   *story
	usage   *os.File   // usage.csv: time, piece, process, bytes of memory, descriptors, threads, goroutines
	wrong   chan error // a violation

	mu      sync.Mutex // guards what follows, and the states of hosts
	totals  totals
	samples map[string][]sample // by the name of a process that is not killed
	since   map[string]time.Time
	// attacked is when the last attack began or ended.
	attacked time.Time
}

// A targetState is a target. The holder of mu owns its process. mu is locked before the lab's mu.
type targetState struct {
	name string
	api  *control.Client
	mu   sync.Mutex
	proc *process
}

func newLab(o *options) (*lab, error) {
	l := &lab{o: o, program: o.program, spaces: spaces(), targets: map[string]*targetState{}, wrong: make(chan error, 1),
		samples: map[string][]sample{}, since: map[string]time.Time{}, story: &story{began: time.Now()}}
	var err error
	if l.totals, err = loadTotals(l.path("totals.json")); err != nil {
		return nil, err
	}
	if l.sockets, err = os.MkdirTemp("", "s"); err != nil {
		return nil, err
	}
	if l.story.file, err = os.OpenFile(l.path("story.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if l.usage, err = os.OpenFile(l.path("usage.csv"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if err := l.build(); err != nil {
		return nil, err
	}
	for _, p := range hostPlans() {
		l.hosts = append(l.hosts, &hostState{plan: p})
	}
	if err := l.keys(); err != nil {
		return nil, err
	}
	return l, l.network()
}

// build builds the programs that are run.
func (l *lab) build() error {
	if l.program == "" {
		l.program = l.path("bin", "nvmeof")
		if err := goBuild(l.program, "github.com/nvmeof-go/nvmeof/cmd/nvmeof"); err != nil {
			return err
		}
	}
	switch l.o.gremlin {
	case "none":
	case "auto":
		l.gremlin = l.path("bin", "gremlin")
		if err := goBuild(l.gremlin, "github.com/nvmeof-go/nvmeof/test/gremlin"); err != nil {
			l.story.add("soak", "without gremlin: %v", err)
			l.gremlin = ""
		}
	default:
		l.gremlin = l.o.gremlin
	}
	return nil
}

func goBuild(to, pkg string) error {
	out, err := exec.Command("go", "build", "-o", to, pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// keys generates the hosts' keys, once for each directory.
func (l *lab) keys() error {
	for _, h := range l.hosts {
		for i, kind := range []string{".key", ".ctrl.key"} {
			path := l.path("files", h.plan.name+kind)
			if _, err := os.Stat(path); err == nil || i >= h.plan.keys {
				continue
			}
			k, err := auth.GenerateKey(auth.HashSHA256, rand.Reader)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(k.Text()+"\n"), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// key returns the text of a host's key, or of the target's key for that host.
func (l *lab) key(h *hostPlan, i int) (string, error) {
	if h.keys <= i {
		return "", nil
	}
	b, err := os.ReadFile(l.path("files", h.name+[]string{".key", ".ctrl.key"}[i]))
	return string(b), err
}

// network finds a free /24 network of the loopback and starts the relay there.
func (l *lab) network() error {
	var errs []error
	for range 20 {
		n, err := rand.Int(rand.Reader, big.NewInt(60*250))
		if err != nil {
			return err
		}
		l.addrs.net = [3]byte{127, byte(100 + n.Int64()/250), byte(1 + n.Int64()%250)}
		if err = l.startRelay(); err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *lab) startRelay() error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addrs.at(listenerBase), relay.Port)))
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	f := l.o.loss
	r := relay.New(relay.Faults{Loss: f, Duplicate: f / 2, Reorder: f / 2}, l.o.seed)
	for _, t := range targets() {
		for id := 1; id <= 2; id++ {
			if err := r.AddListener(l.addrs.listener(t, id), l.addrs.front(t, id)); err != nil {
				return errors.Join(err, r.Close())
			}
		}
	}
	for i := range l.hosts {
		if err := r.AddHost(l.addrs.at(hostBase+i), l.addrs.at(aliasBase+i)); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	l.relay = r
	if l.o.guest {
		if err := l.addGuest(); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	r.Start()
	return nil
}

// soak runs everything until ctx ends or a check fails.
func (l *lab) soak(ctx context.Context) error {
	l.begin()
	fmt.Printf("soak: seed %d, piece %d, in %s, addresses %v to %v\n", l.o.seed, l.totals.Pieces, l.o.dir, l.addrs.at(0), l.addrs.at(255))
	defer func() { _ = l.relay.Close() }()
	for _, name := range targets() {
		if err := l.setUp(ctx, name); err != nil {
			l.stop()
			return err
		}
	}
	for i, h := range l.hosts {
		if err := l.startHost(i, h); err != nil {
			l.stop()
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var actors sync.WaitGroup
	for i, actor := range []func(context.Context, *mathrand.Rand){l.killTargets, l.killHosts, l.churn, l.attack, l.linux, l.watch} {
		actors.Go(func() { actor(ctx, mathrand.New(mathrand.NewPCG(l.o.seed, uint64(i)))) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-l.wrong:
	}
	cancel()
	if err != nil {
		err = l.tale(err)
	}
	actors.Wait()
	if late := l.stop(); err == nil && late != nil {
		err = l.tale(late)
	}
	select {
	case more := <-l.wrong: // reported while the run was ending
		if err == nil {
			err = l.tale(more)
		}
	default:
	}
	if err == nil {
		err = l.verdict()
	}
	return err
}

// violation records a failed check and ends the run.
func (l *lab) violation(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.story.add("VIOLATION", "%v", err)
	select {
	case l.wrong <- err:
	default:
	}
}

// tale writes an error and the events before it to a file, and returns the error with the file's path.
func (l *lab) tale(err error) error {
	text := fmt.Sprintf("%v\n\n# what happened before\n%s\n", err, l.story.text())
	for name, p := range l.processes() {
		text += fmt.Sprintf("\n# what %s said last\n", name)
		for _, s := range p.lines() {
			text += s + "\n"
		}
	}
	path := l.path(time.Now().UTC().Format("violation-20060102-150405.txt"))
	if werr := os.WriteFile(path, []byte(text), 0o600); werr != nil {
		return errors.Join(err, werr)
	}
	fmt.Fprintln(os.Stderr, text)
	return fmt.Errorf("%w (story: %s)", err, path)
}

// setUp creates the files of a target and starts it. Namespaces in memory start empty.
func (l *lab) setUp(ctx context.Context, name string) error {
	if err := os.WriteFile(l.path("files", name+".yaml"), []byte(l.document(name)), 0o600); err != nil {
		return err
	}
	for _, s := range l.spaces {
		if s.target == name && s.memory {
			if err := os.RemoveAll(l.table(s)); err != nil {
				return err
			}
		}
	}
	t := &targetState{name: name, api: control.NewClient(filepath.Join(l.sockets, name+".sock"))}
	l.targets[name] = t
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.startTarget(ctx, t)
}

func (l *lab) table(s *space) string { return l.path("tables", s.name()) }

// startTarget starts a target's process and waits until it serves everything. The caller holds t.mu.
func (l *lab) startTarget(ctx context.Context, t *targetState) (err error) {
	t.proc, err = start(t.name, nil, []string{"STATE_DIRECTORY=" + l.path("files")}, l.program, "target", "--config", l.path("files", t.name+".yaml"), "--socket", filepath.Join(l.sockets, t.name+".sock"))
	if err != nil {
		return err
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var s control.Status
		err := t.api.Do(ctx, "GET", "/v1/status", nil, nil, &s)
		if err == nil && s.PID == t.proc.pid() && len(s.Waiting) == 0 && s.Listeners == 2 {
			return nil
		}
		if t.proc.unexpected() || time.Now().After(limit) {
			return fmt.Errorf("target %s does not serve: %w, waiting %v\n%v", t.name, err, s.Waiting, t.proc.lines())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// processes returns all running processes by name.
func (l *lab) processes() map[string]*process {
	all := map[string]*process{}
	for name, t := range l.targets {
		if t.proc != nil {
			all["target "+name] = t.proc
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		if h.client != nil {
			all["host "+h.plan.name] = h.client
		}
		if h.attach != nil {
			all["attach "+h.plan.name] = h.attach
		}
	}
	return all
}

// stop ends all processes in order: clients, so that no requests are in progress, then attach, then targets. The error
// lists the processes that did not end.
func (l *lab) stop() error {
	var late []error
	end := func(what string, p *process) {
		if p != nil && !p.finish(40*time.Second) {
			late = append(late, fmt.Errorf("%s does not end within 40 s of an interrupt", what))
		}
	}
	var all sync.WaitGroup
	for _, h := range l.hosts {
		all.Go(func() {
			if h.client != nil {
				h.ending.Store(true)
			}
			end("the client of "+h.plan.name, h.client)
		})
	}
	all.Wait()
	for _, h := range l.hosts {
		end("attach of "+h.plan.name, h.attach)
	}
	for _, t := range l.targets {
		end("target "+t.name, t.proc)
	}
	return errors.Join(late...)
}
