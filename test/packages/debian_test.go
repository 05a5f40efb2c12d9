package packages

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var builds = flag.Bool("build", false, "build what can be installed, which takes tools from the module proxy, and judge it")

// needBuild skips a test that builds unless the run requests it.
func needBuild(t *testing.T) {
	t.Helper()
	if !*builds {
		t.Skip("builds packages: go test ./test/packages -build -v")
	}
}

// ran runs a command in the repository's root, which must succeed, and returns its output.
func ran(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "../.."
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, said.Bytes(), out.Bytes())
	}
	return out.String()
}

// deb returns the path of a package in a folder.
func deb(t *testing.T, dir, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", name, found, err)
	}
	return found[0]
}

// TestDebian: the packages have the files that they need, owned by root, and conflict with each other. The same source
// gives the same package, and lintian finds no error.
func TestDebian(t *testing.T) {
	needBuild(t)
	t.Parallel()
	dir, arch := t.TempDir(), runtime.GOARCH
	ran(t, "deploy/packages/build", "-o", dir, "nvmeof/"+arch, "nvmeof-verbs/"+arch)
	static, verbs := deb(t, dir, "nvmeof"), deb(t, dir, "nvmeof-verbs")

	for file, other := range map[string]string{static: "nvmeof-verbs", verbs: "nvmeof"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			control := ran(t, "dpkg-deb", "-f", file)
			for _, want := range []string{"Version: [0-9]+[.][0-9].*", "Architecture: " + arch, "Conflicts: " + other, "Provides: " + other, "Replaces: " + other} {
				if !regexp.MustCompile("(?m)^" + want + "$").MatchString(control) {
					t.Errorf("no %q in\n%s", want, control)
				}
			}
			libraries := regexp.MustCompile(`\nDepends: .*libc6 \(>= 2\.\d+\), libibverbs1, librdmacm1`).MatchString(control)
			if libraries != (file == verbs) {
				t.Errorf("depends on libraries: %v\n%s", libraries, control)
			}
			if got := ran(t, "dpkg-deb", "--info", file, "conffiles"); got != "/etc/needrestart/conf.d/nvmeof.conf\n/etc/nvmeof/target.yaml\n" {
				t.Errorf("conffiles %q", got)
			}
			judgeFiles(t, ran(t, "dpkg-deb", "--fsys-tarfile", file), file == static)
		})
	}

	t.Run("again", func(t *testing.T) {
		t.Parallel()
		again := t.TempDir()
		ran(t, "deploy/packages/build", "-o", again, "nvmeof/"+arch)
		one, err := os.ReadFile(static)
		two, err2 := os.ReadFile(deb(t, again, "nvmeof"))
		if err != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("a second build gives another package, %v, %v", err, err2)
		}
	})
	t.Run("lintian", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("lintian"); err != nil {
			t.Skip(err)
		}
		t.Log(ran(t, "lintian", "--fail-on", "error", static, verbs))
	})
}

// TestDebianCSI: the package of the CSI driver has the program, which runs, and its documentation, but nothing that
// starts by itself.
func TestDebianCSI(t *testing.T) {
	needBuild(t)
	t.Parallel()
	dir := t.TempDir()
	ran(t, "deploy/packages/build", "-o", dir, "nvmeof-csi/"+runtime.GOARCH)
	file := deb(t, dir, "nvmeof-csi")
	if control := ran(t, "dpkg-deb", "-f", file); !strings.Contains(control, "Depends: e2fsprogs, mount\n") {
		t.Errorf("depends on other things\n%s", control)
	}
	ran(t, "dpkg-deb", "--extract", file, filepath.Join(dir, "root"))
	if said := ran(t, filepath.Join(dir, "root/usr/bin/nvmeof-csi"), "--help"); !strings.Contains(said, "--endpoint") {
		t.Errorf("--help: %s", said)
	}
	for _, name := range []string{"copyright", "changelog.gz", "licences.gz", "csi.md", "examples/driver.yaml", "examples/storageclass.yaml", "examples/example.yaml"} {
		if info, err := os.Stat(filepath.Join(dir, "root/usr/share/doc/nvmeof-csi", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is not there, or empty: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "root/usr/lib")); err == nil {
		t.Error("it has a service")
	}
	if _, err := exec.LookPath("lintian"); err != nil {
		t.Skip(err)
	}
	t.Log(ran(t, "lintian", "--fail-on", "error", file))
}

// judgeFiles checks the files of a package.
func judgeFiles(t *testing.T, archive string, static bool) {
	t.Helper()
	files := map[string]string{}
	var times []time.Time
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, ".")] = string(text)
		times = append(times, h.ModTime)
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o7022 != 0 {
			t.Errorf("%s is of %d:%d, mode %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
	}
	if times = slices.Compact(times); len(times) != 1 {
		t.Errorf("files have %d times", len(times))
	}
	for _, name := range []string{"/usr/bin/nvmeof", "/usr/lib/sysusers.d/nvmeof.conf", "/usr/lib/tmpfiles.d/nvmeof.conf", "/etc/nvmeof/target.yaml",
		"/usr/share/man/man1/nvmeof.1.gz", "/usr/share/man/man1/nvmeof-namespace-add.1.gz", "/usr/share/bash-completion/completions/nvmeof",
		"/usr/share/zsh/vendor-completions/_nvmeof", "/usr/share/fish/vendor_completions.d/nvmeof.fish"} {
		if files[name] == "" {
			t.Errorf("%s is not there, or is empty", name)
		}
	}
	judgeUnits(t, files)
	judgeProgram(t, files["/usr/bin/nvmeof"], static)
}

// judgeUnits checks that all units are there, and that they start the installed program.
func judgeUnits(t *testing.T, files map[string]string) {
	t.Helper()
	units, err := filepath.Glob("../../deploy/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("%q, %v", units, err)
	}
	for _, unit := range units {
		text := files["/usr/lib/systemd/system/"+filepath.Base(unit)]
		if !strings.HasPrefix(text, "[Unit]\n") || !strings.Contains(text, "\nExecStart=/usr/bin/nvmeof ") || strings.Contains(text, "/usr/local") {
			t.Errorf("%s of the package:\n%s", filepath.Base(unit), text)
		}
	}
}

// judgeProgram checks that a program is static, or else has an interpreter, which loads libraries.
func judgeProgram(t *testing.T, text string, static bool) {
	t.Helper()
	f, err := elf.NewFile(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	linked := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if linked == static {
		t.Errorf("static is to be %v, and there is an interpreter: %v", static, linked)
	}
}
