package packages

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// TestImage: the same source gives the same image, which names an ordinary user and the program. podman runs it without
// capabilities and with a read-only root.
func TestImage(t *testing.T) {
	needBuild(t)
	t.Parallel()
	dir, again := t.TempDir(), t.TempDir()
	for _, out := range []string{dir, again} {
		ran(t, "deploy/image/build", "-o", out, "-v", "test", runtime.GOARCH)
	}
	for _, file := range []string{"nvmeof_test_" + runtime.GOARCH + ".tar", "nvmeof_test/index.json"} {
		one, err := os.ReadFile(filepath.Join(dir, file))
		two, err2 := os.ReadFile(filepath.Join(again, file))
		if err != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("a second build gives another %s, %v, %v", file, err, err2)
		}
	}
	archive := filepath.Join(dir, "nvmeof_test_"+runtime.GOARCH+".tar")
	judgeImage(t, archive)
	runImage(t, archive)
}

// judgeImage checks the configuration of an image.
func judgeImage(t *testing.T, archive string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("no configuration: %v", err)
		}
		if !strings.HasPrefix(h.Name, "sha256:") {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Architecture string
			Config       struct {
				User            string
				Entrypoint, Cmd []string
				Labels          map[string]string
			}
		}
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		if c.Architecture != runtime.GOARCH || c.Config.User != "65532:65532" || fmt.Sprint(c.Config.Entrypoint) != "[/nvmeof]" ||
			c.Config.Labels["org.opencontainers.image.version"] != "test" || c.Config.Labels["org.opencontainers.image.revision"] == "" {
			t.Errorf("%s", text)
		}
		return
	}
}

// runImage runs a target in a container, and connects to it with the program built here.
func runImage(t *testing.T, archive string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("runs no container: not root")
	}
	for _, tool := range []string{"podman", "runc"} { // crun needs cgroups that some machines lack
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("runs no container: ", err)
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "target.yaml"), []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--root", filepath.Join(dir, "images"), "--runroot", filepath.Join(dir, "run"), "--runtime", "runc", "--storage-driver", "vfs", "--events-backend", "none"}
	podman := func(args ...string) string {
		t.Helper()
		return ran(t, "podman", append(flags, args...)...)
	}
	podman("load", "-i", archive)
	// Limits that a machine may have.
	podman("run", "-d", "--name", "target", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=1024:1024", "--network", "host", "--cap-drop", "all",
		"--security-opt", "no-new-privileges", "--read-only", "-v", dir+"/target.yaml:/etc/nvmeof/target.yaml:ro", "nvmeof:test")
	defer podman("rm", "-f", "-t", "0", "target")
	serves := []string{"exec", "target", "/nvmeof", "ls"}
	for deadline := time.Now().Add(time.Minute); exec.Command("podman", append(flags, serves...)...).Run() != nil && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	t.Log(podman(serves...))
	ran(t, "go", "run", "./cmd/nvmeof", "id-ctrl", "-a", "127.95.1.1", "-n", "nqn.2026-11.org.example:disk")
	podman("stop", "target")
	if code := strings.TrimSpace(podman("inspect", "target", "--format", "{{.State.ExitCode}}")); code != "0" {
		t.Errorf("exit code %s\n%s", code, podman("logs", "target"))
	}
}

const document = `version: 1
listeners: [{id: 1, address: 127.95.1.1}]
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 16MiB}}]
`

// TestCompose: the example confines the target as the README's podman command line does.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Services map[string]struct {
			Image, Restart  string
			Network         string   `yaml:"network_mode"`
			Drop            []string `yaml:"cap_drop"`
			Options         []string `yaml:"security_opt"`
			ReadOnly        bool     `yaml:"read_only"`
			StopGracePeriod string   `yaml:"stop_grace_period"`
			Volumes         []string
		}
		Volumes map[string]any
	}
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	s := c.Services["nvmeof"]
	if !strings.HasPrefix(s.Image, "nvmeof:") || s.Network != "host" || fmt.Sprint(s.Drop) != "[ALL]" || !s.ReadOnly || len(s.Volumes) != 3 {
		t.Errorf("%+v", s)
	}
	readme, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Volumes[:2] {
		if !strings.Contains(string(readme), "-v "+v+" ") {
			t.Errorf("the README has not -v %s", v)
		}
	}
}
