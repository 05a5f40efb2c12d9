package targetcommand

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	exportHelp    = `mem:SIZE, rbd:POOL/IMAGE (a Ceph image), or the PATH of a file or block device, then options, separated by commas: bs=512 or bs=4096 (block size; default 512, or the device's own), size=SIZE (create or extend the file or image), conf=FILE and id=CLIENT (for Ceph), ro, buffered, thin, force (even if in use), resv=FILE (keep reservations), and the other fields of a namespace in a configuration (uuid=UUID, ana-group=2; see nvmeof target schema)`
	allowHostHelp = `NQN of a host that may connect, then options, separated by commas: dhchap-key-file=PATH (key by which the host authenticates), dhchap-ctrl-key-file=PATH (key by which the target does), dhchap-hash=NAME, dhchap-dhgroup=NAME; SIGHUP rereads the keys`
)

// A sizeFlag is a flag whose value is a size; 0 is the default.
type sizeFlag config.Size

func (s *sizeFlag) Set(text string) error {
	if text == "0" {
		*s = 0
		return nil
	}
	n, err := nvmeof.ParseSize(text)
	*s = sizeFlag(n)
	return err
}

func (s *sizeFlag) String() string { return config.Size(*s).String() }

func (*sizeFlag) Type() string { return "size" }

// Document returns the document that the flags describe. It starts nothing.
func (f *Flags) Document() (*config.Document, error) {
	switch {
	case len(f.Listen) == 0:
		return nil, failure.Usagef("--listen is missing: the address to serve on, as in --listen 192.0.2.1; or give --config FILE")
	case f.gateway != "" && f.group == "":
		return nil, failure.Usagef("--gateway is the name in a group: give --group too")
	case f.group != "": // the group defines what it serves
	case f.NQN == "":
		return nil, failure.Usagef("--nqn is missing: the name of the subsystem, as in --nqn nqn.2026-11.org.example:disk")
	case len(f.Exports) == 0:
		return nil, failure.Usagef("--export is missing: what to serve, as in --export mem:1GiB or --export disk.img,size=10GiB")
	}
	listeners, err := f.listeners()
	switch {
	case err != nil:
		return nil, err
	case !provider.IsName(f.Transport):
		return nil, failure.Usagef("--transport %s: want %s", f.Transport, provider.Help)
	case len(f.allowHosts) == 0 && !f.AllowAnyHost && f.group == "":
		return nil, failure.Usagef("no host may connect: give --allow-host NQN (on a Linux host: cat /etc/nvme/hostnqn), or --allow-any-host")
	case f.Shards < 0 || f.Shards > provider.MaxShards:
		return nil, failure.Usagef("--shards %d: at most %d", f.Shards, provider.MaxShards)
	}
	if _, err := processors.ParsePolling(f.Polling); err != nil {
		return nil, err
	}
	doc := &config.Document{Version: config.Version, Congestion: f.congestion, Metrics: config.Metrics{Listen: config.HTTPAddress(f.metrics), Hosts: f.metricsHosts}, Events: f.keptEvents(), Audit: f.audited(), Console: f.console.document(), Listeners: listeners, Limits: config.Limits{
		Shards: f.Shards, Shared: f.shared, ReceiveBuffer: f.rcvbuf, AckTimeout: config.Duration(f.ackTimeout),
	}}
	if f.Transport != provider.Softroce {
		doc.Transport = config.Transport(f.Transport)
	}
	if f.Polling != "auto" {
		doc.Limits.Polling = config.Polling(f.Polling)
	}
	if f.group != "" {
		return doc, f.grouped(doc)
	}
	return doc, f.export(doc)
}

// export adds the exports of the flags to a document.
func (f *Flags) export(doc *config.Document) error {
	s := &config.Subsystem{NQN: nvmeof.NQN(f.NQN), AllowAnyHost: f.AllowAnyHost}
	doc.Subsystems = []*config.Subsystem{s}
	for i, arg := range f.Exports {
		n, err := parseExport(arg)
		if err != nil {
			return failure.Usagef("--export: %v", err)
		}
		n.NSID = i + 1
		s.Namespaces = append(s.Namespaces, n)
	}
	for _, arg := range f.allowHosts {
		h, err := ParseAllowHost(arg)
		if err != nil {
			return failure.Usagef("--allow-host: %v", err)
		}
		s.Hosts = slices.DeleteFunc(s.Hosts, func(o *config.Host) bool { return o.NQN == h.NQN }) // the last one counts
		s.Hosts = append(s.Hosts, h)
	}
	_, _, err := config.Parse("", doc.JSON()) // a value that is invalid in a file is invalid here too
	return f.explain(err)
}

