package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Machine is the source of facts: files, and functions for what no file contains.
type Machine struct {
	Files fs.FS // the root directory: "sys/class/infiniband" and so on

	Addresses  []Address // of all interfaces
	Processors int       // that the program may use

	Program   string                    // path of this program
	Verbs     bool                      // the program contains the verbs transport
	Ceph      bool                      // the program supports images and groups of Ceph
	Libraries func() error              // loads the RDMA libraries; used only with Verbs
	Details   func() ([]Details, error) // queries the devices; likewise
	Choose    func(netip.Addr) (transport, why string)
	Access    func(path string) bool // reports whether this user may read and write it
	IOUring   func() error           // tries to create a ring
}

// An Address is an address of an interface.
type Address struct {
	Interface string
	Prefix    netip.Prefix
}

// Details is what only the device itself reports.
type Details struct {
	Name      string
	Err       error // why it could not be queried; then the other fields are not set
	Limits    Limits
	ActiveMTU []int // bytes; starting with port 1
}

// Gather collects the facts about a machine.
func Gather(m *Machine) *Facts {
	g := &gatherer{Machine: m, facts: &Facts{Processors: m.Processors}}
	g.build()
	g.installed()
	g.devices()
	g.details()
	g.interfaces()
	g.rocePort()
	g.limits()
	g.kernel()
	slices.Sort(g.unread)
	g.facts.Unread = list(slices.Compact(g.unread))
	return g.facts
}

// A gatherer records which files could not be read.
type gatherer struct {
	*Machine
	facts  *Facts
	unread []string
}

// text returns a file's first line without surrounding space, or "" if there is no such file. It escapes control
// characters, since programs choose their own names.
func (g *gatherer) text(path string) string {
	b, err := fs.ReadFile(g.Files, path)
	g.refused(path, err)
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return nvmeof.Visible(string(bytes.TrimSpace(line)))
}

// number returns the number in a file, or otherwise if there is none.
func (g *gatherer) number(path string, otherwise int64) int64 {
	n, err := strconv.ParseInt(g.text(path), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func (g *gatherer) lines(path string) []string {
	b, err := fs.ReadFile(g.Files, path)
	g.refused(path, err)
	var all []string
	for line := range strings.Lines(string(b)) { // of any length: the line of a user's groups has 11 bytes for each
		all = append(all, strings.TrimRight(line, "\r\n"))
	}
	return all
}

// names returns the entries of a directory; none if it does not exist.
func (g *gatherer) names(path string) []string {
	entries, err := fs.ReadDir(g.Files, path)
	g.refused(path, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (g *gatherer) exists(path string) bool {
	_, err := fs.Stat(g.Files, path)
	return err == nil
}

// any reports whether a file matches one of the patterns.
func (g *gatherer) any(patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		found, _ := fs.Glob(g.Files, p)
		return len(found) > 0
	})
}

// refused records a file that this user may not read.
func (g *gatherer) refused(path string, err error) {
	if errors.Is(err, fs.ErrPermission) {
		g.unread = append(g.unread, fmt.Sprintf("/%s: permission denied", path))
	}
}

// build gathers facts about the program and its libraries.
func (g *gatherer) build() {
	b := &g.facts.Build
	b.Verbs, b.Libraries = g.Verbs, LibrariesMissing
	found := g.library("libibverbs.so.1") && g.library("librdmacm.so.1")
	switch {
	case !g.Verbs && found:
		b.Libraries = LibrariesFound
	case !g.Verbs:
	default:
		err := g.Machine.Libraries()
		switch {
		case err == nil:
			b.Libraries = LibrariesLoaded
		case found:
			b.Libraries, b.LibraryDetail = LibrariesUnusable, err.Error()
		default:
			b.LibraryDetail = err.Error()
		}
	}
	b.Ceph, b.CephLibraries = g.Ceph, LibrariesMissing
	if g.library("librbd.so.1") && g.library("librados.so.2") {
		b.CephLibraries = LibrariesFound
	}
}

// library reports whether a library is where distributions install it.
func (g *gatherer) library(name string) bool {
	return g.any("usr/lib/*/"+name, "usr/lib64/"+name, "usr/lib/"+name, "lib/*/"+name, "usr/local/lib/"+name, "usr/local/lib/*/"+name)
}

// list replaces nil by an empty list, so that it is not null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// afterColon returns "ACTIVE" for an attribute such as "4: ACTIVE".
func afterColon(s string) string {
	_, after, found := strings.Cut(s, ": ")
	if !found {
		return s
	}
	return after
}
