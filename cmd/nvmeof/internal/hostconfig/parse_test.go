package hostconfig

import (
	"strings"
	"testing"
	"testing/fstest"
)

// want compares the result of parsing a file with lines: entries as [Entry.String] describes them, and skipped
// entries, warnings and problems, marked by "skip", "warn" and "bad".
func want(t *testing.T, r Result, lines ...string) {
	t.Helper()
	var got []string
	for i := range r.Entries {
		kind := "io "
		if r.Entries[i].Discovery {
			kind = "discovery "
		}
		got = append(got, kind+r.Entries[i].String())
	}
	for i := range r.Skipped {
		got = append(got, "skip "+r.Skipped[i].String())
	}
	for _, p := range r.Warnings {
		got = append(got, "warn "+p.String())
	}
	for _, p := range r.Problems {
		got = append(got, "bad "+p.String())
	}
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

const testFile = "f"

func TestDiscoveryConf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"comments", "# a\n\n   # b\n", nil},
		{"long", "--transport=rdma --traddr=192.0.2.1 --trsvcid=4421\n", []string{"discovery f:1: traddr=192.0.2.1 transport=rdma trsvcid=4421"}},
		{"short", "#\n-t rdma -a 2001:db8::1 -w 2001:db8::2 -k 30 -p # c", []string{
			"discovery f:2: host-traddr=2001:db8::2 keep-alive-tmo=30 persistent=true traddr=2001:db8::1 transport=rdma"}},
		{"apart", "--transport rdma --traddr 192.0.2.1 --nqn nqn.2014-08.org.example:disc\r\n", []string{
			"discovery f:1: nqn=nqn.2014-08.org.example:disc traddr=192.0.2.1 transport=rdma"}},
		{"other transports", "-t tcp -a 192.0.2.1\n-t fc -a nn-0x1:pn-0x2\n-t rdma -a 192.0.2.1", []string{
			"discovery f:3: traddr=192.0.2.1 transport=rdma",
			"skip f:1: transport tcp is not supported, only rdma", "skip f:2: transport fc is not supported, only rdma"}},
		{"secret", "-t rdma -a 192.0.2.1 -S DHHC-1:00:abc: -C file:/k", []string{"discovery f:1: traddr=192.0.2.1 transport=rdma"}},
		{"no transport", "-a 192.0.2.1", []string{"bad f:1:1: the transport is missing; use transport=rdma"}},
		{"no address", "-t rdma", []string{"bad f:1:1: traddr is missing; give the controller's IP address, as in traddr=192.0.2.1"}},
		{"name", "-t rdma -a storage", []string{"bad f:1:1: transport address storage is no IP address; names are not looked up: give the IP address"}},
		{"unknown", "-t rdma --tradr=192.0.2.1", []string{"bad f:1:1: no such option: --tradr=192.0.2.1; did you mean traddr?"}},
		{"no option", "rdma", []string{"bad f:1:1: no such option: rdma; options look like --traddr=192.0.2.1"}},
		{"device", "-t rdma -a 192.0.2.1 -d", []string{"bad f:1:1: no such option: -d; write --disable-sqflow"}},
		{"no value", "-t rdma -a", []string{"bad f:1:1: --traddr needs a value"}},
		{"range", "-t rdma -a 192.0.2.1 -l -2", []string{"bad f:1:1: ctrl-loss-tmo is -2: want a number from -1 to 2147483"}},
		{"refused", "-t rdma -a 192.0.2.1 --tls", []string{"bad f:1:1: tls: there is no TLS over RDMA; remove it"}},
		{"not refused", "-t rdma -a 192.0.2.1 --tls=false", []string{"discovery f:1: tls=false traddr=192.0.2.1 transport=rdma"}},
		{"ignored", "-t rdma -a 192.0.2.1 -P 2", []string{"discovery f:1: traddr=192.0.2.1 transport=rdma", "warn f:1:1: nr-poll-queues is ignored: " + noQueues}},
		{"binary", "-t rdma\x00", []string{"bad f:1:1: it is not UTF-8 text; is it the right file?"}},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, ParseDiscoveryConf(testFile, []byte(c.text)), c.want...) })
	}
}

