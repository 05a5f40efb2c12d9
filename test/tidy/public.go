package tidy

import (
	"go/doc"
	"maps"
	"path"
	"slices"
	"strings"
)

// public lists the packages that other modules are meant to import, each with its purpose.
var public = map[string]string{
	"capsule":                "wire formats of NVMe and NVMe over Fabrics",
	"backend":                "the contract of storage",
	"backend/backendtest":    "the suite that storage passes",
	"backend/block":          "storage: a block device",
	"backend/file":           "storage: a file",
	"backend/memory":         "storage: memory",
	"backend/rbd":            "storage: an image of a Ceph cluster",
	"nvmeof":                 "names, addresses and limits",
	"nvmeof/auth":            "DH-HMAC-CHAP and its keys",
	"nvmeof/config":          "a target as a document",
	"nvmeof/control":         "a target that follows a document",
	"nvmeof/discovery":       "discovery controllers, followed",
	"nvmeof/events":          "what happened to a target",
	"nvmeof/host":            "the host",
	"nvmeof/metrics":         "the counters, for Prometheus",
	"nvmeof/multipath":       "hosts that reconnect, over several paths",
	"nvmeof/nbd":             "namespaces as disks: NBD",
	"nvmeof/target":          "the target",
	"rdmatransport":          "the contract of RDMA",
	"rdmatransport/rdmatest": "the suite that RDMA passes",
	"rdmatransport/softroce": "RDMA over UDP sockets",
	"rdmatransport/verbs":    "RDMA devices",
}

// unlisted compares the directories of packages that other modules can import with the list. Packages below test can be
// imported too, but are not for other modules.
func unlisted(packages map[string]string) (findings []string) {
	found := map[string]bool{}
	for dir, name := range packages {
		if name == "main" || strings.HasPrefix(dir, "test/") || slices.Contains(strings.Split(dir, "/"), "internal") {
			continue
		}
		found[dir] = true
		if public[dir] == "" {
			findings = append(findings, "package "+dir+" can be imported by everybody and is not in the list: move it below an internal folder, or add it")
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(public)) {
		if !found[dir] {
			findings = append(findings, "package "+dir+" is in the list of public packages and does not exist")
		}
	}
	return findings
}

// packagesOf returns the names of packages by directory, without test files.
func packagesOf(all []*source) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		if !s.isTest() {
			out[path.Clean(s.dir())] = s.file.Name.Name
		}
	}
	return out
}

// unexampled finds public packages without an example whose output is checked: a function Example... with an Output
// comment.
func unexampled(all []*source) (findings []string) {
	found := map[string]bool{}
	for _, s := range all {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, e := range doc.Examples(s.file) {
			found[s.dir()] = found[s.dir()] || e.Output != "" || e.EmptyOutput
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(public)) {
		if !found[dir] {
			findings = append(findings, "package "+dir+" is public and has no example with output")
		}
	}
	return findings
}

// programs lists the complete example programs for the module's purposes: to connect to namespaces, to embed a target
// with storage of one's own, and to use RDMA alone.
var programs = []string{
	"nvmeof/host/example_program_test.go",
	"nvmeof/target/example_program_test.go",
	"rdmatransport/softroce/example_program_test.go",
}

const maxProgram = 60 // lines
