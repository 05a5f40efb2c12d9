package main

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// The tables of README.md and the pages in docs, line by line. ADDR1 and so on are
// addresses of this machine.

var readme = []documented{
	{line: "go run ./cmd/nvmeof demo", by: ".ci/run"},
	{line: "go build -o bin/ ./cmd/nvmeof", by: ".ci/run"},
	{line: "PATH=$PWD/bin:$PATH"},
	{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:256MiB --export disk.img,size=1GiB --allow-any-host",
		instead: []string{"1GiB", "16MiB", "256MiB", "16MiB"},
		stays:   "nvme connect -t rdma -a ADDR1 -s 4420 -n nqn.2026-11.org.example:disk\n"},
	{line: "modprobe nvme-rdma", by: "test/interop TestLinuxHost"},
	{line: "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0", by: "test/interop TestLinuxHost"},
	{line: "nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2026-11.org.example:disk", by: "test/interop TestLinuxHost"},

	{line: "nvmeof discover -t rdma -a 192.0.2.1 -s 4420", wants: []string{"Discovery Log Number of Records 2,", "\ntraddr:  ADDR1\n"}},
	{line: "nvmeof id-ns    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --namespace-id 1", wants: []string{"NVME Identify Namespace 1:\nnsze    : 0x8000\n"}},
	{line: "nvmeof bench    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --rw randread --bs 4k --iodepth 32",
		instead: []string{"--iodepth 32", "--iodepth 32 --io_size 4m"}, wants: []string{"ns1: (groupid=0, jobs=1)", "  read: IOPS="}},
	{line: "nvmeof attach -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --socket /run/user/1000/disk.sock",
		instead: []string{"/run/user/1000", "DIR"}, stays: "nbd-client"},
	{line: "nvmeof doctor", wants: []string{"UDP port 4791"}},
	{line: "go test ./...", by: ".ci/run"},
}

var administration = []documented{
	{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --export /srv/disk.img,size=10GiB --allow-host NQN-OF-THE-HOST",
		instead: []string{"/srv/disk.img,size=10GiB", "DIR/disk.img,size=16MiB", "mem:1GiB", "mem:16MiB"},
		stays:   "nvme connect -t rdma -a ADDR1 -s 4420 -n nqn.2026-11.org.example:disk\n"},
	{line: "nvmeof target check target.yaml", wants: []string{"1 listener(s), 1 subsystem(s), 2 namespace(s)"}},
	{line: "nvmeof target --config target.yaml", stays: "nvme connect -t rdma -a ADDR2"},
	{line: "nvmeof target apply --dry-run target.yaml", wants: []string{"nothing to change\n"}},
	{line: "nvmeof namespace add 3 --memory 1GiB -n nqn.2026-11.org.example:disk --save", instead: []string{"1GiB", "1MiB"}, wants: []string{"add namespace 3", "saved\n"}},
	{line: "nvmeof ls; nvmeof controller list", wants: []string{"ADDR2:4420", "nqn.2026-11.org.example:disk", "HOST"}},
	{line: "nvmeof target --config /etc/nvmeof/target.yaml --takeover", by: "cmd/nvmeof TestTakeover"},
	{line: "nvmeof reservation list", wants: []string{"SUBSYSTEM", "HOST ID"}},
	{line: "nvmeof reservation clear 2 -n nqn.2026-11.org.example:disk --host NQN-OF-THE-HOST", by: "cmd/nvmeof TestReservationClear"},
	{line: "nvmeof subsystem add nqn.2016-06.io.spdk:cnode1 --serial SPDK00000000000001", wants: []string{"add subsystem nqn.2016-06.io.spdk:cnode1"}},
	{line: "nvmeof listener add 2 192.0.2.2:4420", instead: []string{"192.0.2.2:4420", "ADDR2:4421"}, wants: []string{"add listener 2"}},
	{line: "nvmeof host add NQN-OF-THE-HOST -n nqn.2016-06.io.spdk:cnode1", wants: []string{"add host"}},
	{line: "nvmeof namespace add 1 -n nqn.2016-06.io.spdk:cnode1 --file /srv/disk.img --uuid UUID --nguid NGUID",
		instead: []string{"/srv/disk.img", "DIR/spdk.img --size 1MiB", "--uuid UUID", "--uuid 11111111-2222-3333-4444-555555555555", "--nguid NGUID", "--nguid 11111111222233334444555555555555"},
		wants:   []string{"add namespace 1 of nqn.2016-06.io.spdk:cnode1"}},
	{line: "nvmeof ana-group set 1 --listener 2 --state inaccessible", wants: []string{"listener 2"}},
	{line: "nvmeof target save /etc/nvmeof/target.yaml", instead: []string{"/etc/nvmeof", "DIR"}, wants: []string{"saved to DIR/target.yaml"}},
	{line: "nvmeof ls; nvmeof top --once", wants: []string{"nqn.2016-06.io.spdk:cnode1", "IOPS"}},
}

