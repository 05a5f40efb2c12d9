package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestExample checks that the published example is a valid configuration.
func TestExample(t *testing.T) {
	command(t, "target", "check", "../../deploy/target.yaml").want(t, 0, "2 listener(s), 2 subsystem(s), 3 namespace(s)")
}

// TestConnectUnit checks that the command lines in the unit are valid.
func TestConnectUnit(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	inOwnRunDir(t)
	text, err := os.ReadFile("../../deploy/nvmeof-connect@.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)CONNECT=(.* -a .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 2 {
		t.Fatalf("%d command lines", len(lines))
	}
	for _, l := range lines {
		command(t, append(strings.Fields(l[1]), "--dump-config")...).want(t, 0, `"traddr": "192.0.2.1"`)
	}
}

// deployed is deploy/README.md, line by line, with a directory in place of the root of the file system.
var deployed = []documented{
	{line: "deploy/packages/build", by: "test/packages TestDebian"},
	{line: "sudo apt-get install ./bin/packages/nvmeof_*_amd64.deb", by: "test/interop TestPackage"},
	{line: "deploy/image/build", by: "test/packages TestImage"},
	{line: "podman load -i bin/image/nvmeof_*_amd64.tar", by: "test/packages TestImage"},
	{line: "podman run -d --name nvmeof --network host --cap-drop all --read-only -v /etc/nvmeof:/etc/nvmeof:ro -v /srv/nvmeof:/srv/nvmeof nvmeof:TAG", by: "test/packages TestImage"},
	{line: "NVMEOF_TAG=TAG docker compose -f deploy/compose.yaml up -d", by: "test/packages TestCompose"},
	{line: "helm lint --strict deploy/helm/nvmeof", by: "test/packages TestChart"},
	{line: "helm install disks deploy/helm/nvmeof -f values.yaml", by: "test/packages TestChart"},
	{line: "go build -o bin/ ./cmd/nvmeof", by: ".ci/run"},
	{line: "sudo install bin/nvmeof /usr/local/bin/"},
	{line: "sudo useradd --system --home-dir /srv/nvmeof --create-home nvmeof", why: "an ordinary user makes no users"},
	{line: "sudo install -d -o nvmeof -g nvmeof -m 700 /etc/nvmeof", instead: asOneself},
	{line: "sudo install -o nvmeof -g nvmeof -m 600 deploy/target.yaml /etc/nvmeof/", instead: asOneself},
	{line: "sudo cp deploy/nvmeof-target.service /etc/systemd/system/"},
	{line: "sudo nvmeof target import --output /etc/nvmeof/target.yaml /etc/nvmet/config.json", instead: []string{"--output /etc/nvmeof/target.yaml", "--key-dir /etc/nvmeof/keys --output /etc/nvmeof/imported.yaml"}},
	{line: "sudo systemctl daemon-reload", why: "systemd's own"},
	{line: "sudo systemctl enable --now nvmeof-target", instead: []string{"systemctl enable --now nvmeof-target", "DIR/begin nvmeof-target.service none"},
		stays: "nvme connect -t rdma -a ADDR1 "},
	{line: "journalctl -u nvmeof-target", why: "systemd's own"},
	{line: "sudo cp deploy/nvmeof-connect@.service /etc/systemd/system/"},
	{line: "sudo install -d -m 700 /etc/nvmeof/connect"},
	{line: "echo 'CONNECT=connect-all -t rdma -a 192.0.2.1 --persistent' | sudo tee /etc/nvmeof/connect/storage"},
	{line: "sudo systemctl daemon-reload", why: "systemd's own"},
	{line: "sudo systemctl enable --now nvmeof-connect@storage", instead: []string{"systemctl enable --now nvmeof-connect@storage", "DIR/begin nvmeof-connect@.service DIR/etc/nvmeof/connect/storage"},
		stays: "connecting to device: nvme0\n"},
	{line: "sudo nvmeof list-subsys", wants: []string{" - NQN=nqn.2026-11.org.example:disk\n", "traddr=ADDR1,trsvcid=4420 live\n"}},
	{line: "sudo mkdir -p /etc/nvmeof"},
	{line: "sudo cp deploy/nvmeof-attach@.service /etc/systemd/system/"},
	{line: "echo 'ATTACH=-a 192.0.2.1 -n nqn.2026-11.org.example:disk' | sudo tee /etc/nvmeof/attach-data.conf"},
	{line: "sudo systemctl daemon-reload", why: "systemd's own"},
	{line: "sudo systemctl enable --now nvmeof-attach@data", instead: []string{"systemctl enable --now nvmeof-attach@data", "DIR/begin nvmeof-attach@.service DIR/etc/nvmeof/attach-data.conf data"},
		stays: "nbd-client -unix DIR/run/nvmeof-attach-data/disk.sock -N "},
	{line: "sudo cp deploy/prometheus/nvmeof.rules.yml /etc/prometheus/"},
	{line: "sudo cp deploy/grafana/nvmeof.json /var/lib/grafana/dashboards/", instead: []string{"/var/", "DIR/var/"}},
}

// asOneself replaces what only root can do with install.
var asOneself = []string{"-o nvmeof -g nvmeof ", ""}

