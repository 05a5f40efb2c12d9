package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// gatewaysPage is docs/gateways.md, line by line. In a test the store is an etcd, and the images are files whose fence
// is a lease: test/ceph uses the same files with a real cluster of Ceph.
var gatewaysPage = []documented{
	{line: "CGO_ENABLED=1 go build -tags rbd -o bin/ ./cmd/nvmeof", by: "test/ceph TestGatewayUser"},
	{line: "ceph osd pool create disks", by: "test/ceph TestGatewayUser"},
	{line: "rbd pool init disks", by: "test/ceph TestGatewayUser"},
	{line: "ceph auth get-or-create client.nvmeof mon 'profile rbd' osd 'profile rbd pool=disks' -o ceph.client.nvmeof.keyring", by: "test/ceph TestGatewayUser"},
	{line: "nvmeof target check gw1.yaml", wants: []string{"gw1.yaml is valid: 1 listener(s)"}},
	{line: "nvmeof target --config gw1.yaml", instead: []string{"nvmeof target", "sh -c 'echo $$ >gw1.pid; exec nvmeof target --config gw1.yaml' #"}, killed: true, stays: "controlled at"},
	{line: "nvmeof gateway list", wants: []string{"gw1 (this one)"}},
	{line: "sed 's/192.0.2.1/192.0.2.2/; s/gw1/gw2/' gw1.yaml >gw2.yaml"},
	{line: "nvmeof target --config gw2.yaml", instead: atGateway("gw2"), stays: "controlled at"},
	{line: "sed 's/192.0.2.1/192.0.2.3/; s/gw1/gw3/' gw1.yaml >gw3.yaml"},
	{line: "nvmeof target --config gw3.yaml", instead: []string{"nvmeof target", "sh -c 'echo $$ >gw3.pid; exec nvmeof target --config gw3.yaml --socket DIR/gw3' #"}, stays: "controlled at"},

	{line: "nvmeof target check disks.yaml", wants: []string{"disks.yaml is valid for the gateways of a group: 1 subsystem(s), 3 namespace(s)"}},
	{line: "nvmeof target apply disks.yaml", wants: []string{"add namespace 3 of nqn.2026-11.org.example:disks"}},
	{line: "nvmeof gateway list", instead: untilShown("gw3  *alive  *1"), wants: []string{"gw2             alive", "gw3             alive"}},
	{line: "nvmeof ana-group owners", instead: untilShown("gw3"), wants: []string{"gw1", "gw2", "gw3", "lease"}},

	{line: "nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2026-11.org.example:disks", by: "test/interop TestGateways"},
	{line: "nvme connect -t rdma -a 192.0.2.2 -s 4420 -n nqn.2026-11.org.example:disks", by: "test/interop TestGateways"},
	{line: "nvme connect -t rdma -a 192.0.2.3 -s 4420 -n nqn.2026-11.org.example:disks", by: "test/interop TestGateways"},
	{line: "nvme connect-all -t rdma -a 192.0.2.1 -s 4420", by: "test/interop TestLinuxHost"},
	{line: "nvmeof attach -t rdma -a 192.0.2.1,192.0.2.2,192.0.2.3 -n nqn.2026-11.org.example:disks --socket /run/user/1000/disks.sock",
		instead: []string{"/run/user/1000", "DIR"}, stays: "namespace 3, "},
	{line: "nvmeof connect-all -t rdma -a 192.0.2.1 --persistent &", stays: "connecting to device: nvme0\n"},
	{line: "nvmeof list-subsys", instead: untilShown("traddr=192.0.2.3,trsvcid=4420 live"), wants: []string{"traddr=ADDR1,trsvcid=4420 live", "traddr=ADDR2,trsvcid=4420 live", "traddr=ADDR3,trsvcid=4420 live"}},

	{line: "nvmeof bench -t rdma -a 192.0.2.1,192.0.2.2,192.0.2.3 -n nqn.2026-11.org.example:disks --rw randrw --bs 4k --verify --runtime 60 --ctrl-loss-tmo 120",
		instead: []string{"nvmeof bench", `(sleep 2; kill -9 "$(cat gw1.pid)") & nvmeof bench`, "--runtime 60", "--runtime 6 --keep-alive-tmo 1 --rate_iops 50"}, wants: []string{"read back and compared"}},
	{line: `kill -9 "$(pidof nvmeof)"`, why: "the line above has it in the test, while it runs"},
	{line: "nvmeof gateway list", instead: untilAt("gw2", "gw1  *ended  *0 "), wants: []string{"gw1             ended", "gw2 (this one)  alive"}},
	{line: "nvmeof ana-group owners", instead: atGateway("gw2"), wants: []string{"gw2", "gw3"}},
	{line: "nvmeof events --since 5m", instead: atGateway("gw2"), wants: []string{"gateway gw1 is ended", "now serves ANA group"}},
	{line: "nvmeof target --config gw1.yaml", stays: "controlled at"},

	{line: "nvmeof gateway drain gw2 --wait 1m"},
	{line: "nvmeof gateway list", wants: []string{"gw2             drained  0"}},
	{line: "nvmeof gateway resume gw2"},
	{line: "nvmeof ana-group move 22 --gateway gw1 --wait 1m", instead: []string{"22", "54"}},
	{line: "nvmeof gateway remove gw3", instead: []string{"nvmeof", `kill "$(cat gw3.pid)"; for i in $(seq 60); do nvmeof gateway list | grep -q "gw3  *ended" && break; sleep 0.5; done; nvmeof`}},
}

