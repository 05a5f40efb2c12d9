package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/driver"
)

// A manifest holds the fields of a Kubernetes object that the tests examine.
type manifest struct {
	Kind        string
	Metadata    struct{ Name string }
	Provisioner string
	Parameters  map[string]string
	Spec        struct {
		StorageClassName string `yaml:"storageClassName"`
		Volumes          []struct {
			Claim struct {
				Name string `yaml:"claimName"`
			} `yaml:"persistentVolumeClaim"`
		}
		Strategy struct{ Type string }
		Template struct {
			Spec struct {
				Containers []container
				Volumes    []volume
			}
		}
	}
}

type volume struct {
	Name     string
	HostPath struct{ Path string } `yaml:"hostPath"`
}

type container struct {
	Name, Image  string
	Args         []string
	VolumeMounts []mounted `yaml:"volumeMounts"`
	Readiness    struct {
		Get struct{ Port string } `yaml:"httpGet"`
	} `yaml:"readinessProbe"`
}

type mounted struct {
	Name string
	Path string `yaml:"mountPath"`
}

func manifests(t *testing.T, path string) (all []manifest) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, m)
	}
}

// TestManifests checks that the program accepts the command lines in deploy/kubernetes, and that they name this
// driver.
func TestManifests(t *testing.T) {
	const dir = "../../deploy/kubernetes/"
	ran := 0
	for _, m := range manifests(t, dir+"driver.yaml") {
		if m.Kind == "CSIDriver" && m.Metadata.Name != driver.Name {
			t.Errorf("the driver is %s, and called %s", driver.Name, m.Metadata.Name)
		}
		if m.Kind == "Deployment" && m.Spec.Strategy.Type != "Recreate" {
			t.Errorf("two of %s may run at a time", m.Metadata.Name)
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, at := range c.VolumeMounts {
				if !slices.ContainsFunc(m.Spec.Template.Spec.Volumes, func(v volume) bool { return v.Name == at.Name }) {
					t.Errorf("%s mounts %s, which is no volume", c.Name, at.Name)
				}
			}
			if c.Name != "driver" {
				if name := strings.Join(c.Args, " "); strings.Contains(name, "plugins/") && !strings.Contains(name, "/"+driver.Name+"/") {
					t.Errorf("%s: %s", c.Name, name)
				}
				continue
			}
			if err := command().ParseFlags(c.Args); err != nil {
				t.Errorf("%q: %v", c.Args, err)
			}
			ran++
		}
	}
	if ran != 2 {
		t.Errorf("the driver is run %d times, want as controller and as node", ran)
	}
	class := manifests(t, dir+"storageclass.yaml")
	if len(class) != 1 || class[0].Kind != "StorageClass" || class[0].Provisioner != driver.Name {
		t.Fatalf("storage classes are %+v", class)
	}
	example := manifests(t, dir+"example.yaml")
	if len(example) != 2 || example[0].Kind != "PersistentVolumeClaim" || example[0].Spec.StorageClassName != class[0].Metadata.Name ||
		example[1].Kind != "Pod" || example[1].Spec.Volumes[0].Claim.Name != example[0].Metadata.Name {
		t.Errorf("the example is %+v", example)
	}
}

// TestReady checks that the controller's readiness is that reported by the container beside it, which probes the
// targets.
func TestReady(t *testing.T) {
	for _, m := range manifests(t, "../../deploy/kubernetes/driver.yaml") {
		if m.Kind != "Deployment" {
			continue
		}
		ports := map[string]string{}
		for _, c := range m.Spec.Template.Spec.Containers {
			if port := c.Readiness.Get.Port; port != "" {
				ports[c.Name] = port
			}
			for _, arg := range c.Args {
				if port, is := strings.CutPrefix(arg, "--health-port="); is {
					ports[c.Name] = port
				}
			}
		}
		if ports["driver"] == "" || ports["driver"] != ports["liveness"] {
			t.Errorf("ports are %v", ports)
		}
	}
}

// TestKept checks that what the node's driver keeps for the next driver is on the machine, not in the container.
func TestKept(t *testing.T) {
	for _, m := range manifests(t, "../../deploy/kubernetes/driver.yaml") {
		if m.Kind != "DaemonSet" {
			continue
		}
		for _, path := range []string{"/run/nvmeof-csi", "/var/lib/kubelet", "/dev", "/sys"} {
			v := slices.IndexFunc(m.Spec.Template.Spec.Volumes, func(v volume) bool { return v.HostPath.Path == path })
			if v < 0 {
				t.Errorf("%s is no volume of the machine", path)
				continue
			}
			name := m.Spec.Template.Spec.Volumes[v].Name
			for _, c := range m.Spec.Template.Spec.Containers {
				if at := slices.IndexFunc(c.VolumeMounts, func(at mounted) bool { return at.Name == name && at.Path == path }); c.Name == "driver" && at < 0 {
					t.Errorf("the driver has no %s of the machine", path)
				}
			}
		}
	}
}
