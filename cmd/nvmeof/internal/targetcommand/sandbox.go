package targetcommand

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/sandbox"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Values of --sandbox.
const (
	sandboxAuto = "auto"
	sandboxOn   = "on"
	sandboxOff  = "off"

	sandboxHelp = "auto, on or off: on denies the target, before it serves, the system calls that it does not need, and all files outside the directories of its exports and of sandbox.paths in the configuration, and fails if the kernel cannot; auto denies what the kernel can, and files only if sandbox.paths is set or --socket is " + noSocket
)

func parseSandbox(s string) (string, error) {
	switch s {
	case sandboxAuto, sandboxOn, sandboxOff:
		return s, nil
	}
	return "", failure.Usagef("--sandbox %s: want auto, on or off", s)
}

// Enter is the type of [sandbox.Enter].
type Enter func(*sandbox.Places) *sandbox.Sandbox

// A confinement is the sandbox of a process; the zero value is none.
type confinement struct{ *sandbox.Sandbox }

// enterSandbox enters the sandbox, after the steps that only a start needs and before peers can reach anything.
func (d *Daemon) enterSandbox(socket *control.Socket) error {
	if d.enter == nil || d.sandbox == sandboxOff || d.within.Sandbox != nil { // it continues after another process has not taken over
		return nil
	}
	if why := d.unconfinable(); why != nil {
		if d.sandbox == sandboxOn {
			return sandboxFailure("system calls are not filtered", why)
		}
		d.Log.Info("sandbox", zap.String("system calls", "not filtered: "+why.Error()))
		return nil
	}
	// Administrators of a running target add files at places that were not named before. Without a list of places this
	// must remain possible.
	var places *sandbox.Places
	if d.sandbox == sandboxOn || len(d.Document.Sandbox.Paths) > 0 || socket == nil && d.Socket == noSocket {
		places = d.places(socket)
	}
	var rdma error
	if places != nil && d.mayUseRDMA() {
		places, rdma = nil, errRDMA
	}
	s := d.enter(places)
	if rdma != nil {
		s.Files = rdma
	}
	if d.sandbox == sandboxOn {
		if s.Calls != nil {
			return sandboxFailure("system calls are not filtered", s.Calls)
		}
		if s.Files != nil {
			return sandboxFailure("files are not confined", s.Files)
		}
	}
	d.within = confinement{s}
	calls, files := zap.String("system calls", "filtered"), zap.Strings("files", s.Places())
	if s.Calls != nil {
		calls = zap.String("system calls", "not filtered: "+s.Calls.Error())
	}
	switch {
	case errors.Is(s.Files, sandbox.ErrUnconfined):
		files = zap.String("files", "not confined: sandbox.paths in the configuration, or --sandbox on, does that")
	case s.Files != nil:
		files = zap.String("files", "not confined: "+s.Files.Error())
	}
	d.Log.Info("sandbox", calls, files)
	return nil
}

// errRDMA is the reason why files are not confined if a listener uses verbs. Landlock gives each thread its own
// credentials, and the drivers of RDMA devices accept commands only from the credentials with which the device was
// opened (ib_safe_file_access in Linux).
var errRDMA = errors.New("with Landlock the kernel denies the commands of RDMA devices (transport verbs)")

// errImages is the reason why a target that exports images of Ceph has no sandbox.
var errImages = errors.New("a Ceph cluster is reached over TCP, by a library whose system calls are not known")

// unconfinable returns the reason why the target cannot have a sandbox; nil: it can.
func (d *Daemon) unconfinable() error {
	if d.gateway != nil {
		return errGrouped
	}
	if slices.ContainsFunc(d.Document.Subsystems, func(s *config.Subsystem) bool {
		return slices.ContainsFunc(s.Namespaces, func(n *config.Namespace) bool { return n.RBD != nil })
	}) {
		return errImages
	}
	return nil
}

// mayUseRDMA reports whether a listener uses verbs, or may because its transport is auto and the machine has an RDMA
// device.
func (d *Daemon) mayUseRDMA() bool {
	return slices.ContainsFunc(d.Document.Listeners, func(l *config.Listener) bool {
		switch d.Document.TransportOf(l) {
		case provider.Verbs:
			return true
		case provider.Auto:
			devices, err := os.ReadDir("/sys/class/infiniband")
			return err == nil && len(devices) > 0
		}
		return false
	})
}

// confined reports whether the process's access to files is restricted.
func (d *Daemon) confined() bool { return d.within.Sandbox != nil && d.within.Files == nil }

func sandboxFailure(what string, err error) error {
	return errors.New("--sandbox on: " + what + ": " + err.Error() + "; --sandbox auto denies what is possible here")
}

// permit returns an error if the process cannot access a path any more.
func (d *Daemon) permit(path string, written bool) error {
	if d.within.Sandbox == nil {
		return nil
	}
	if strings.HasPrefix(path, config.RBDPrefix) {
		return fmt.Errorf("%s: %w, which this target's sandbox does not allow: start it with --sandbox off, or with an image in its configuration", path, errImages)
	}
	return d.within.Permit(path, written)
}

// refused replaces the error of opening a file if the sandbox may be the cause.
func (d *Daemon) refused(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		if outside := d.permit(path, true); outside != nil {
			return outside
		}
	}
	return err
}

// places returns what a target needs of the file system.
func (d *Daemon) places(socket *control.Socket) *sandbox.Places {
	p := &sandbox.Places{
		Used:   []string{os.DevNull},
		Read:   []string{"/sys", "/proc"}, // what the machine has, and which processes use it
		Notify: os.Getenv("NOTIFY_SOCKET"),
	}
	if socket != nil {
		p.Sockets = []string{filepath.Dir(socket.Path())}
	}
	for _, path := range d.Document.Sandbox.Paths {
		p.Used = append(p.Used, string(path))
	}
	if dir := stateDir(); d.Flags == nil && dir != "" && os.MkdirAll(dir, 0o700) == nil {
		p.Used = append(p.Used, dir)
	}
	if file, err := filepath.Abs(d.File); d.File != "" && err == nil {
		p.Read = append(p.Read, filepath.Dir(file))
	}
	if file := d.Document.Audit.File; file != "" {
		p.AddFile(string(file)) // it is reopened
	}
	addConsole(p, d.Document.Console)
	for _, s := range d.Document.Subsystems {
		if s.State != "" {
			p.AddFile(string(s.State))
		}
		for _, n := range s.Namespaces {
			addNamespace(p, n)
		}
		for _, h := range s.Hosts {
			for _, key := range []config.KeyFile{h.KeyFile, h.ControllerKeyFile} {
				if path, err := key.Expand(os.Getenv); key != "" && err == nil {
					p.Read = append(p.Read, filepath.Dir(path))
				}
			}
		}
	}
	return p
}

// addNamespace adds the store and the reservations' file of a namespace.
func addNamespace(p *sandbox.Places, n *config.Namespace) {
	if n.Reservations != "" {
		p.AddFile(string(n.Reservations))
	}
	switch {
	case n.File != nil:
		p.AddFile(string(n.File.Path))
	case n.Block != nil:
		path := string(n.Block.Path)
		if _, err := os.Stat(path); err != nil {
			path = "/dev" // its path once it exists is not known
		}
		p.Used = append(p.Used, path)
		if node := block.HealthNode(path); node != "" {
			p.Used = append(p.Used, node)
		}
	}
}