// keptEvents returns the value of --events.
func (f *Flags) keptEvents() (e config.Events) {
	if f.events != "" {
		if path, err := absolute(f.events); err == nil {
			e.File = config.Path(path)
		}
	}
	return e
}

// audited returns the value of --audit.
func (f *Flags) audited() (a config.Audit) {
	switch path, err := absolute(f.audit); {
	case f.audit == auditLog:
		a.Log = true
	case f.audit != "" && err == nil:
		a.File = config.Path(path)
	}
	return a
}

// warnings returns the warnings about names in the flags. It omits the warning that every host is allowed: the user
// asked for that, and another message says so.
func (f *Flags) warnings(doc *config.Document) (lines []string) {
	if f.AllowAnyHost {
		lines = append(lines, "--allow-any-host: every host that reaches this address can read and write the namespaces")
	}
	for _, d := range doc.DoubtNames(nil) {
		flag := "--allow-host"
		if d.Path == "subsystems[0].nqn" {
			flag = "--nqn"
		}
		lines = append(lines, flag+" "+d.Text+"; "+d.Fix)
	}
	return lines
}

// parseExport parses the value of --export.
func parseExport(arg string) (*config.Namespace, error) {
	n, err := config.ParseExport(arg, config.Machine{IsDevice: isDevice, Abs: absolute})
	if err != nil {
		return nil, fmt.Errorf("export %q: %w", arg, err)
	}
	return n, nil
}

// listeners returns the listeners of --listen.
func (f *Flags) listeners() (all []*config.Listener, err error) {
	for i, s := range f.Listen {
		addr, err := nvmeof.ParseListen(s)
		switch {
		case err != nil:
			return nil, failure.Usagef("--listen: %v: give an address of this machine, as ip address shows them, or 0.0.0.0 or [::] for all, and after a colon a port where it is not %d", err, nvmeof.DefaultPort)
		case provider.LacksZone(addr.Addr()):
			return nil, failure.Usagef("--listen %v is link-local: name its interface, as in %v%%eth0", addr.Addr(), addr.Addr())
		case slices.ContainsFunc(all, func(l *config.Listener) bool { return l.Address.AddrPort == addr }):
			return nil, failure.Usagef("--listen %v is given twice", addr)
		}
		all = append(all, &config.Listener{ID: i + 1, Address: config.Address{AddrPort: addr}})
	}
	return all, nil
}

// explain rewrites an error about the document in terms of the flags of which it was made.
func (f *Flags) explain(err error) error {
	var problems config.Problems
	var step *control.StepError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &step):
		switch now := step.Step.New.(type) {
		case *config.Namespace:
			return fmt.Errorf("--export %s: %w", f.Exports[now.NSID-1], withSize(now, step.Err))
		case *config.Host:
			return fmt.Errorf("--allow-host: %w", step.Err)
		case *config.Listener:
			return fmt.Errorf("--listen %s: %w", f.Listen[now.ID-1], step.Err)
		}
		return step.Err
	case !errors.As(err, &problems):
		return err
	}
	p := problems[0]
	text := p.Text
	if p.Fix != "" {
		text += "; " + p.Fix
	}
	for i, arg := range f.Exports { // the other one, if the error names two
		text = strings.ReplaceAll(text, fmt.Sprintf("subsystems[0].namespaces[%d]", i), "--export "+arg)
	}
	for _, x := range []struct {
		path, flag string
		args       []string
	}{
		{"subsystems[0].namespaces", "export", f.Exports}, {"subsystems[0].hosts", "allow-host", nil}, {"subsystems[0]", "nqn", nil},
		{"listeners", "listen", f.Listen}, {"limits.shards", "shards", nil}, {"limits.shared-receives", "shared-receives", nil},
		{"limits.receive-buffer", "rcvbuf", nil}, {"limits.ack-timeout", "ack-timeout", nil}, {"congestion", "congestion", nil},
		{"group.gateway", "gateway", nil}, {"group", "group", nil}, {"events.file", "events", nil}, {"audit.file", "audit", nil},
		{"console.tokens", "console-tokens", nil}, {"console.tls.key", "console-key", nil}, {"console.tls", "console-certificate", nil}, {"console", "console", nil},
	} {
		rest, is := strings.CutPrefix(p.Path, x.path)
		if !is {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(rest, "[%d]", &n); err == nil && n < len(x.args) {
			return failure.Usagef("--%s %s: %s", x.flag, x.args[n], text)
		}
		return failure.Usagef("--%s: %s", x.flag, text)
	}
	return failure.Usage{Err: problems}
}

