package guest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// diskSize is in MiB. The file is sparse; the system takes about 1 GiB of it.
const diskSize = "4096M"

// recipe returns what the image is made from, apart from the init script: the Debian suite, the disk's size and the
// packages.
func recipe() []string {
	return []string{
		"trixie", diskSize, "linux-image-amd64",
		// What tests run against: the NVMe host, a load generator, RDMA tools.
		"nvme-cli", "fio", "rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest",
		// Tools by which scripts set up, observe and check.
		"iproute2", "iputils-ping", "kmod", "tcpdump", "ethtool", "procps", "udev", "util-linux",
		"e2fsprogs", "xfsprogs", "nbd-client", "psmisc", "jq", "systemd-sysv", "qemu-utils",
	}
}

// build works in a directory beside the image's and renames it when it is complete, so that an interrupted build does
// not leave an incomplete image behind.
func (m Image) build(ctx context.Context, log io.Writer) error {
	began := time.Now()
	work := m.dir + ".partial"
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("guest image: %w", err)
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("guest image: %w", err)
	}
	fmt.Fprintf(log, "building the guest image %s (about 80 s, once)\n", m.dir)
	steps := []func() error{
		func() error { return debootstrap(ctx, root) },
		func() error { return os.WriteFile(filepath.Join(root, "init.sh"), []byte(initScript), 0o755) },
		func() error { return moveBoot(root, work) },
		func() error { return os.RemoveAll(filepath.Join(root, "var/cache/apt/archives")) },
		func() error {
			return command(ctx, "mke2fs", "-q", "-t", "ext4", "-d", root, filepath.Join(work, "disk.img"), diskSize)
		},
		func() error { return os.RemoveAll(root) },
		func() error { return os.RemoveAll(m.dir) },
		func() error { return os.Rename(work, m.dir) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("guest image: %w", err)
		}
	}
	fmt.Fprintf(log, "guest image built in %.0f s\n", time.Since(began).Seconds())
	return nil
}

func debootstrap(ctx context.Context, root string) error {
	r := recipe()
	args := []string{"--variant=minbase", "--include=" + strings.Join(r[2:], ","), r[0], root}
	if mirror := configuredMirror(); mirror != "" {
		args = append(args, mirror)
	}
	return command(ctx, "debootstrap", args...)
}

// configuredMirror returns the Debian mirror of this machine's own packages. It returns "" if there is none, which
// leaves the choice to debootstrap.
func configuredMirror() string {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, name := range append(files, "/etc/apt/sources.list") {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			if line := s.Text(); strings.HasPrefix(line, "deb ") || strings.HasPrefix(line, "URIs:") {
				for _, word := range strings.Fields(line) {
					if strings.HasPrefix(word, "http") && strings.HasSuffix(strings.TrimSuffix(word, "/"), "/debian") {
						return word
					}
				}
			}
		}
	}
	return ""
}

// moveBoot moves the system's kernel and initial RAM disk, of which there must be one each.
func moveBoot(root, to string) error {
	for pattern, name := range map[string]string{"vmlinuz-*": "vmlinuz", "initrd.img-*": "initrd"} {
		found, _ := filepath.Glob(filepath.Join(root, "boot", pattern))
		if len(found) != 1 {
			return fmt.Errorf("want one boot/%s, got %q", pattern, found)
		}
		if err := os.Rename(found[0], filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program. If it fails, the error has the end of its output.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, lastLines(string(out), 15))
	}
	return nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