// hosts is a file as nvme-cli 2 writes it.
const hosts = `[
  {
    "hostnqn":"nqn.2014-08.org.nvmexpress:uuid:46ba5037-7ce5-41fa-9452-48477bf00080",
    "hostid":"46ba5037-7ce5-41fa-9452-48477bf00080",
    "dhchap_key":"DHHC-1:00:abc:",
    "subsystems":[
      {
        "nqn":"nqn.2014-08.org.nvmexpress.discovery",
        "ports":[
          { "transport":"rdma", "traddr":"192.0.2.1", "trsvcid":"4420", "persistent":true, "keep_alive_tmo":30 },
          { "transport":"tcp", "traddr":"192.0.2.1", "trsvcid":"8009" }
        ]
      },
      {
        "nqn":"nqn.2014-08.org.example:disk",
        "application":"x",
        "ports":[
          { "transport":"rdma", "traddr":"192.0.2.1", "trsvcid":4420, "tls":false, "fast_io_fail_tmo":-1, "tos":-1, "dhchap_key":null },
          { "transport":"rdma", "traddr":"192.0.2.2", "nr_io_queues":2, "shoesize":43, "dhchap_ctrl_key":"none" }
        ]
      }
    ]
  }
]
`

const hostOptions = "hostid=46ba5037-7ce5-41fa-9452-48477bf00080 hostnqn=nqn.2014-08.org.nvmexpress:uuid:46ba5037-7ce5-41fa-9452-48477bf00080 "

func TestJSON(t *testing.T) {
	entries := []string{
		"discovery f:10: " + hostOptions + "keep-alive-tmo=30 nqn=nqn.2014-08.org.nvmexpress.discovery persistent=true traddr=192.0.2.1 transport=rdma trsvcid=4420",
		"io f:18: fast_io_fail_tmo=-1 " + hostOptions + "nqn=nqn.2014-08.org.example:disk tls=false tos=-1 traddr=192.0.2.1 transport=rdma trsvcid=4420",
		"io f:19: " + hostOptions + "nqn=nqn.2014-08.org.example:disk nr-io-queues=2 traddr=192.0.2.2 transport=rdma",
		"skip f:11: transport tcp is not supported, only rdma",
		"warn f:19:1: shoesize is ignored",
	}
	r := ParseJSON(testFile, []byte(hosts))
	want(t, r, entries...)
	if s := r.Entries[1].Options["dhchap-secret"]; s != "DHHC-1:00:abc:" {
		t.Errorf("the host's key is %q in its subsystem", s)
	}
	if s, ok := r.Entries[2].Options["dhchap-ctrl-secret"]; ok {
		t.Errorf("a key that is none is %q", s)
	}
	want(t, ParseJSON(testFile, []byte(`{"hosts":`+hosts+`}`)), entries...)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "bad f:1:1: invalid JSON: it ends too early"},
		{"early end", "[\n{\"hostnqn\":", "bad f:2:1: invalid JSON: it ends too early"},
		{"two", "[]\n[]", "bad f:2:1: data after the end of the document"},
		{"syntax", "[\n\n}", "bad f:3:1: not JSON: invalid character '}' looking for beginning of value"},
		{"no hosts", "{}", `bad f:1:1: hosts is missing; write {"hosts": [...]}`},
		{"no list", `{"hosts":{}}`, "bad f:1:1: hosts is not a list; write [ ... ]"},
		{"no object", "[\n1]", "bad f:2:1: an element of hosts is not an object; write { ... }"},
		{"zero host", `[{"hostid":"00000000-0000-0000-0000-000000000000","subsystems":[{"nqn":"a","ports":[{"transport":"rdma","traddr":"192.0.2.1"}]}]}]`,
			"bad f:1:1: hostid is 00000000-0000-0000-0000-000000000000: want a UUID that is not zero"},
		{"no name", `[{"subsystems":[{"ports":[]}]}]`, "bad f:1:1: nqn of the subsystem is missing"},
		{"deep", strings.Repeat("[", 20), "bad f:1:1: more than 16 nested lists and objects"},
		{"number", `[{"subsystems":[{"nqn":"a","ports":[{"transport":"rdma","traddr":"192.0.2.1","queue_size":99999}]}]}]`,
			"bad f:1:1: queue-size is 99999: want a number from 2 to 1024"},
		{"list for a value", `[{"subsystems":[{"nqn":["a"]}]}]`, "bad f:1:1: nqn is a list or an object: want a single value"},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, ParseJSON(testFile, []byte(c.text)), c.want) })
	}
}

