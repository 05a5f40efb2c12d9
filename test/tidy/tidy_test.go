package tidy

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

var long = flag.Bool("long", false, "format all files, too, as gofmt does")

// TestMain makes garbage collections rarer, because the parsed files stay in memory. It also starts the work for
// TestCallbacks at once: that is sequential, and would leave the other processors idle at the end.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	if flag.Lookup("test.run").Value.String() == "" {
		go func() { _, _ = layersOfRoot() }() // ends before TestCallbacks does
	}
	os.Exit(m.Run())
}

var layersOfRoot = sync.OnceValues(func() ([]*layer, error) { return layersOf(root) })

// tree returns the parsed repository, which is read once.
var tree = sync.OnceValues(func() ([]*source, error) {
	names, err := listed(root)
	if err != nil {
		return nil, err
	}
	return parseAll(root, names)
})

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("found only %d Go files", len(all))
	}
	return all
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

// TestFiles checks the rules that concern one file at a time. The format is checked with -long only, because it takes
// as much processor time as all other rules, and gofmt -l checks the same.
func TestFiles(t *testing.T) {
	rules := []struct {
		name string
		find func(*source) []string
	}{
		{"format", unformatted},
		{"imports", wrongImports},
		{"pure", impurities},
		{"size", oversized},
		{"names", badNames},
		{"glossary", replacedNames},
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if r.name == "format" && !*long {
				t.Skip("it takes 2.5 s of processor time: -long")
			}
			t.Parallel()
			for _, s := range sources(t) {
				report(t, r.find(s))
			}
		})
	}
}

func TestPackageComments(t *testing.T) { report(t, undocumented(sources(t))) }

func TestMethods(t *testing.T) { report(t, crowded(sources(t))) }

// agreedGoroutines is the number of places in each directory that start goroutines, so that a new one is a deliberate
// decision. Data paths have none of their own: a shard is one goroutine.
var agreedGoroutines = map[string]int{
	"backend/internal/disk":              3,  // blocking calls without io_uring; a ring's wake-ups; copying
	"backend/rbd":                        5,  // wake-ups where the owner does not watch; calls to a cluster that may not answer, when a queue, store or client is closed or others are fenced
	"internal/librados":                  1,  // visits to placement groups at a time, by calls that block
	"internal/bench":                     1,  // each job
	"internal/group/state/rados":         4,  // calls to a cluster that may not answer: open, use and close; following changes
	"nvmeof/control":                     14, // listeners; waiting for a device or an address; files and devices that may hang; the socket and its file; a stream that is not read; stores that a group opens, and closes late
	"nvmeof/discovery":                   1,  // each node's connection
	"nvmeof/events":                      1,  // writing the file
	"nvmeof/host":                        2,  // a controller's events; the end of the host
	"nvmeof/host/internal/operation":     1,  // a context that ends
	"nvmeof/internal/shard":              1,  // the loop
	"nvmeof/metrics":                     1,  // the server
	"nvmeof/multipath":                   4,  // the life of a path; a queue's timer; each path when a namespace is opened, or its size read
	"internal/namedfile":                 2,  // a file system that does not answer
	"nvmeof/nbd":                         2,  // the loop; the file of its socket
	"nvmeof/target":                      12, // connections; freeing queues; keys; stores, and one that does not answer; reservations; the end of a pause; subsystems at the end; stores that a group returns, and commands that it has lost
	"internal/floor":                     2,  // the other side
	"internal/group/state/etcd":          4,  // checking that the endpoint answers; contexts that end with the store, and with the endpoint in use
	"internal/group/runner":              2,  // the engine; calls that take time
	"internal/group/state/statetest":     5,  // clients, watches, and calls that must end
	"cmd/nvmeof":                         2,  // the command, the second signal
	"cmd/nvmeof-csi":                     1,  // the end, which waits for calls
	"cmd/nvmeof-csi/internal/driver":     1,  // connections that no volume uses
	"cmd/nvmeof-csi/internal/fabric":     2,  // nvmeof attach, which is waited for; a device that may not answer
	"cmd/nvmeof-csi/internal/volumes":    1,  // a question to a target, which may not answer
	"cmd/nvmeof/internal/attachcommand":  1,  // waiting for a path
	"cmd/nvmeof/internal/administer":     2,  // a target that does not answer; an output that is not read
	"cmd/nvmeof/internal/connectcommand": 1,  // following discovery records
	"cmd/nvmeof/internal/console":        1,  // the server
	"cmd/nvmeof/internal/hosts":          1,  // a peer that does not answer
	"cmd/nvmeof/internal/gateway":        23, // sizes that differ at other gateways; notes of files and of failed stores; counters of the I/O; a probe of the storage, whether it answers or executes writes, and each pool of that; erasing namespaces; preparing a group before it is served; publishing the configuration in force; opening images of future groups, each of them, and closing unused ones; connecting to clusters, which may hang; following the group's configuration, and its watch; closing a lost group; reporting that the storage refuses this gateway; changes of reservations, calls of a keeper, and what it has read again; controllers, and their watch
	"cmd/nvmeof/internal/keeper":         1,  // the drain of each socket
	"cmd/nvmeof/internal/lending":        1,  // the server
	"cmd/nvmeof/internal/outlet":         1,  // printing
	"cmd/nvmeof/internal/sandbox":        1,  // file systems that may not answer
	"cmd/nvmeof/internal/signals":        1,  // signals while a command runs
	"cmd/nvmeof/internal/benchcommand":   1,  // following changes
	"cmd/nvmeof/internal/connections":    12, // following changes; looking at the namespaces of each subsystem; each controller that is kept; the end of each; the socket and its file; a capture that is not read; reporting how many lines were left out; each flush at the end
	"cmd/nvmeof/internal/targetcommand":  8,  // the gateway; reading files and devices, which may not answer; reporting that; the end; opening and writing the audit and events, and syncing the audit; a takeover that a signal ends
	"cmd/nvmeof/internal/takeover":       1,  // the process that connects
	"cmd/nvmeof/internal/rdmatools":      3,  // calls that block; a peer that does not answer
}

