package tidy

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// A direction says what the packages in a directory may import besides the standard library: directories of this
// repository, where "x/..." means x and all below it, and modules. It also holds for directories below it that have no
// row of their own.
type direction struct {
	dir   string
	local []string
	other []string
}

const (
	xsys   = "golang.org/x/sys"
	xnet   = "golang.org/x/net"
	xsync  = "golang.org/x/sync"
	zap    = "go.uber.org/zap"
	uuid   = "github.com/google/uuid"
	cobra  = "github.com/spf13/cobra"
	pflag  = "github.com/spf13/pflag" // a dependency of cobra
	bar    = "github.com/schollz/progressbar/v3"
	rapid  = "pgregory.net/rapid"
	smart  = "github.com/dswarbrick/smart"
	yaml   = "github.com/goccy/go-yaml"
	fuse   = "github.com/hanwen/go-fuse/v2"
	linear = "github.com/anishathalye/porcupine" // checks whether histories are linearizable
	llock  = "github.com/landlock-lsm/go-landlock"
	scomp  = "github.com/elastic/go-seccomp-bpf"
	prom   = "github.com/prometheus/client_golang"
	procfs = "github.com/prometheus/procfs"
	promm  = "github.com/prometheus/client_model"
	tea    = "charm.land/bubbletea/v2"      // screens as functions of values
	cdp    = "github.com/chromedp/chromedp" // drives a browser
	cdpro  = "github.com/chromedp/cdproto"
	ansi   = "github.com/charmbracelet/x/ansi"
	csi    = "github.com/container-storage-interface/spec"
	csitst = "github.com/kubernetes-csi/csi-test/v5" // test suite for CSI drivers, with its own test framework
	ginkgo = "github.com/onsi/ginkgo/v2"
	gomega = "github.com/onsi/gomega"
	grpc   = "google.golang.org/grpc"
	proto  = "google.golang.org/protobuf"
	k8smnt = "k8s.io/mount-utils"
	k8sutl = "k8s.io/utils"
	etcd   = "go.etcd.io/etcd" // only in one package, behind the interface of internal/group/state
)

