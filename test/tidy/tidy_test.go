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

// TestMain has less memory looked through for garbage: the tree stays. What TestCallbacks needs, one thing after another, is
// begun at once: it would be all that a processor has to do at the end.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	if flag.Lookup("test.run").Value.String() == "" {
		go func() { _, _ = layersOfRoot() }() // ends before TestCallbacks does
	}
	os.Exit(m.Run())
}

var layersOfRoot = sync.OnceValues(func() ([]*layer, error) { return layersOf(root) })

// tree is the repository, read once.
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

// TestFiles holds the rules that concern one file at a time: the format, of which gofmt -l says the
// same, with -long only, since it takes as much processor time as all the rest.
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

// agreedGoroutines makes each new goroutine a decision. Data paths have none of
// their own: a shard is one.
var agreedGoroutines = map[string]int{
	"backend/internal/disk":              3,  // blocking calls where there is no io_uring; a ring's wake-ups; copying
	"backend/rbd":                        5,  // wake-ups where the owner does not watch; a cluster that does not answer as a queue, a store or a client is closed, or others are fenced
	"internal/librados":                  1,  // placement groups that are visited at a time, by calls that block
	"internal/bench":                     1,  // each job
	"internal/group/state/rados":         4,  // what asks a cluster, which may not answer, as it is opened, used and closed; who follows changes
	"nvmeof/control":                     14, // what listens, what waits for a device or an address, files and devices that may hang, the socket and its file, a stream that nobody takes, stores that a group opens, and closes late
	"nvmeof/discovery":                   1,  // each node's connection
	"nvmeof/events":                      1,  // writing the file
	"nvmeof/host":                        2,  // a controller's events; the end of the host
	"nvmeof/host/internal/operation":     1,  // a context that ends
	"nvmeof/internal/shard":              1,  // the loop
	"nvmeof/metrics":                     1,  // what is served
	"nvmeof/multipath":                   4,  // the life of a path; a queue's timer; each path as a namespace is opened, or its size read
	"internal/namedfile":                 2,  // a file system that does not answer
	"nvmeof/nbd":                         2,  // the loop; the file of its socket
	"nvmeof/target":                      12, // connections; freeing queues; keys; stores, and one that does not answer; reservations; the end of a pause; subsystems at the end; stores that a group gives back, and commands that it has lost
	"internal/floor":                     2,  // the other side
	"internal/group/state/etcd":          4,  // whether the endpoint answers; contexts that end with the store, and with the endpoint in use
	"internal/group/runner":              2,  // the engine; what takes time
	"internal/group/state/statetest":     5,  // clients, watches, and calls that must end
	"cmd/nvmeof":                         2,  // the command, the second signal
	"cmd/nvmeof-csi":                     1,  // the end, which waits for calls
	"cmd/nvmeof-csi/internal/driver":     1,  // connections that no volume uses
	"cmd/nvmeof-csi/internal/fabric":     2,  // nvmeof attach, which is waited for; a device that may not answer
	"cmd/nvmeof/internal/attachcommand":  1,  // a path that is awaited
	"cmd/nvmeof/internal/administer":     2,  // silence of the target; an output that nobody takes
	"cmd/nvmeof/internal/connectcommand": 1,  // following discovery records
	"cmd/nvmeof/internal/console":        1,  // what is served
	"cmd/nvmeof/internal/hosts":          1,  // silence of the other side
	"cmd/nvmeof/internal/gateway":        22, // what has another size at other gateways; notes of files, and of stores that have failed; counters of the I/O; who asks whether the storage answers; what erases namespaces; what a group needs before it is served; what says which configuration is in force; images of groups that are about to come, each of them, and the end of those that are not used; who connects to clusters, which may hang; who follows the group's configuration, and its watch; what is closed of a group that was lost; who says that its storage refuses it; changes of reservations, calls of a keeper, and what it has read again; controllers, and their watch
	"cmd/nvmeof/internal/keeper":         1,  // the drain of each socket
	"cmd/nvmeof/internal/lending":        1,  // what serves others
	"cmd/nvmeof/internal/outlet":         1,  // what is printed
	"cmd/nvmeof/internal/sandbox":        1,  // file systems that may not answer
	"cmd/nvmeof/internal/signals":        1,  // what comes while a command runs
	"cmd/nvmeof/internal/benchcommand":   1,  // following changes
	"cmd/nvmeof/internal/connections":    12, // following changes; who looks at the namespaces of each subsystem; each controller that is kept; the end of each; the socket and its file; a capture that nobody takes; saying how many lines were left out; each flush at the end
	"cmd/nvmeof/internal/targetcommand":  8,  // the gateway; what reads files and devices, which may not answer; showing that; the end; opening and writing the audit and events, and syncing the audit; a takeover that a signal ends
	"cmd/nvmeof/internal/takeover":       1,  // the process that connects
	"cmd/nvmeof/internal/rdmatools":      3,  // what blocks; silence of the other side
}

func TestGoroutines(t *testing.T) {
	count, findings := goStatements(sources(t))
	report(t, findings)
	report(t, differences(count, agreedGoroutines))
}

// inGuest are the scripts that run as root of a virtual machine.
const inGuest = "test/interop/scripts/"

// TestNoLocalPaths looks into every text file, not only Go.
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

// agreedCallbacks makes each interface by which a package calls back those above it a
// decision: calls go down, and what comes back is a result.
var agreedCallbacks = []string{
	"cmd/nvmeof/internal/benchcommand.Fabric",      // how it connects
	"cmd/nvmeof/internal/connections.FrontEnd",     // disks of the machine
	"cmd/nvmeof/internal/nvmeverb.Connection",      // what a command is carried out on
	"cmd/nvmeof/internal/nvmeverb.NamespaceLister", // the same
	"internal/group/runner.Target",                 // what a group decides
	"nvmeof/control.Faults",                        // stores that have failed, of which all gateways know
	"nvmeof/control.FileNotes",                     // files that all gateways know
	"nvmeof/control.Gateways",                      // orders of administrators
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
	"rdmatransport/softroce/internal/rc.Keys", // memory, which requests name
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