// beginUnit starts a unit like systemd, as far as its command lines are concerned: with its environment file, if it
// has one, and the name of the instance.
const beginUnit = `#!/bin/sh
set -e
unit=DIR/etc/systemd/system/$1 instance=$3
[ "$2" = none ] || CONNECT=$(sed -n 's/^CONNECT=//p' "$2") ATTACH=$(sed -n 's/^ATTACH=//p' "$2")
run() { sed -n "s,^$1=/usr/local/bin/,DIR/usr/local/bin/,p" "$unit" | sed "s, /etc/, DIR/etc/,; s, /run/, DIR/run/,; s,%i,$instance,"; }
eval "$(run ExecStartPre)"
eval "exec $(run ExecStart)"
`

// TestDeployed follows deploy/README.md, in its order, with the example that it installs, edited as it requires.
func TestDeployed(t *testing.T) {
	beside(t)
	a := loopbackAddress()
	instead := []string{"/usr/local/bin/", "DIR/usr/local/bin/", "/etc/", "DIR/etc/", "/srv/", "DIR/srv/", "192.0.2.1", a, "ADDR1", a, "sudo ", ""}
	r := newReader(t, instead...)
	for i, s := range instead {
		instead[i] = strings.ReplaceAll(s, "DIR/", r.dir+"/")
	}
	r.words = strings.NewReplacer(append([]string{"DIR/", r.dir + "/"}, instead...)...)
	for _, dir := range []string{"bin", "deploy", "usr/local/bin", "etc/systemd/system", "etc/nvmet", "srv/nvmeof", "run/nvmeof-attach-data",
		"deploy/prometheus", "deploy/grafana", "etc/prometheus", "var/lib/grafana/dashboards"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"bin/nvmeof": "", "begin": strings.ReplaceAll(beginUnit, "DIR/", r.dir+"/")}
	for _, name := range []string{"nvmeof-target.service", "nvmeof-connect@.service", "nvmeof-attach@.service", "target.yaml", "prometheus/nvmeof.rules.yml", "grafana/nvmeof.json"} {
		text, err := os.ReadFile("../../deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["deploy/"+name] = string(text)
	}
	nvmet, err := os.ReadFile("../../nvmeof/config/testdata/nvmet.json")
	if err != nil {
		t.Fatal(err)
	}
	files["etc/nvmet/config.json"] = string(nvmet)
	files["bin/nvmeof"] = r.script
	files["deploy/target.yaml"] = strings.NewReplacer("192.0.2.1:", a+":", "198.51.100.1:", loopbackAddress()+":", "/srv/", r.dir+"/srv/", "100GiB", "8MiB",
		"1GiB", "1MiB", "        key-file: ${CREDENTIALS_DIRECTORY}/host2.key # nvmeof gen-dhchap-key\n", "",
		"hosts:\n", "allow-any-host: true\n    hosts:\n").Replace(files["deploy/target.yaml"])
	for name, text := range files {
		writeProgram(t, filepath.Join(r.dir, name), text)
	}
	r.doDocumented(deployed)
}

// TestRunFolders checks that no unit, when it stops, removes a directory in which other programs have sockets: that of
// targets, and that of connections.
func TestRunFolders(t *testing.T) {
	none := func(string) string { return "" }
	shared := map[string]bool{filepath.Dir(control.DefaultSocket(none, 0)): false, connections.Dir(none, 0): false}
	units, err := filepath.Glob("../../deploy/*.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^RuntimeDirectory=(.*)$`).FindAllStringSubmatch(string(text), -1) {
			folder := "/run/" + m[1]
			if _, is := shared[folder]; !is {
				continue
			}
			shared[folder] = true
			if !strings.Contains(string(text), "\nRuntimeDirectoryPreserve=yes\n") {
				t.Errorf("%s removes %s when it stops, with the sockets of others", unit, folder)
			}
		}
	}
	for folder, used := range shared {
		if !used {
			t.Errorf("no unit makes %s", folder)
		}
	}
}

// TestUnitsHaveTheirFolders checks that no two units or instances share a directory that systemd creates, since the
// end of one would remove the sockets of the other.
func TestUnitsHaveTheirFolders(t *testing.T) {
	units, err := filepath.Glob("../../deploy/*.service")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		all := regexp.MustCompile(`(?m)^((?:Runtime|State|Cache|Logs)Directory)=(.*)$`).FindAllStringSubmatch(string(text), -1)
		for _, instance := range []string{"host", "target", "attach", "connect", "nvmeof", ""} {
			for _, m := range all {
				folder := m[1] + "=" + strings.ReplaceAll(m[2], "%i", instance)
				if other := folders[folder]; other != "" && other != unit {
					t.Errorf("%s and %s have %s in common", other, unit, folder)
				}
				folders[folder] = unit
			}
		}
	}
}

// TestUnits checks that units can be enabled, and are not exposed more than they need to be.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("../../deploy/*.service")
	if err != nil || len(units) != 3 {
		t.Fatalf("%q, %v", units, err)
	}
	haveTool(t, "systemd-analyze")
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil || !strings.Contains(string(text), "\n[Install]\nWantedBy=") {
			t.Errorf("%s cannot be enabled: it has no [Install], %v", unit, err)
		}
		// It requires the name of an instance.
		file := filepath.Join(t.TempDir(), strings.Replace(filepath.Base(unit), "@", "@x", 1))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		const most = 20 // tenths
		out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", fmt.Sprint("--threshold=", most), file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}