// smallTarget is the target for the examples of a page.
var smallTarget = documented{line: "nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk --export mem:1GiB --allow-any-host",
	instead: []string{"1GiB", "16MiB"}, stays: "nvme connect -t rdma -a ADDR1"}

var hostSide = []documented{
	smallTarget,
	{line: "nvmeof discover -t rdma -a 192.0.2.1 -s 4420", wants: []string{"Discovery Log Number of Records 2,", "\ntraddr:  ADDR1\n"}},
	{line: "nvmeof id-ns    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --namespace-id 1", wants: []string{"NVME Identify Namespace 1:\nnsze    : 0x8000\n"}},
	{line: "nvmeof flush    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk", wants: []string{"NVMe Flush: success"}},
	{line: "nvmeof attach -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --socket /run/user/1000/disk.sock",
		instead: []string{"/run/user/1000", "DIR"}, stays: "nbd-client"},
	{line: "nvmeof connect-all -t rdma -a 192.0.2.1 --persistent &", stays: "connecting to device: nvme0\n"},
	{line: "nvmeof list-subsys; nvmeof disconnect -n nqn.2026-11.org.example:disk",
		wants: []string{"nvme-subsys0 - NQN=nqn.2026-11.org.example:disk\n", " +- nvme0 rdma traddr=ADDR1,trsvcid=4420 live\n", "disconnected 1 controller(s)\n"}},
}

var verbsPage = []documented{
	{line: "CGO_ENABLED=1 go build -tags verbs -o bin/ ./cmd/nvmeof", by: "test/interop TestDoctor"},
	{line: "nvmeof doctor", wants: []string{"UDP port 4791"}},
}

var authentication = []documented{
	{line: "umask 077; nvmeof gen-dhchap-key --hmac 1 --nqn NQN-OF-THE-HOST >host.key",
		instead: []string{">host.key", ">host.key && nvmeof gen-dhchap-key --hmac 1 --nqn nqn.2026-11.org.example:disk >ctrl.key"}},
	{line: "nvmeof target ... --allow-host NQN-OF-THE-HOST,dhchap-key-file=host.key,dhchap-ctrl-key-file=ctrl.key",
		instead: []string{"...", "--listen ADDR1 --nqn nqn.2026-11.org.example:disk --export mem:1MiB"}, stays: "nvme connect -t rdma -a ADDR1"},
	{line: `nvme connect ... --dhchap-secret "$(cat host.key)" --dhchap-ctrl-secret "$(cat ctrl.key)"`, // a Linux host: test/interop TestAuthLinuxHost
		instead: []string{"nvme connect ...", "nvmeof id-ctrl -a ADDR1 -n nqn.2026-11.org.example:disk"}, wants: []string{"subnqn    : nqn.2026-11.org.example:disk\n"}},
}

var benchmark = []documented{
	smallTarget,
	{line: "nvmeof bench    -t rdma -a 192.0.2.1 -n nqn.2026-11.org.example:disk --rw randread --bs 4k --iodepth 32",
		instead: []string{"--iodepth 32", "--iodepth 32 --io_size 4m"}, wants: []string{"ns1: (groupid=0, jobs=1)", "  read: IOPS="}},
	{line: "nvmeof rdma write-bw", instead: []string{"write-bw", "write-bw --host-traddr ADDR2"}, stays: "ADDR2"},
	{line: "nvmeof rdma write-bw 192.0.2.1", instead: []string{"192.0.2.1", "ADDR2"}, wants: []string{"65536"}},
	{line: "nvmeof rdma ping -s", instead: []string{"-s", "-s -a ADDR3"}, stays: "ADDR3"},
	{line: "nvmeof rdma ping -c -a 192.0.2.1 -C 10", instead: []string{"192.0.2.1", "ADDR3"}, wants: []string{"10 pings"}},
	{line: "go run ./test/bench", by: "test/bench TestSmoke"},
	{line: "go test ./test/interop -guest -rounds 5 -v -run TestVerbsBench -timeout 20m", by: "test/interop TestVerbsBench"},
}