func TestGoroutines(t *testing.T) {
	count, findings := goStatements(sources(t))
	report(t, findings)
	report(t, differences(count, agreedGoroutines))
}

// inGuest is the directory of the scripts that run as root of a virtual machine.
const inGuest = "test/interop/scripts/"

// TestNoLocalPaths checks every text file, not only Go files.
func TestNoLocalPaths(t *testing.T) {
	names, err := listed(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".pcap") || bytes.IndexByte(text, 0) >= 0 || strings.HasPrefix(name, inGuest) {
			continue
		}
		report(t, localPathsIn(name, text))
	}
}

func TestStaleNames(t *testing.T) {
	t.Parallel()
	report(t, staleNames(sources(t)))
}

func TestDocLinks(t *testing.T) { report(t, brokenLinks(sources(t))) }

// agreedCallbacks lists the interfaces by which a package calls back packages above it, so that a new one is a
// deliberate decision: calls should go down, and results come back.
var agreedCallbacks = []string{
	"cmd/nvmeof/internal/benchcommand.Fabric",      // how it connects
	"cmd/nvmeof/internal/connections.FrontEnd",     // disks of the machine
	"cmd/nvmeof/internal/nvmeverb.Connection",      // executes a command
	"cmd/nvmeof/internal/nvmeverb.NamespaceLister", // the same
	"internal/group/runner.Target",                 // decisions of a group
	"nvmeof/control.Faults",                        // failed stores, which all gateways must know
	"nvmeof/control.FileNotes",                     // files, which all gateways must know
	"nvmeof/control.Gateways",                      // administrators' commands
	"nvmeof/control.Group",                         // the document that gateways share
	"nvmeof/discovery.Dialer",                      // how it connects
	"nvmeof/discovery.Session",                     // the same
	"nvmeof/internal/fabric.Handler",               // commands that have arrived
	"nvmeof/internal/shard.Consumer",               // completions
	"nvmeof/internal/shard.Poller",                 // a turn of the loop
	"nvmeof/nbd/internal/wire.Catalog",             // exports, which a negotiation lists
	"nvmeof/target.ReservationKeeper",              // records, in a store that may not answer
	"nvmeof/target.ReservationLocker",              // the same, in files
	"nvmeof/target.ReservationStore",               // the same
	"nvmeof/target/internal/storage.Owner",
	"nvmeof/target/internal/storage.ReservationLocker",
	"nvmeof/target/internal/storage.ReservationStore",
	"nvmeof/target/internal/storage.SharedStore",
	"rdmatransport/softroce/internal/rc.Keys", // memory regions, which requests name
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	layers, err := layersOfRoot()
	if err != nil {
		t.Fatal(err)
	}
	found := callbacks(layers)
	for _, name := range found {
		if !slices.Contains(agreedCallbacks, name) {
			t.Errorf("%s calls back: a package above implements it, and its own calls it", name)
		}
	}
	for _, name := range agreedCallbacks {
		if !slices.Contains(found, name) {
			t.Errorf("%s is agreed on and calls nobody back", name)
		}
	}
}