// TestWriteJSON checks that entries are the same after they were written and read again.
func TestWriteJSON(t *testing.T) {
	r := ParseJSON(testFile, []byte(hosts))
	text, err := WriteJSON(r.Entries)
	if err != nil {
		t.Fatal(err)
	}
	again := ParseJSON(testFile, text)
	if len(again.Problems)+len(again.Warnings)+len(again.Skipped) > 0 || len(again.Entries) != len(r.Entries) {
		t.Fatalf("%+v\n%s", again, text)
	}
	for i := range r.Entries {
		a, b := r.Entries[i], again.Entries[i]
		a.Line, b.Line = 0, 0
		if a.String() != b.String() || a.Options["dhchap-secret"] != b.Options["dhchap-secret"] || a.Discovery != b.Discovery {
			t.Errorf("%v became %v", &a, &b)
		}
	}
	if text, err := WriteJSON(nil); err != nil || string(text) != "[]\n" {
		t.Errorf("nothing is %q, %v", text, err)
	}
}

const mainConf = `# the system's host
[Discovery Controller Defaults]
keep-alive-tmo = 30
ctrl-loss-tmo  = 600      # of both kinds

[I/O Controller Defaults]
ctrl-loss-tmo = 500
nr-io-queues = 4

[Discovery Controller]
controller = transport=rdma;traddr=192.0.2.1
[Discovery Controller]
nqn = nqn.2014-08.org.example:disc
controller = transport=tcp;traddr=192.0.2.1;trsvcid=8009

[Subsystem]
nqn = nqn.2014-08.org.example:disk
ctrl-loss-tmo = 1800
controller = transport=rdma;traddr=192.0.2.1;trsvcid=4420;
controller = transport=rdma;traddr=192.0.2.2;host-traddr=192.0.2.9;ctrl-loss-tmo=;disable-sqflow=yes
`

const dropIn = `[Host]
hostnqn = nqn.2014-08.org.example:other
hostid = 46ba5037-7ce5-41fa-9452-48477bf00081
reconnect-delay = 3
[I/O Controller Defaults]
reconnect-delay = 20
nr-io-queues =
[Subsystem]
nqn = nqn.2014-08.org.example:black
controller = transport=rdma;traddr=192.0.2.7
`

func TestFabricsConf(t *testing.T) {
	folder := fstest.MapFS{
		"nvme-fabrics.conf":                {Data: []byte(mainConf)},
		"nvme-fabrics.conf.d/black.conf":   {Data: []byte(dropIn)},
		"nvme-fabrics.conf.d/black.conf~":  {Data: []byte("?")},
		"nvme-fabrics.conf.d/a/other.conf": {Data: []byte("?")},
	}
	want(t, Load(folder, "/e"),
		"discovery /e/nvme-fabrics.conf:11: ctrl-loss-tmo=600 keep-alive-tmo=30 persistent=true traddr=192.0.2.1 transport=rdma",
		"io /e/nvme-fabrics.conf:19: ctrl-loss-tmo=1800 nqn=nqn.2014-08.org.example:disk nr-io-queues=4 traddr=192.0.2.1 transport=rdma trsvcid=4420",
		"io /e/nvme-fabrics.conf:20: disable-sqflow=true host-traddr=192.0.2.9 nqn=nqn.2014-08.org.example:disk nr-io-queues=4 traddr=192.0.2.2 transport=rdma",
		"io /e/nvme-fabrics.conf.d/black.conf:10: ctrl-loss-tmo=500 hostid=46ba5037-7ce5-41fa-9452-48477bf00081 hostnqn=nqn.2014-08.org.example:other "+
			"nqn=nqn.2014-08.org.example:black reconnect-delay=3 traddr=192.0.2.7 transport=rdma",
		"skip /e/nvme-fabrics.conf:14: transport tcp is not supported, only rdma")
}