// suites is the page about the tests themselves.
var suites = []documented{
	{line: "go test ./...", by: ".ci/run"},
	{line: "go test ./test/interop -guest -v -parallel 2 -timeout 80m", by: "test/interop TestLinuxHost"},
	{line: "go test ./test/interop -guest -whole -v -run TestVerbs -timeout 80m", by: "test/interop TestVerbs"},
	{line: "go test ./test/interop -guest -v -run TestTakeover -takeovers 50 -timeout 40m", by: "test/interop TestTakeover"},
	{line: "go test ./test/interop -guest -v -run TestHostReturns -timeout 40m", by: "test/interop TestHostReturns"},
	{line: "go test ./test/interop -guest -v -run TestLinuxHost -timeout 30m", by: "test/interop TestLinuxHost"},
	{line: "go test ./test/interop -guest -v -run TestOurHost -timeout 20m", by: "test/interop TestOurHost"},
	{line: "go test ./test/interop -run TestWireGuard -wireguard", by: "test/interop TestWireGuard"},
	{line: "go test ./test/baddisk -long", by: "test/baddisk TestChangesWhileHung"},
	{line: "go test ./test/interop -guest -v -run TestBadDisk", by: "test/interop TestBadDisk"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/ceph -ceph -v", by: "test/ceph TestContract"},
	{line: "go test ./rdmatransport/softroce/internal/rc -run Programs -rc.seeds 10000", by: "rdmatransport/softroce/internal/rc TestPrograms"},
	{line: "go test ./cmd/nvmeof ./cmd/nvmeof/internal/connections ./cmd/nvmeof/internal/fio ./internal/capture ./internal/group/revision ./nvmeof/auth ./nvmeof/config ./nvmeof/control ./nvmeof/host ./nvmeof/metrics ./backend/file ./backend/memory ./backend/rbd ./rdmatransport/rdmatest ./rdmatransport/softroce ./rdmatransport/softroce/internal/rc ./rdmatransport/softroce/internal/cm ./rdmatransport/softroce/internal/badinput ./test/tidy -long", by: "nvmeof/control TestRestart"},
	{line: "go test ./nvmeof/multipath -multipath.seeds 20 -long", by: "nvmeof/multipath TestStorm"},
	{line: "go test ./test/sim -seeds 1000", by: "test/sim TestSim"},
	{line: "go test ./test/sim -run TestSim -seed 105 -seeds 1 -v", by: "test/sim TestSim"},
	{line: "go test -c -o sim.test ./test/sim", by: "test/sim TestSim"},
	{line: `seq 1 100 | xargs -P "$(nproc)" -I{} ./sim.test -test.run TestSim -test.v -test.timeout 0 -seeds 10000 -seed {}0000`, by: "test/sim TestSim"},
	{line: "go test ./test/sim -run TestSim -holds -seeds 1000", by: "test/sim TestHolds"},
	{line: "go test ./test/groupsim -run TestGroup -seeds 1000", by: "test/groupsim TestGroup"},
	{line: "go test ./test/groupsim -run TestGroup -seed 2025 -seeds 1 -v", by: "test/groupsim TestGroup"},
	{line: "go test -c -o groupsim.test ./test/groupsim", by: "test/groupsim TestGroup"},
	{line: `seq 1 100 | xargs -P "$(nproc)" -I{} ./groupsim.test -test.run TestGroup -test.v -test.timeout 0 -seeds 10000 -seed {}0000`, by: "test/groupsim TestGroup"},
	{line: "go test ./test/groupsim -run TestFaultsAreFound -long -v", by: "test/groupsim TestFaultsAreFound"},
	{line: "go test ./test/gateways -rounds 12 -v", by: ".ci/run"},
	{line: "go test ./test/gateways -rounds 200 -seed 7 -v -timeout 60m", by: "test/gateways TestRounds"},
	{line: "go test ./test/gateways -run 'TestErase$' -erase 3 -v", by: "test/gateways TestErase"},
	{line: "go test ./test/gateways -run TestGrow -grow -v", by: "test/gateways TestGrow"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -rounds 200 -v -timeout 90m", by: "test/gateways TestRounds"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -rounds 28 -seed 1 -pause 60s -down 10m -v -timeout 90m", by: "test/gateways TestRounds"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -run TestUnreached -v", by: "test/gateways TestUnreached"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -run TestFull -v", by: "test/gateways TestFull"},
	{line: "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph -table -kills 100 -moves 100 -v -timeout 90m", by: "test/gateways TestTable"},
	{line: "go test ./test/gateways -table -run TestTable/Many -v -timeout 60m", by: "test/gateways TestTable"},
	{line: "go test ./nvmeof/internal/fabric -run TestMeasureTurns -turns -v -timeout 20m", by: "nvmeof/internal/fabric TestMeasureTurns"},
	{line: "go run ./test/soak -hours 8", by: "test/soak TestGrowth"},
	{line: "go run ./test/soak -minutes 30 -dir STATE", by: "test/soak TestPieces"},
	{line: "go run ./test/soak -hours 1 -guest", by: "test/soak TestLinuxCounts"},
	{line: "go run ./test/fuzz", by: ".ci/run"},
	{line: "go run ./test/fuzz -each 1m", by: "test/fuzz TestJudge"},
	{line: "go test ./rdmatransport/softroce/internal/rc -run '^$' -fuzz FuzzPackets -fuzztime 8h", by: "test/fuzz TestFind"},
	{line: "go run ./test/coverage", by: ".ci/run"},
	{line: "go run ./test/coverage -v -profile cover.out && go tool cover -html=cover.out", by: "test/coverage TestReport"},
	{line: "go run ./test/gremlin -list", by: "test/gremlin TestAttacks"},
	{line: "go run ./test/gremlin -target 127.0.0.1 -socket SOCKET -v", by: "test/gremlin TestAttacks"},
	{line: "go run ./test/gremlin -target 127.0.0.1 -only '^mutate-packets$' -seconds 600 -seed 7", by: "test/gremlin TestSameSeed"},
	{line: "go run ./test/gremlin -listen 127.0.0.2 -host", by: "test/gremlin TestHostile"},
	{line: "go run ./test/gremlin -listen 192.0.2.1", by: "test/gremlin TestHostile"},
	{line: "go test ./test/interop -guest -whole -v -run TestGremlin -timeout 80m", by: "test/interop TestGremlin"},
}

// newPageReader returns a reader of a page who is an ordinary user with an empty home directory.
func newPageReader(t *testing.T) (r *reader, addr string) {
	t.Helper()
	beside(t)
	a := loopbackAddress()
	return newReader(t, "192.0.2.1", a, "ADDR1", a, "ADDR2", loopbackAddress(), "ADDR3", loopbackAddress(),
		"NQN-OF-THE-HOST", "$(nvmeof show-hostnqn)"), a
}

// TestReadme follows README.md, in its order: every line, except those that only the machines of another test can run.
// Then it reads and writes as in the Go example.
func TestReadme(t *testing.T) {
	r, addr := newPageReader(t)
	r.doDocumented(readme)
	if _, err := os.Stat(filepath.Join(r.dir, "disk.img")); err != nil {
		t.Error(err)
	}
	if got := readmeGo(t.Context(), netip.MustParseAddr(loopbackAddress()), netip.MustParseAddr(addr)); got != "over over Fabric" {
		t.Errorf("README's lines of Go have read %q", got)
	}
	wantSource(t, "../../README.md", "readme_test.go")
}

// readmeGo contains the lines of Go that README.md shows.
func readmeGo(ctx context.Context, local, remote netip.Addr) string {
	device := must(softroce.Open(softroce.Config{Addr: local})) // an RDMA device on a UDP socket
	defer device.Close()
	h := must(host.New(host.Config{Device: device}))
	defer h.Close()
	c := must(h.Connect(ctx, host.Options{Traddr: remote, NQN: "nqn.2026-11.org.example:disk"}))
	n := must(c.Namespace(ctx, 1)) // an io.ReaderAt of any offset, an io.WriterAt of whole blocks
	block := make([]byte, n.BlockSize())
	copy(block, "NVMe over Fabrics")
	must(n.WriteAt(block, 0))
	must(n.ReadAt(block[:4], 5))
	return string(block[:16])
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantSource checks that the lines of Go in a document are those of a source file, where they are compiled and run.
func wantSource(t *testing.T, document, source string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		if want := "\n\t" + strings.ReplaceAll(strings.TrimSpace(b[1]), "\n", "\n\t") + "\n"; !strings.Contains(string(code), want) {
			t.Errorf("%s has not the lines of Go that %s shows:\n%s", source, document, b[1])
		}
	}
	if len(blocks) == 0 {
		t.Errorf("%s shows no Go", document)
	}
}

// TestAdministrationPage follows docs/administration.md, with a small configuration in place of the example.
func TestAdministrationPage(t *testing.T) {
	r, _ := newPageReader(t)
	c := &configured{dir: r.dir, testTarget: &testTarget{addr: r.words.Replace("ADDR2")}}
	if c.write(t, "target.yaml", strings.ReplaceAll(testConfig, "disk.img", "second.img")) != filepath.Join(r.dir, "target.yaml") {
		t.Fatal("the configuration is elsewhere")
	}
	r.doDocumented(administration)
	if _, err := os.Stat(filepath.Join(r.dir, "disk.img")); err != nil {
		t.Error(err)
	}
}

// TestHostPage follows docs/host.md.
func TestHostPage(t *testing.T) {
	r, _ := newPageReader(t)
	r.doDocumented(hostSide)
}

// TestAuthenticationPage follows docs/authentication.md.
func TestAuthenticationPage(t *testing.T) {
	r, _ := newPageReader(t)
	r.doDocumented(authentication)
}

// TestBenchmarkPage follows docs/benchmark.md.
func TestBenchmarkPage(t *testing.T) {
	r, _ := newPageReader(t)
	r.doDocumented(benchmark)
}

// TestVerbsPage follows docs/verbs.md.
func TestVerbsPage(t *testing.T) {
	r, _ := newPageReader(t)
	r.doDocumented(verbsPage)
}
