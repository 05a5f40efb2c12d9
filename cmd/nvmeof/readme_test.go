package main

import (
	"os"
	"path/filepath"
	"testing"
)

// readme is README.md, line by line. ADDR1 and so on are addresses of this machine.
var readme = []documented{
	{line: "go run ./cmd/nvmeof demo", by: ".ci/run"},
	{line: "go run ./cmd/nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --export /srv/disk.img,size=10GiB --allow-host NQN-OF-THE-HOST",
		instead: []string{"go run ./cmd/nvmeof", "nvmeof", "/srv/disk.img,size=10GiB", "DIR/readme.img,size=16MiB", "mem:1GiB", "mem:16MiB"},
		stays:   "nvme connect -t rdma -a ADDR1 -s 4420 -n nqn.2026-11.org.example:disk\n"},
	{line: "modprobe nvme-rdma", by: "test/interop TestLinuxHost"},
	{line: "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0", by: "test/interop TestLinuxHost"},
	{line: "nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2026-11.org.example:disk", by: "test/interop TestLinuxHost"},

	{line: "nvmeof discover -t rdma -a 192.0.2.1 -s 4420", wants: []string{"Discovery Log Number of Records 2,", "\ntraddr:  ADDR1\n"}},
	{line: "nvmeof id-ns    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --namespace-id 1", wants: []string{"NVME Identify Namespace 1:\nnsze    : 0x8000\n"}},
	{line: "nvmeof flush    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk", wants: []string{"NVMe Flush: success"}},
	{line: "nvmeof bench    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --rw randread --bs 4k --iodepth 32",
		instead: []string{"--iodepth 32", "--iodepth 32 --io_size 4m"}, wants: []string{"ns1: (groupid=0, jobs=1)", "  read: IOPS="}},
	{line: "nvmeof attach -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --socket /run/user/1000/disk.sock",
		instead: []string{"/run/user/1000", "DIR"}, stays: "nbd-client"},
	{line: "nvmeof connect-all -t rdma -a 192.0.2.1 --persistent &", stays: "connecting to device: nvme0\n"},
	{line: "nvmeof list-subsys; nvmeof disconnect -n nqn.2026-11.org.example:disk",
		wants: []string{"nvme-subsys0 - NQN=nqn.2026-11.org.example:disk\n", " +- nvme0 rdma traddr=ADDR1,trsvcid=4420 live\n", "disconnected 1 controller(s)\n"}},

	{line: "nvmeof target check target.yaml", wants: []string{"1 listener(s), 1 subsystem(s), 2 namespace(s)"}},
	{line: "nvmeof target --config target.yaml", stays: "nvme connect -t rdma -a ADDR2"},
	{line: "nvmeof target apply --dry-run target.yaml", wants: []string{"nothing to change\n"}},
	{line: "nvmeof namespace add 3 --memory 1GiB -n nqn.2026-11.org.example:disk --save", instead: []string{"1GiB", "1MiB"}, wants: []string{"add namespace 3", "saved\n"}},
	{line: "nvmeof ls; nvmeof controller list", wants: []string{"ADDR2:4420", "nqn.2026-11.org.example:disk", "HOST"}},

	{line: "umask 077; nvmeof gen-dhchap-key --hmac 1 --nqn NQN-OF-THE-HOST >host.key",
		instead: []string{">host.key", ">host.key && nvmeof gen-dhchap-key --hmac 1 --nqn nqn.2026-11.org.example:disk >ctrl.key"}},
	{line: "nvmeof target ... --allow-host NQN-OF-THE-HOST,dhchap-key-file=host.key,dhchap-ctrl-key-file=ctrl.key",
		instead: []string{"...", "--listen ADDR3 --nqn nqn.2026-11.org.example:disk --export mem:1MiB"}, stays: "nvme connect -t rdma -a ADDR3"},
	{line: `nvme connect ... --dhchap-secret "$(cat host.key)" --dhchap-ctrl-secret "$(cat ctrl.key)"`, // a Linux host: test/interop TestAuthLinuxHost
		instead: []string{"nvme connect ...", "nvmeof id-ctrl -a ADDR3 -n nqn.2026-11.org.example:disk"}, wants: []string{"subnqn    : nqn.2026-11.org.example:disk\n"}},

	{line: "nvmeof doctor", wants: []string{"UDP port 4791"}},
	{line: "nvmeof rdma write-bw", instead: []string{"write-bw", "write-bw --host-traddr ADDR4"}, stays: "ADDR4"},
	{line: "nvmeof rdma write-bw 192.0.2.1", instead: []string{"192.0.2.1", "ADDR4"}, wants: []string{"65536"}},
	{line: "nvmeof rdma ping -s", instead: []string{"-s", "-s -a ADDR5"}, stays: "ADDR5"},
	{line: "nvmeof rdma ping -c -a 192.0.2.1 -C 10", instead: []string{"192.0.2.1", "ADDR5"}, wants: []string{"10 pings"}},

	{line: "go test ./...", by: ".ci/run"},
	{line: "go test ./test/interop -guest -v -parallel 2 -timeout 80m", by: "test/interop TestLinuxHost"},
	{line: "go test ./test/interop -guest -whole -v -run TestVerbs -timeout 80m", by: "test/interop TestVerbs"},
	{line: "go test ./test/interop -guest -v -run TestHostReturns -timeout 40m", by: "test/interop TestHostReturns"},
	{line: "go test ./test/interop -guest -rounds 5 -v -run TestVerbsBench -timeout 20m", by: "test/interop TestVerbsBench"},
	{line: "go test ./rdmatransport/softroce/rc -run Programs -rc.seeds 10000", by: "rdmatransport/softroce/rc TestPrograms"},
	{line: "go run ./test/bench", by: "test/bench TestSmoke"},
}

// TestReadme does what README.md says, in its order, as an ordinary user with an empty
// home: every line, but for those that only the machines of another test can run.
func TestReadme(t *testing.T) {
	beside(t)
	wantDocumented(t, "../../README.md", readme)
	a, b := loopbackAddress(), loopbackAddress()
	r := newReader(t, "192.0.2.1", a, "ADDR1", a, "ADDR2", b, "ADDR3", loopbackAddress(), "ADDR4", loopbackAddress(), "ADDR5", loopbackAddress(),
		"NQN-OF-THE-HOST", "$(nvmeof show-hostnqn)")
	c := &configured{dir: r.dir, testTarget: &testTarget{addr: b}}
	if c.write(t, "target.yaml", testConfig) != filepath.Join(r.dir, "target.yaml") {
		t.Fatal("the configuration is elsewhere")
	}
	for _, d := range readme {
		if d.by == "" && d.why == "" {
			r.follow(d)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "readme.img")); err != nil {
		t.Error(err)
	}
}