// directions has the rows for code that is built into programs. Only cmd and test, and packages with a row of their own
// that says so, know which RDMA provider is in use.
var directions = []direction{
	{"capsule", nil, nil},
	{"rdmatransport", nil, nil},
	{"rdmatransport/softroce", []string{"internal/latency", "rdmatransport", "rdmatransport/internal/mailbox", "rdmatransport/softroce/..."}, []string{xsys}},
	{"rdmatransport/softroce/internal/badinput", nil, nil},
	{"rdmatransport/softroce/internal/wire", []string{"rdmatransport"}, []string{xsys}},
	{"rdmatransport/softroce/internal/rc", []string{"internal/latency", "rdmatransport", "rdmatransport/softroce/internal/wire"}, nil},
	{"rdmatransport/softroce/internal/cm", []string{"rdmatransport", "rdmatransport/softroce/internal/wire"}, nil},
	{"rdmatransport/internal/mailbox", nil, nil},
	{"rdmatransport/internal/numa", []string{"rdmatransport"}, nil},
	{"rdmatransport/internal/waiter", nil, []string{xsys}},
	{"rdmatransport/softroce/internal/udp", []string{"rdmatransport", "rdmatransport/internal/numa", "rdmatransport/internal/waiter", "rdmatransport/softroce/internal/wire"}, []string{xsys}},
	{"rdmatransport/verbs", []string{"rdmatransport", "rdmatransport/internal/mailbox", "rdmatransport/internal/numa", "rdmatransport/internal/waiter", "rdmatransport/verbs/internal/ccall"}, []string{xsys}},
	{"rdmatransport/verbs/internal/ccall", nil, []string{xsys}},
	{"rdmatransport/rdmatest", []string{"rdmatransport"}, nil},
	{"backend", []string{"backend/..."}, []string{xsys}},
	{"backend/rbd", []string{"backend", "backend/internal/stripe", "internal/librados"}, []string{xsys}},
	{"backend/internal/drive", []string{"backend"}, []string{xsys, smart}},
	{"internal/bench", []string{"internal/yield", "backend"}, []string{xsys}},
	{"internal/capture", []string{"rdmatransport"}, nil},
	{"internal/floor", nil, []string{xsys}},
	{"internal/group", []string{"internal/group/state"}, nil},
	{"internal/group/revision", []string{"internal/group/state"}, nil},
	{"internal/group/runner", []string{"internal/boottime", "internal/group", "internal/group/state"}, nil},
	{"internal/group/state", nil, nil},
	{"internal/group/state/etcd", []string{"internal/group/state"}, []string{etcd, zap}},
	{"internal/group/state/rados", []string{"internal/group/state", "internal/librados"}, []string{xsys}},
	{"internal/group/state/simulated", []string{"internal/group/state"}, nil},
	{"internal/group/state/statetest", []string{"internal/group/state"}, []string{linear}},
	{"internal/boottime", nil, []string{xsys}},
	{"internal/controls", nil, nil},
	{"internal/connlimit", nil, nil},
	{"internal/loglimit", nil, []string{zap}},
	{"internal/latency", nil, nil},
	{"internal/shape", nil, nil},
	{"internal/librados", nil, []string{xsys}},
	{"internal/namedfile", nil, []string{xsys}},
	{"internal/recent", nil, nil},
	{"internal/shell", nil, nil},
	{"internal/socketfile", []string{"internal/shell"}, []string{xsys}},
	{"internal/testparallel", nil, nil},
	{"internal/yield", nil, []string{xsys}},
	{"nvmeof", []string{"capsule"}, []string{uuid}},
	{"nvmeof/auth", []string{"nvmeof", "capsule"}, nil},
	{"nvmeof/config", []string{"nvmeof", "internal/controls"}, []string{uuid, yaml}},
	{"nvmeof/events", []string{"internal/namedfile"}, nil},
	{"nvmeof/discovery", []string{"nvmeof", "nvmeof/host", "capsule", "rdmatransport"}, nil},
	{"cmd/nvmeof/internal/hostconfig", []string{"nvmeof", "nvmeof/config"}, []string{uuid}},
	{"nvmeof/control", []string{"internal/shell", "nvmeof", "internal/capture", "internal/loglimit", "internal/namedfile", "internal/recent", "internal/socketfile", "nvmeof/config", "nvmeof/events", "nvmeof/target", "nvmeof/auth", "capsule", "rdmatransport", "backend", "backend/block",
		"backend/file", "backend/memory", "backend/rbd"}, []string{zap, uuid, xnet, xsync, xsys}},
	{"nvmeof/internal/list", nil, nil},
	{"nvmeof/internal/shard", []string{"internal/yield", "nvmeof", "internal/latency", "nvmeof/internal/list", "rdmatransport", "backend"}, []string{xsys}},
	{"nvmeof/internal/fabric", []string{"nvmeof", "nvmeof/internal/list", "nvmeof/internal/shard", "capsule", "rdmatransport", "backend"}, nil},
	{"nvmeof/target", []string{"internal/boottime", "internal/shell", "internal/latency", "internal/shape", "nvmeof/...", "capsule", "rdmatransport", "backend"}, []string{zap, uuid}},
	{"nvmeof/target/internal/access", []string{"nvmeof", "capsule"}, nil},
	{"nvmeof/target/internal/ana", []string{"capsule"}, nil},
	{"nvmeof/target/internal/discoverylog", []string{"nvmeof", "capsule"}, nil},
	{"nvmeof/target/internal/health", []string{"capsule", "backend"}, nil},
	{"nvmeof/target/internal/kept", []string{"internal/namedfile"}, nil},
	{"nvmeof/target/internal/life", []string{"nvmeof/target/internal/health", "nvmeof/target/internal/sealed", "capsule"}, []string{uuid}},
	{"nvmeof/target/internal/meter", []string{"internal/latency", "capsule"}, nil},
	{"nvmeof/target/internal/peerlog", []string{"internal/loglimit", "nvmeof/events"}, []string{zap}},
	{"nvmeof/target/internal/reservation", []string{"nvmeof", "nvmeof/target/internal/sealed", "capsule"}, nil},
	{"nvmeof/target/internal/sealed", nil, nil},
	{"nvmeof/target/internal/state", []string{"capsule"}, nil},
	{"nvmeof/target/internal/storage", []string{"nvmeof/events", "nvmeof/internal/list", "nvmeof/internal/shard", "nvmeof/target/internal/access", "nvmeof/target/internal/ana", "nvmeof/target/internal/health",
		"nvmeof/target/internal/kept", "nvmeof/target/internal/meter", "nvmeof/target/internal/peerlog", "nvmeof/target/internal/reservation", "capsule", "rdmatransport", "backend"}, []string{zap, uuid}},
	{"nvmeof/metrics", []string{"internal/connlimit", "internal/loglimit", "internal/recent", "nvmeof/multipath", "nvmeof/nbd", "nvmeof", "nvmeof/target", "capsule", "rdmatransport", "rdmatransport/softroce"}, []string{prom, promm, zap, uuid}},
	{"nvmeof/multipath", []string{"nvmeof", "nvmeof/host", "internal/latency", "nvmeof/internal/shard", "nvmeof/multipath/internal/decide", "capsule", "rdmatransport", "backend"}, []string{xsys}},
	{"nvmeof/multipath/internal/decide", []string{"capsule"}, nil},
	{"nvmeof/host", []string{"internal/yield", "nvmeof/...", "capsule", "rdmatransport", "backend"}, []string{uuid, xsys}},
	{"nvmeof/host/internal/association", []string{"nvmeof/internal/fabric", "nvmeof/internal/shard", "capsule", "rdmatransport"}, nil},
	{"nvmeof/host/internal/operation", []string{"nvmeof/internal/fabric", "nvmeof/host/internal/association", "nvmeof/internal/list", "nvmeof/internal/shard", "capsule", "rdmatransport"}, nil},
	{"nvmeof/nbd", []string{"internal/shell", "internal/socketfile", "internal/yield", "nvmeof", "nvmeof/internal/shard", "nvmeof/nbd/internal/wire", "backend"}, []string{xsys}},
	{"nvmeof/nbd/internal/wire", nil, nil},
	{"cmd", []string{"cmd/...", "internal/...", "nvmeof/...", "capsule", "rdmatransport/...", "backend/..."},
		[]string{cobra, pflag, bar, prom, zap, uuid, xnet, xsync, xsys}},
	{"cmd/nvmeof/internal/administer", []string{"internal/shell", "cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/failure", "internal/capture", "nvmeof", "nvmeof/config", "nvmeof/control", "nvmeof/events"}, []string{cobra, pflag}},
	{"cmd/nvmeof/internal/activity", []string{"nvmeof", "nvmeof/control"}, []string{ansi}},
	{"cmd/nvmeof/internal/topcommand", []string{"cmd/nvmeof/internal/activity", "cmd/nvmeof/internal/administer", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/terminal", "nvmeof", "nvmeof/config", "nvmeof/control"}, []string{cobra, tea, ansi}},
	{"cmd/nvmeof/internal/benchcommand", []string{"cmd/nvmeof/internal/benchreport", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/fio", "cmd/nvmeof/internal/nvmeverb",
		"cmd/nvmeof/internal/rawudp", "nvmeof", "cmd/nvmeof/internal/terminal", "internal/bench",
		"nvmeof/host", "nvmeof/multipath", "capsule", "backend"}, []string{cobra, pflag, xsys}},
	{"cmd/nvmeof/internal/nvmeverb", []string{"cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/nvmecli", "nvmeof", "cmd/nvmeof/internal/terminal",
		"nvmeof/host", "internal/namedfile", "capsule", "backend"}, []string{cobra, pflag}},
	{"cmd/nvmeof/internal/attachcommand", []string{"cmd/nvmeof/internal/scrape", "nvmeof/metrics", "rdmatransport", "cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hosts", "cmd/nvmeof/internal/nvmeverb", "cmd/nvmeof/internal/outlet", "cmd/nvmeof/internal/processors", "cmd/nvmeof/internal/provider", "cmd/nvmeof/internal/signals", "nvmeof", "nvmeof/host", "nvmeof/nbd", "capsule", "backend"}, []string{cobra, xsys}},
	{"cmd/nvmeof/internal/connectcommand", []string{"cmd/nvmeof/internal/scrape", "nvmeof/metrics", "nvmeof/nbd", "rdmatransport", "cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/discover", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hostconfig", "cmd/nvmeof/internal/keeper", "cmd/nvmeof/internal/lending", "cmd/nvmeof/internal/listing", "cmd/nvmeof/internal/nvmecli", "cmd/nvmeof/internal/outlet", "cmd/nvmeof/internal/systemd", "nvmeof", "nvmeof/discovery", "nvmeof/multipath"}, []string{cobra}},
	{"cmd/nvmeof/internal/discover", []string{"cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hostconfig", "cmd/nvmeof/internal/hostidentity", "cmd/nvmeof/internal/hosts", "cmd/nvmeof/internal/lending", "cmd/nvmeof/internal/nvmecli", "nvmeof", "nvmeof/config", "nvmeof/discovery", "nvmeof/host", "internal/namedfile", "capsule", "rdmatransport/softroce"}, []string{cobra}},
	{"cmd/nvmeof/internal/fabricaccess", []string{"cmd/nvmeof/internal/benchcommand", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hostconfig", "cmd/nvmeof/internal/hosts", "cmd/nvmeof/internal/nvmeverb", "cmd/nvmeof/internal/provider", "cmd/nvmeof/internal/rdmatools", "cmd/nvmeof/internal/statusreport", "nvmeof", "nvmeof/control", "nvmeof/host", "nvmeof/multipath", "capsule", "rdmatransport"}, []string{cobra}},
	{"cmd/nvmeof/internal/fabricoptions", []string{"cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hostconfig", "cmd/nvmeof/internal/hostidentity", "cmd/nvmeof/internal/provider", "nvmeof", "nvmeof/host", "nvmeof/multipath"}, []string{cobra, pflag, uuid}},
	{"cmd/nvmeof/internal/hostidentity", []string{"cmd/nvmeof/internal/failure", "nvmeof", "nvmeof/auth", "internal/namedfile"}, []string{cobra, uuid}},
	{"cmd/nvmeof/internal/hosts", []string{"internal/shell", "cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/processors", "cmd/nvmeof/internal/provider", "nvmeof", "nvmeof/host", "capsule", "rdmatransport"}, nil},
	{"cmd/nvmeof/internal/keeper", []string{"cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/discover", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/hosts", "cmd/nvmeof/internal/lending", "cmd/nvmeof/internal/processors", "cmd/nvmeof/internal/provider", "cmd/nvmeof/internal/signals", "nvmeof", "nvmeof/nbd", "rdmatransport/softroce"}, []string{xsys}},
	{"cmd/nvmeof/internal/lending", []string{"cmd/nvmeof/internal/connections", "rdmatransport/softroce"}, nil},
	{"cmd/nvmeof/internal/listing", []string{"cmd/nvmeof/internal/connections", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/hosts", "cmd/nvmeof/internal/nvmecli", "nvmeof/host", "capsule"}, []string{cobra, uuid}},
	{"cmd/nvmeof/internal/manual", nil, []string{cobra, pflag}},
	{"cmd/nvmeof/internal/processors", []string{"cmd/nvmeof/internal/failure", "nvmeof"}, []string{xsys}},
	{"cmd/nvmeof/internal/provider", []string{"cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/loopback", "nvmeof", "nvmeof/config", "rdmatransport", "rdmatransport/softroce", "rdmatransport/verbs"}, []string{zap}},
	{"cmd/nvmeof/internal/outlet", []string{"cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/signals"}, []string{cobra, xsys}},
	{"cmd/nvmeof/internal/sandbox", nil, []string{xsys, llock, scomp}},
	{"cmd/nvmeof/internal/scrape", []string{"nvmeof/config", "nvmeof/metrics", "nvmeof/nbd", "rdmatransport"}, []string{pflag}},
	{"cmd/nvmeof/internal/signals", nil, []string{xsys}},
	{"cmd/nvmeof/internal/statusreport", []string{"cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/nvmecli", "cmd/nvmeof/internal/nvmeverb", "cmd/nvmeof/internal/terminal", "nvmeof/host", "capsule"}, []string{cobra}},
	{"cmd/nvmeof/internal/systemd", nil, nil},
	{"cmd/nvmeof/internal/perftest", []string{"rdmatransport"}, nil},
	{"cmd/nvmeof/internal/rdmatools", []string{"cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/perftest", "rdmatransport"}, []string{cobra, xsys}},
	{"cmd/nvmeof/internal/gateway", []string{"internal/boottime", "internal/group", "internal/group/revision", "internal/group/runner", "internal/group/state", "internal/group/state/etcd", "internal/group/state/rados", "internal/namedfile",
		"backend", "backend/memory", "backend/rbd", "capsule", "nvmeof", "nvmeof/config", "nvmeof/control", "nvmeof/metrics", "nvmeof/target"}, []string{zap, xsys, uuid}},
	{"cmd/nvmeof/internal/targetcommand", []string{"internal/shell", "internal/controls", "cmd/nvmeof/internal/gateway", "internal/group", "cmd/nvmeof/internal/console", "cmd/nvmeof/internal/scrape", "cmd/nvmeof/internal/administer", "cmd/nvmeof/internal/fabricoptions", "cmd/nvmeof/internal/failure", "cmd/nvmeof/internal/nvmecli", "cmd/nvmeof/internal/outlet", "cmd/nvmeof/internal/processors", "cmd/nvmeof/internal/provider", "cmd/nvmeof/internal/sandbox", "cmd/nvmeof/internal/signals", "cmd/nvmeof/internal/systemd", "cmd/nvmeof/internal/takeover", "cmd/nvmeof/internal/terminal", "nvmeof", "nvmeof/auth", "nvmeof/config", "nvmeof/control", "nvmeof/events", "internal/namedfile", "nvmeof/metrics", "nvmeof/target", "rdmatransport", "rdmatransport/verbs", "backend", "backend/block", "backend/file", "backend/memory"}, []string{cobra, pflag, prom, zap, xsys}},
	{"cmd/nvmeof/internal/takeover", []string{"internal/socketfile", "nvmeof/config", "nvmeof/control", "nvmeof/target", "rdmatransport", "backend/memory"}, []string{xsys}},
	{"cmd/nvmeof/internal/console", []string{"cmd/nvmeof/internal/activity", "cmd/nvmeof/internal/nvmecli", "cmd/nvmeof/internal/token", "internal/connlimit", "internal/loglimit", "internal/namedfile", "internal/recent", "nvmeof", "nvmeof/config", "nvmeof/control", "nvmeof/events"}, []string{zap}},
	{"cmd/nvmeof/internal/token", []string{"internal/shell", "cmd/nvmeof/internal/failure", "internal/connlimit", "internal/namedfile", "internal/recent", "nvmeof/control"}, []string{cobra}},
	{"cmd/nvmeof-csi", []string{"cmd/nvmeof-csi/...", "internal/socketfile", "nvmeof"}, []string{cobra, csi, grpc, yaml, zap, uuid, xsys}},
	{"cmd/nvmeof-csi/internal/driver", []string{"cmd/nvmeof-csi/internal/fabric", "cmd/nvmeof-csi/internal/mounts", "cmd/nvmeof-csi/internal/volumes", "nvmeof", "nvmeof/control"}, []string{csi, grpc, proto, zap, uuid}},
	{"cmd/nvmeof-csi/internal/fabric", []string{"nvmeof"}, []string{uuid, xsync, xsys}},
	{"cmd/nvmeof-csi/internal/mounts", nil, []string{k8smnt, k8sutl, xsys}},
	{"cmd/nvmeof-csi/internal/volumes", []string{"nvmeof", "nvmeof/config", "nvmeof/control"}, []string{uuid}},
	{"deploy/image", nil, []string{"github.com/google/go-containerregistry"}}, // a module of its own
	{"test/packages", nil, []string{yaml}},
	{"test/faultyfs", nil, []string{xsys, fuse}},
	{"test/interop/csi", nil, []string{csi, grpc, xsys}},
	{"test/ceph", []string{"backend/..."}, []string{uuid, xsys}},
	{"test/gremlin", []string{"test/gremlin/...", "test/internal/...", "internal/...", "nvmeof/...", "capsule", "rdmatransport/...", "backend/..."}, []string{zap, xsys, procfs}},
	{"test", []string{"test/...", "internal/...", "nvmeof/...", "capsule", "rdmatransport/...", "backend/..."}, []string{zap, xsys}},
}

// forTests lists what tests may import in addition.
var forTests = direction{"", []string{"rdmatransport/...", "capsule", "backend/...", "nvmeof/...", "internal/...", "test/..."},
	[]string{rapid, fuse, linear, cdp, cdpro, csitst, ginkgo, gomega, grpc, zap, uuid, xsys}}

func directionOf(dir string) (direction, bool) {
	for ; dir != "."; dir = path.Dir(dir) {
		for _, d := range directions {
			if d.dir == dir {
				return d, true
			}
		}
	}
	return direction{}, false
}

// wrongImports finds imports that the directions do not allow.
func wrongImports(s *source) (findings []string) {
	d, ok := directionOf(s.dir())
	if !ok {
		return []string{s.finding(s.file.Package, "folder %s has no row in directions", s.dir())}
	}
	if s.isTest() {
		d.local = slices.Concat(d.local, forTests.local)
		d.other = slices.Concat(d.other, forTests.other)
	}
	for _, spec := range s.file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !d.allows(s.dir(), name) {
			findings = append(findings, s.finding(spec.Pos(), "%s must not import %s", s.dir(), name))
		}
	}
	return findings
}

func (d direction) allows(dir, name string) bool {
	local, isLocal := strings.CutPrefix(name, module+"/")
	if !isLocal {
		first, _, _ := strings.Cut(name, "/")
		return !strings.Contains(first, ".") || below(d.other, name)
	}
	if local == dir { // an external test of the package
		return true
	}
	for _, pattern := range d.local {
		root, deep := strings.CutSuffix(pattern, "/...")
		if local == root || deep && strings.HasPrefix(local, root+"/") {
			return true
		}
	}
	return false
}

// below reports whether name is one of the modules or a package in one of them.
func below(modules []string, name string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return name == m || strings.HasPrefix(name, m+"/")
	})
}
