package control

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// ForeseeMemory returns a problem if a document exports more memory than this process can have. Since memory is
// only allocated when hosts write to it, such a target starts, and the kernel kills it later.
func ForeseeMemory(doc *config.Document) config.Problems {
	var info syscall.Sysinfo_t // not every service can read /proc/meminfo
	if err := syscall.Sysinfo(&info); err != nil {
		return nil
	}
	return foreseeMemory(doc, int64(min(uint64(info.Totalram)*uint64(info.Unit), math.MaxInt64)), os.DirFS("/"))
}

// foreseeMemory is ForeseeMemory for a machine with so many bytes of memory and the given root directory.
func foreseeMemory(doc *config.Document, machine int64, files fs.FS) config.Problems {
	exported := exportedMemory(doc)
	limit, whose := machine, "this machine has"
	if of := cgroupMemory(files); of < limit {
		limit, whose = of, "the cgroup of this process allows"
	}
	if exported <= limit {
		return nil
	}
	return config.Problems{{
		Text: fmt.Sprintf("memory namespaces have %v in total, but %s %v: the kernel kills the target when hosts have written that much", config.Size(exported), whose, wholeMiB(limit)),
		Fix:  "export less memory, or files",
	}}
}

// exportedMemory returns how many bytes of memory a document exports.
func exportedMemory(doc *config.Document) (sum int64) {
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			if n.Memory != nil {
				sum += min(int64(n.Memory.Size), math.MaxInt64-sum)
			}
		}
	}
	return sum
}

// wholeMiB rounds a size down so that it is easy to read.
func wholeMiB(bytes int64) config.Size {
	const mib = 1 << 20
	if bytes > mib {
		bytes -= bytes % mib
	}
	return config.Size(bytes)
}

// cgroupMemory returns the lowest memory limit, in bytes, of this process's control group and its ancestors. It
// supports version 2, and version 1, whose paths have a folder for each controller.
func cgroupMemory(files fs.FS) int64 {
	limit := int64(math.MaxInt64)
	text, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(part) != 3 {
			continue
		}
		root, name := "sys/fs/cgroup", "memory.max"
		switch part[1] {
		case "": // version 2
		case "memory":
			root, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Join("/", part[2]); ; group = path.Dir(group) { // in a container, only the root may be visible
			text, err := fs.ReadFile(files, path.Join(root, group, name))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil { // not "max"
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
