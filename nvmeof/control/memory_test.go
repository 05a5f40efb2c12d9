package control

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestForeseeMemory: all memory exports together are compared with the machine's memory, and with the limits of the
// process's control groups.
func TestForeseeMemory(t *testing.T) {
	const mib = 1 << 20
	version2 := map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "3145728\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}
	version1 := map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "3145728\n"}
	for _, c := range []struct {
		name    string
		files   map[string]string
		exports []int64
		want    string // empty: no problem
	}{
		{"no memory", nil, nil, ""},
		{"as much as there is", nil, []int64{3 * mib, 2 * mib}, ""},
		{"more", nil, []int64{3 * mib, 2*mib + 512}, "memory namespaces have 5243392 in total, but this machine has 5MiB: "},
		{"more than can be counted", nil, []int64{math.MaxInt64, math.MaxInt64}, "this machine has 5MiB: "},
		{"version 2", version2, []int64{4 * mib}, "memory namespaces have 4MiB in total, but the cgroup of this process allows 3MiB: "},
		{"within version 2", version2, []int64{3 * mib}, ""},
		{"version 1", version1, []int64{4 * mib}, "the cgroup of this process allows 3MiB: "},
		{"no limit", map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, []int64{4 * mib}, ""},
		{"nonsense", map[string]string{"proc/self/cgroup": "0\n\n:::\n0::../..\n", "sys/fs/cgroup/memory.max": "\n"}, []int64{4 * mib}, ""},
	} {
		files := fstest.MapFS{}
		for name, text := range c.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		s := &config.Subsystem{}
		for _, size := range c.exports {
			s.Namespaces = append(s.Namespaces, &config.Namespace{Memory: &config.Memory{Size: config.Size(size)}})
		}
		got := foreseeMemory(&config.Document{Subsystems: []*config.Subsystem{{}, s}}, 5*mib+100, files)
		if text := fmt.Sprint(got.Error()); !strings.Contains(text, c.want) || (len(got) == 0) != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

// TestMemoryAdded: a change that exports more memory than there is returns a warning. A later one that exports no
// more does not.
func TestMemoryAdded(t *testing.T) {
	r := newRig(t)
	doc := r.doc(first)
	r.apply(doc)
	doc.Subsystems[0].Namespaces = append(doc.Subsystems[0].Namespaces, &config.Namespace{NSID: 9, Memory: &config.Memory{Size: 1 << 60}})
	out, err := r.Apply(doc, Options{DryRun: true})
	if err != nil || !strings.Contains(out.Warnings.Error(), "memory namespaces have ") {
		t.Fatalf("warnings %v, %v", out, err)
	}
	doc.Subsystems[0].Namespaces[2].Memory.Size = 1 << 20
	if out, err = r.Apply(doc, Options{}); err != nil || len(out.Warnings) > 0 {
		t.Errorf("warnings %v, %v", out, err)
	}
}