func TestBadFabricsConf(t *testing.T) {
	for _, c := range []struct {
		name, main, dropIn string
		want               []string
	}{
		{"nothing", "", "", nil},
		{"no section", "nqn = a", "", []string{"bad f:1:1: nqn is not in a section; move it into a section, for example [Host]"}},
		{"open section", "[Host", "", []string{"bad f:1:1: [Host is not a section; close it: [Subsystem]"}},
		{"unknown section", "[Subsytem]\nnqn = a\n", "", []string{"warn f:1:1: section [Subsytem] is ignored; did you mean Subsystem?"}},
		{"unknown key", "[Host]\nhostnqm = a\n", "", []string{"warn f:2:1: hostnqm is ignored; did you mean hostnqn?"}},
		{"underscores", "[I/O Controller Defaults]\nfast_io_fail_tmo = 3\n", "", []string{"warn f:2:1: fast_io_fail_tmo is ignored; did you mean fast-io-fail-tmo?"}},
		{"two hosts", "[Host]\n[Host]\n", "", []string{"bad f:2:1: there is a second [Host] section; each host needs its own file: move it to a drop-in"}},
		{"nameless drop-in", "", "[Host]\n", []string{"bad d:1:1: a drop-in with a [Host] section needs the NQN of that host; add hostnqn = ..."}},
		{"zero identifier", "[Host]\nhostid = 00000000-0000-0000-0000-000000000000\n[Subsystem]\nnqn=a\ncontroller=transport=rdma;traddr=192.0.2.1", "",
			[]string{"bad f:2:1: hostid is 00000000-0000-0000-0000-000000000000: want a UUID that is not zero"}},
		{"same name", "[Host]\nhostnqn = a", "[Host]\nhostnqn = a", []string{"bad d:1:1: f has the same hostnqn; each host needs a single file: move the sections there, or use another name"}},
		{"same identifier", "[Host]\nhostid = 46ba5037-7ce5-41fa-9452-48477bf00081", "[Host]\nhostnqn = a\nhostid = 46ba5037-7ce5-41fa-9452-48477bf00081",
			[]string{"bad d:1:1: f has the same hostid: targets would treat both as one host; give each host its own identifier"}},
		{"no controller", "[Subsystem]\nnqn = a", "", []string{"bad f:1:1: the section has no controller; add controller = transport=rdma;traddr=192.0.2.1"}},
		{"no name", "[Subsystem]\ncontroller = transport=rdma;traddr=192.0.2.1", "", []string{"bad f:2:1: nqn is missing; nvmeof discover lists the subsystems"}},
		{"empty name", "[Discovery Controller]\nnqn =\ncontroller = transport=rdma;traddr=192.0.2.1", "", []string{
			"discovery f:3: persistent=true traddr=192.0.2.1 transport=rdma", "bad f:2:1: nqn is empty; give it a value, or remove it"}},
		{"secret of a path", "[Subsystem]\nnqn = a\ncontroller = transport=rdma;traddr=192.0.2.1;dhchap-secret=x", "", []string{
			"bad f:3:1: dhchap-secret is not allowed on a controller line; move it to the section: it applies to the host and subsystem, not to a single path",
			"bad f:1:1: the section has no controller; add controller = transport=rdma;traddr=192.0.2.1"}},
		{"address in a section", "[Subsystem]\ntraddr = 192.0.2.1\nnqn = a\ncontroller = transport=rdma;traddr=192.0.2.1", "", []string{
			"io f:4: nqn=a traddr=192.0.2.1 transport=rdma",
			"bad f:2:1: traddr does not belong in [Subsystem]; addresses belong on a line controller = transport=rdma;traddr=..."}},
		{"no key", "[Host]\nx\n", "", []string{"bad f:2:1: x is neither a section nor a key; write key = value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var dropIns []File
			if c.dropIn != "" {
				dropIns = []File{{"d", []byte(c.dropIn)}}
			}
			want(t, ParseFabricsConf(File{testFile, []byte(c.main)}, dropIns), c.want...)
		})
	}
}

func TestLoad(t *testing.T) {
	want(t, Load(fstest.MapFS{}, "/e"))
	folder := fstest.MapFS{
		"discovery.conf": {Data: []byte("-t rdma -a 192.0.2.1")},
		"config.json":    {Data: []byte("[]")},
		"mine.conf":      {Data: []byte("[Discovery Controller]\ncontroller = transport=rdma;traddr=192.0.2.2")},
	}
	want(t, Load(folder, "/e"), "discovery /e/discovery.conf:1: traddr=192.0.2.1 transport=rdma")
	want(t, LoadFile(folder, "/e", "discovery.conf"), "discovery /e/discovery.conf:1: traddr=192.0.2.1 transport=rdma")
	want(t, LoadFile(folder, "/e", "config.json"))
	want(t, LoadFile(folder, "/e", "mine.conf"), "discovery /e/mine.conf:2: persistent=true traddr=192.0.2.2 transport=rdma")
	want(t, LoadFile(folder, "/e", "none.conf"), "bad /e/none.conf: file does not exist")
}
