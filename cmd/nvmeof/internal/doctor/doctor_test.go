package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

// TestMachines judges the machines in testdata: *.machine describes one, and *.txt and *.json are the expected
// reports.
func TestMachines(t *testing.T) {
	names, err := filepath.Glob("testdata/*.machine")
	if err != nil || len(names) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	for _, name := range names {
		name := strings.TrimSuffix(name, ".machine")
		t.Run(filepath.Base(name), func(t *testing.T) {
			r := Judge(Gather(readMachine(t, name+".machine")))
			for suffix, print := range map[string]func(*bytes.Buffer) error{
				".txt":  func(b *bytes.Buffer) error { return Text(b, r) },
				".json": func(b *bytes.Buffer) error { return JSON(b, r) },
			} {
				var got bytes.Buffer
				if err := print(&got); err != nil {
					t.Fatal(err)
				}
				wantFile(t, name+suffix, got.Bytes())
			}
		})
	}
}

func wantFile(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed (go test -update rewrites it); got:\n%s\nwant:\n%s", name, got, want)
	}
}

// A machineFile is a machine in a file of testdata, of lines
//
//	path = value        a file of one line
//	path -> target      a symbolic link, with \40 for a space
//	path < line         one more line of a file
//	path !              this user may not read it
//	@key words          what no file tells
type machineFile struct {
	files  fstest.MapFS
	hidden map[string]bool
	*Machine
	details []Details
	owners  map[netip.Addr]string
	lacks   map[string]bool // paths that are not writable
	loadErr error
	ringErr error
	noCM    string // why no device can be found
}

func readMachine(t *testing.T, name string) *Machine {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m := &machineFile{
		files: fstest.MapFS{}, hidden: map[string]bool{}, owners: map[netip.Addr]string{}, lacks: map[string]bool{},
		Machine: &Machine{Processors: 4},
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			m.read(t, line)
		}
	}
	m.Files = hiding{m.files, m.hidden}
	m.Libraries = func() error { return m.loadErr }
	m.Details = func() ([]Details, error) { return m.details, nil }
	m.Machine.Access = func(path string) bool { return !m.lacks[path] }
	m.Machine.IOUring = func() error { return m.ringErr }
	m.Choose = m.choose
	return m.Machine
}

// choose returns the program's choice of transport.
func (m *machineFile) choose(addr netip.Addr) (transport, why string) {
	switch owner, ok := m.owners[addr]; {
	case !m.Verbs:
		return "softroce", "this build has no verbs transport"
	case m.loadErr != nil:
		return "softroce", m.loadErr.Error()
	case ok:
		return "verbs", addr.String() + " belongs to the RDMA device " + owner
	}
	if m.noCM != "" {
		return "softroce", m.noCM
	}
	return "softroce", "verbs: no RDMA device has the address " + addr.String() + ": choose another"
}

func (m *machineFile) read(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	rest := func(n int) string { return strings.Join(f[n:], " ") }
	switch {
	case strings.HasPrefix(line, "@"):
		m.answer(t, f)
	case len(f) > 1 && f[1] == "=":
		m.files[f[0]] = &fstest.MapFile{Data: []byte(rest(2) + "\n")}
	case len(f) == 3 && f[1] == "->":
		m.files[f[0]] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(f[2], `\40`, " ")), Mode: fs.ModeSymlink}
	case len(f) > 1 && f[1] == "<":
		if m.files[f[0]] == nil {
			m.files[f[0]] = &fstest.MapFile{}
		}
		m.files[f[0]].Data = append(m.files[f[0]].Data, rest(2)+"\n"...)
	case len(f) == 2 && f[1] == "!":
		m.hidden[f[0]] = true
		m.files[f[0]+"/0"] = &fstest.MapFile{}
	default:
		t.Fatalf("what is %q?", line)
	}
}

func (m *machineFile) answer(t *testing.T, f []string) {
	t.Helper()
	rest := strings.Join(f[1:], " ")
	switch f[0] {
	case "@address":
		m.Addresses = append(m.Addresses, Address{f[1], netip.MustParsePrefix(f[2])})
	case "@verbs":
		m.Verbs = true
	case "@ceph":
		m.Ceph = true
	case "@program":
		m.Program = f[1]
	case "@load-error":
		m.loadErr = errors.New(rest)
	case "@ring-error":
		m.ringErr = errors.New(rest)
	case "@no-cm":
		m.noCM = rest
	case "@owner":
		m.owners[netip.MustParseAddr(f[1])] = f[2]
	case "@no-access":
		m.lacks[f[1]] = true
	case "@limits": // for one device, with the active MTU of its ports
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		d := Details{Name: f[1], Limits: Limits{number(2), number(3), number(4), number(5), uint64(number(6)), number(7), number(8), number(9), number(10)}}
		for i := 11; i < len(f); i++ {
			d.ActiveMTU = append(d.ActiveMTU, number(i))
		}
		m.details = append(m.details, d)
	default:
		t.Fatalf("what is %q?", f[0])
	}
}

// hiding is a file system in which some directories cannot be read.
type hiding struct {
	fstest.MapFS
	hidden map[string]bool
}

func (h hiding) ReadDir(name string) ([]fs.DirEntry, error) {
	if h.hidden[name] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return h.MapFS.ReadDir(name)
}

// TestPathMTU uses 96 bytes for headers, as Linux does.
func TestPathMTU(t *testing.T) {
	for mtu, want := range map[int]int{68: 0, 351: 0, 352: 256, 1500: 1024, 2143: 1024, 2144: 2048, 4191: 2048, 4192: 4096, 9000: 4096, 65536: 4096} {
		if got := pathMTU(mtu); got != want {
			t.Errorf("pathMTU(%d) = %d, want %d", mtu, got, want)
		}
	}
}

// TestKeys checks the key names and that lists are never null, on which scripts rely.
func TestKeys(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, Judge(Gather(readMachine(t, "testdata/none.machine")))); err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(b.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"build", "installed", "devices", "interfaces", "roce_port", "memory", "sockets", "modules", "access", "io_uring",
		"processors", "transports", "findings", "unread", "works"} {
		if top[key] == nil {
			t.Errorf("no key %s", key)
		}
	}
	if strings.Contains(b.String(), "null") {
		for _, key := range []string{"devices", "interfaces", "roce_port", "modules", "access", "transports", "findings", "unread"} {
			if top[key] == nil {
				t.Errorf("%s is null", key)
			}
		}
	}
}