// atGateway makes a line address, or start, a gateway other than the first.
func atGateway(name string) []string {
	return []string{"owners", "owners --socket DIR/" + name, "list", "list --socket DIR/" + name, "--since", "--socket DIR/" + name + " --since", "--config", "--socket DIR/" + name + " --config"}
}

// untilShown repeats a line for up to half a minute until it shows a text.
func untilShown(what string) []string {
	return []string{"nvmeof", "nvmeof() { for i in $(seq 60); do $(which nvmeof) \"$@\" >shown; grep -q '" + what + "' shown && break; sleep 0.5; done; cat shown; }; nvmeof"}
}

func untilAt(name, what string) []string {
	return append(untilShown(what), "list", "list --socket DIR/"+name)
}

// yamlOf returns the files that a page shows.
func yamlOf(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// TestGatewaysPage follows docs/gateways.md, with its files: three gateways on addresses of this machine, the first of
// which is killed while a host verifies its data.
func TestGatewaysPage(t *testing.T) {
	if !*long {
		t.Skip("without -long: it takes 20 s")
	}
	haveTool(t, "etcd")
	r, addr := newPageReader(t)
	at := []string{addr, loopbackAddress(), loopbackAddress()}
	store := loopbackAddress()
	r.words = strings.NewReplacer("192.0.2.1", at[0], "192.0.2.2", at[1], "192.0.2.3", at[2], "ADDR1", at[0], "ADDR2", at[1], "ADDR3", at[2], "DIR", r.dir)
	files := yamlOf(t, "../../docs/gateways.md")
	if len(files) != 2 {
		t.Fatalf("the page shows %d files", len(files))
	}
	own := r.words.Replace(strings.NewReplacer("rados://disks/group1", "etcd://"+store+"/group1", "  id: nvmeof\n", "").Replace(files[0]))
	shared := regexp.MustCompile(`rbd: \{image: disks/(\w+), size: 100GiB, id: nvmeof\}`).ReplaceAllString(files[1], "file: {path: "+r.dir+"/$1, size: 16MiB}\n        fence: lease")
	hostnqn := strings.TrimSpace(command(t, "show-hostnqn").out)
	for name, text := range map[string]string{"gw1.yaml": own, "disks.yaml": strings.ReplaceAll(shared, "NQN-OF-THE-HOST", hostnqn)} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := func(port int) string { return fmt.Sprintf("http://%s:%d", store, port) }
	r.follow(documented{line: fmt.Sprintf("etcd --name e --data-dir etcd --listen-client-urls %s --advertise-client-urls %[1]s --listen-peer-urls %s --initial-advertise-peer-urls %[2]s --initial-cluster e=%[2]s", url(2379), url(2380)),
		stays: "ready to serve client requests", killed: true})
	r.doDocumented(gatewaysPage)
	const resume = "nvmeof namespace resume 1 -n nqn.2026-11.org.example:disks --socket "
	r.follow(documented{line: "for i in $(seq 60); do (" + resume + "DIR/s; " + resume + "DIR/gw2) >shown 2>&1; grep -q 'serves it: run the command there' shown && break; sleep 0.5; done; cat shown",
		wants: []string{"it is not paused", "serves it: run the command there"}})
}

// TestCheckShared checks the document shared by gateways, and that settings of a single gateway are rejected there.
func TestCheckShared(t *testing.T) {
	const nqn = "subsystems:\n  - nqn: nqn.2026-11.org.example:disks\n    allow-any-host: true\n    namespaces:\n      - {nsid: 1, "
	own := "version: 1\nlisteners: [{id: 1, address: 192.0.2.1}]\ngroup: {store: etcd://192.0.2.9/group1, gateway: gw1}\n"
	for _, test := range []struct {
		text, want string
		code       int
	}{
		{"version: 1\n" + nqn + "rbd: {image: disks/disk1}}\n", "is valid for the gateways of a group: 1 subsystem(s), 1 namespace(s)", 0},
		{"version: 1\n" + nqn + "file: {path: /disk1}}\n", "set fence: lease", exitUsage},
		{"version: 1\n" + nqn + "memory: {size: 1MiB}}\n", "memory exists in one gateway only", exitUsage},
		{own, "is valid: 1 listener(s)", 0},
		{own + nqn + "rbd: {image: disks/disk1}}\n", "subsystems and referrals are those of the group", exitUsage},
	} {
		name := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(name, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, "target", "check", name).want(t, test.code, test.want)
	}
	for flag, args := range map[string][]string{"--gateway: ": {"--group", "etcd://192.0.2.9/g", "--gateway", "g w"}, "--group: ": {"--group", "etcd:192.0.2.9"}} {
		command(t, append([]string{"target", "--listen", "192.0.2.1"}, args...)...).want(t, exitUsage, flag)
	}
}