// withSize adds how a missing file can be created.
func withSize(n *config.Namespace, err error) error {
	if n.File != nil && n.File.Size == 0 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w, as in --export %s,size=1GiB", err, n.File.Path)
	}
	return err
}

// names maps the path of each export to the relative path given with --export, because the UUIDs that hosts know
// derive from that.
func (f *Flags) names(doc *config.Document) map[config.Path]string {
	names := map[config.Path]string{}
	if doc.Grouped() {
		return names // the group defines the exports
	}
	for i, n := range doc.Subsystems[0].Namespaces {
		if said, _, _ := strings.Cut(f.Exports[i], ","); n.Path() != "" && string(n.Path()) != said {
			names[n.Path()] = said
		}
	}
	return names
}

// absolute returns the absolute path. A ".." that follows a symbolic link is resolved as the file system does.
func absolute(path string) (string, error) {
	folder, name := filepath.Split(path)
	if slices.Contains(strings.Split(folder, "/"), "..") {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			path = filepath.Join(real, name)
		}
	}
	return filepath.Abs(path)
}

// isDevice reports whether a path is a block device; for a path that does not exist, whether it is below /dev.
func isDevice(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		path = filepath.Clean(path)
		return strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/")
	}
	return info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice
}

var allowHostOptions = []string{"dhchap-key-file", "dhchap-ctrl-key-file", "dhchap-hash", "dhchap-dhgroup"}

// ParseAllowHost parses "NQN,dhchap-key-file=PATH". The NQN may contain commas.
func ParseAllowHost(s string) (*config.Host, error) {
	nqn, options, keyed := strings.Cut(s, ",dhchap-")
	n, err := nvmeof.AnyNQN(nqn)
	if err != nil {
		return nil, err
	}
	h := &config.Host{NQN: n}
	if !keyed {
		return h, nil
	}
	for option := range strings.SplitSeq("dhchap-"+options, ",") {
		if err := allowHostOption(h, option); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
	}
	if h.KeyFile == "" {
		return nil, fmt.Errorf("%s: dhchap-key-file is missing, which authentication needs", n)
	}
	for _, k := range []config.KeyFile{h.KeyFile, h.ControllerKeyFile} {
		if k == "" {
			continue
		}
		if _, _, err := control.ReadKey(context.Background(), string(k)); err != nil {
			return nil, fmt.Errorf("key of host %s: %w", n, err)
		}
	}
	return h, nil
}

func allowHostOption(h *config.Host, s string) (err error) {
	key, value, _ := strings.Cut(s, "=")
	var file *config.KeyFile
	switch key {
	case "dhchap-key-file":
		file = &h.KeyFile
	case "dhchap-ctrl-key-file":
		file = &h.ControllerKeyFile
	case "dhchap-hash":
		hash, err := auth.ParseHash(value)
		h.Hashes = append(h.Hashes, config.Hash(hash.String()))
		return err
	case "dhchap-dhgroup":
		group, err := auth.ParseGroup(value)
		h.DHGroups = append(h.DHGroups, config.Group(group.String()))
		return err
	default:
		return fmt.Errorf("unknown option %q; there are %s%s", key, failure.List(slices.Clone(allowHostOptions)), failure.DidYouMean(key, allowHostOptions))
	}
	if value == "" {
		return fmt.Errorf("%s is empty: want the path of a file with a key, as printed by nvmeof gen-dhchap-key", key)
	}
	path, err := absolute(value)
	*file = config.KeyFile(path)
	return err
}
