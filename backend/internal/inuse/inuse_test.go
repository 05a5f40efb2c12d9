package inuse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk with partitions, as sysfs shows them.
func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"dev": "8:0\n", "sda1/partition": "1\n", "sda1/dev": "8:1\n", "sda2/partition": "2\n", "sda2/dev": "8:2\n",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parts := withPartitions(dir)
	if len(parts) != 3 || parts[0].number != "8:0" || parts[1].name != "sda1" || parts[2].number != "8:2" {
		t.Errorf("partitions: %+v", parts)
	}
}

func TestFindMount(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
36 22 8:1 /sub /srv/my\040disk rw,noatime shared:1 - xfs /dev/sda1 rw
37 22 0:44 / /pool rw - btrfs /dev/sdc rw
nonsense
38 22 8:17
`
	for number, want := range map[string]string{"8:1": "/srv/my disk", "254:0": "/", "8:2": "", "8:17": ""} {
		if got := findMount(strings.NewReader(table), []part{{number: number, name: "x"}}); got != want {
			t.Errorf("%s is mounted on %q, want %q", number, got, want)
		}
	}
	if got := findMount(strings.NewReader(table), []part{{number: "8:32", name: "sdc"}}); got != "/pool" {
		t.Errorf("sdc is mounted on %q", got)
	}
	overlay := "40 22 0:50 / /merged rw - overlay overlay rw,lowerdir=" + strings.Repeat("/a:", 30000) + "/b\n"
	if got := findMount(strings.NewReader(overlay+table), []part{{number: "8:1", name: "x"}}); got != "/srv/my disk" {
		t.Errorf("behind a line of 90 KB 8:1 is mounted on %q", got)
	}
	if got := quoted("/srv/my disk"); got != "'/srv/my disk'" || quoted("/srv/a_b-1.x") != "/srv/a_b-1.x" {
		t.Errorf("quoted: %s", got)
	}
}

func TestInUseWords(t *testing.T) {
	for want, e := range map[string]Error{
		"run: umount /srv":                {User: "mounted on /srv", Mend: "umount /srv"},
		"stop its user first":             {User: "in use by process 7 (x)"},
		"lsblk /dev/sdx":                  {},
		"export it in one namespace only": {User: "in use by this process", here: true},
		"/dev/sdx is part of /":           {User: "part of /dev/md0", Mend: "mdadm --stop /dev/md0"},
	} {
		e.Path = "/dev/sdx"
		if !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "force") {
			t.Errorf("%q: want %q in it", e.Error(), want)
		}
	}
}

func TestFindImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my disk.img")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	image, ok := look(unix.AT_FDCWD, path)
	if !ok {
		t.Fatal("the file is not seen")
	}
	is := image.same
	escaped := strings.ReplaceAll(path, " ", `\040`)
	for table, want := range map[string]string{
		"36 22 0:9 / /mnt rw - erofs " + escaped + " ro\n":            "/mnt",
		"36 22 0:9 / /a\\040b rw - fuse.fuse2fs " + escaped + " rw\n": "/a b",
		"36 22 0:9 / /mnt rw - ext4 /elsewhere/my\\040disk.img rw\n":  "",
		"36 22 0:9 / /mnt rw - tmpfs tmpfs rw\nnonsense\n":            "",
	} {
		if got := findImage(strings.NewReader(table), "my disk.img", is); got != want {
			t.Errorf("%q: mounted on %q, want %q", table, got, want)
		}
	}
}

// The kernel's targets, as configfs shows them.
func TestExported(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "disk.img")
	const namespace, backstore = "nvmet/subsystems/nqn.2014-08.org.example:a/namespaces/3", "target/core/fileio_0/vm"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("disk.img", "")
	write("other.img", "")
	write(namespace+"/device_path", file+"\n")
	write(namespace+"/enable", "0\n")
	write(backstore+"/udev_path", filepath.Join(root, "other.img")+"\n")
	write(backstore+"/enable", "1\n")
	want := func(user, mend string) {
		t.Helper()
		image, ok := look(unix.AT_FDCWD, file)
		if !ok {
			t.Fatal("the file is not seen")
		}
		gotUser, gotMend := exported(root, image.same)
		if gotUser != user || gotMend != mend {
			t.Errorf("%q, %q, want %q, %q", gotUser, gotMend, user, mend)
		}
	}
	want("", "")
	write(namespace+"/enable", "1\n")
	want("namespace 3 of nqn.2014-08.org.example:a of the kernel's NVMe target", "echo 0 > "+root+"/"+namespace+"/enable")
	write(namespace+"/enable", "0\n")
	write(backstore+"/udev_path", file+"\n")
	want("backstore vm of the kernel's SCSI target", "targetcli /backstores/fileio delete vm")
}

func TestFormat(t *testing.T) {
	at := func(offset int, magic string) string {
		return strings.Repeat("\x00", offset) + magic + strings.Repeat("x", 600)
	}
	for content, want := range map[string]string{
		"":                               "",
		at(0, "a disk"):                  "",
		at(1, "QFI\xfb"):                 "",
		at(0, "QFI\xfb\x00\x00\x00\x03"): "qcow2",
		at(0, "KDMV"):                    "VMDK",
		at(0, "# Disk DescriptorFile\n"): "VMDK",
		at(0, "LUKS\xba\xbe\x00\x02"):    "cryptsetup",
		at(0, "vhdxfile"):                "VHDX",
		at(64, "\x7f\x10\xda\xbe"):       "VDI",
		"QFI\xfb":                        "qcow2", // and no more
	} {
		got := Format([]byte(content))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%.8q: %q, want %q in it", content, got, want)
		}
	}
}
