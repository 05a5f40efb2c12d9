package packages

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// helm returns a command line of helm. Its version is here and not in go.mod.
func helm(args ...string) []string {
	return append([]string{"go", "run", "helm.sh/helm/v3/cmd/helm@v3.22.0"}, args...)
}

const chart = "deploy/helm/nvmeof"

// An object is a Kubernetes object.
type object struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				HostNetwork bool `yaml:"hostNetwork"`
				Containers  []struct {
					Lifecycle map[string]any
					Ports     []any
				}
				Volumes []map[string]any
			}
		}
		VolumeClaimTemplates []any `yaml:"volumeClaimTemplates"`
	}
}

// rendered returns the objects that the chart makes of values, by kind.
func rendered(t *testing.T, values ...string) map[string]object {
	t.Helper()
	line := helm("template", "release", chart)
	for _, v := range values {
		line = append(line, "--set", v)
	}
	all := map[string]object{}
	d := yaml.NewDecoder(strings.NewReader(ran(t, line[0], line[1:]...)))
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[o.Kind] = o
	}
}

// TestChart: the chart passes lint, makes what its values say and refuses other values. A target accepts its documents,
// also the one that drains it while it runs.
func TestChart(t *testing.T) {
	needBuild(t)
	t.Parallel()
	lint := helm("lint", "--strict", chart)
	ran(t, lint[0], lint[1:]...)
	for _, wrong := range []string{"storage.hostPat=/x", "terminationGracePeriodSeconds=5", "drain.groups={}", "target=null", "user=0"} {
		line := helm("template", "release", chart, "--set", wrong)
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("values don't meet the specifications of the schema")) {
			t.Errorf("%s is not refused by the schema: %v\n%s", wrong, err, out)
		}
	}

	bare := rendered(t, "storage.hostPath=/srv/disks", "drain.enabled=false", "podDisruptionBudget.enabled=false")
	set := bare["StatefulSet"].Spec
	if len(bare) != 3 || len(set.VolumeClaimTemplates) != 0 || set.Template.Spec.Containers[0].Lifecycle != nil || bare["ConfigMap"].Data["drain.yaml"] != "" {
		t.Errorf("without claims, draining and metrics: %+v", bare)
	}
	all := rendered(t, "metrics.enabled=true", "metrics.listen=127.95.1.2:9420", "metrics.serviceMonitor.enabled=true", "target.sandbox=null",
		"target.listeners[0].id=1", "target.listeners[0].address=127.95.1.2", "target.subsystems[0].nqn=nqn.2026-11.org.example:disk",
		"target.subsystems[0].namespaces[0].nsid=1", "target.subsystems[0].namespaces[0].memory.size=1MiB")
	set = all["StatefulSet"].Spec
	if len(all) != 5 || len(set.VolumeClaimTemplates) != 1 || !set.Template.Spec.HostNetwork || len(set.Template.Spec.Containers[0].Ports) != 1 {
		t.Errorf("with all: %+v", all)
	}
	judgeDocuments(t, all["ConfigMap"].Data)
}

// judgeDocuments runs a target as the chart does, and drains it.
func judgeDocuments(t *testing.T, documents map[string]string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "nvmeof")
	ran(t, "go", "build", "-o", program, "./cmd/nvmeof")
	for name, text := range documents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ran(t, program, "target", "check", filepath.Join(dir, name))
	}
	socket := filepath.Join(dir, "socket")
	target := exec.CommandContext(t.Context(), program, "target", "--config", filepath.Join(dir, "target.yaml"), "--socket", socket)
	var said bytes.Buffer
	target.Stderr = &said
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); exec.Command(program, "ls", "--socket", socket).Run() != nil && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	ran(t, program, "target", "apply", "--socket", socket, filepath.Join(dir, "drain.yaml"))
	if states := ran(t, program, "ana-group", "list", "--socket", socket); !strings.Contains(states, "inaccessible") {
		t.Errorf("not drained:\n%s", states)
	}
	if err := target.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := target.Wait(); target.ProcessState.ExitCode() != 130 && target.ProcessState.ExitCode() != 0 {
		t.Errorf("%v\n%s", err, said.Bytes())
	}
}
