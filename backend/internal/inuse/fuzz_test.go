package inuse

import (
	"strings"
	"testing"
)

// FuzzFindMount: a line about the device is found whatever precedes it.
func FuzzFindMount(f *testing.F) {
	f.Add("22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n36 22 8:1 /sub /srv/my\\040disk rw,noatime shared:1 - xfs /dev/sda1 rw")
	f.Add("nonsense\n38 22 8:17\n - \n\n")
	f.Add("40 22 0:50 / /merged rw - overlay overlay rw,lowerdir=" + strings.Repeat("/a:", 30000))
	f.Fuzz(func(t *testing.T, before string) {
		devs := []part{{number: "4095:77", name: "none"}}
		table := before + "\n36 22 4095:77 / /srv\\040x rw - xfs /dev/x rw\n"
		got := findMount(strings.NewReader(table), devs)
		if first := findMount(strings.NewReader(before), devs); first == "" && got != "/srv x" || first != "" && got != first {
			t.Fatalf("after %q the device is mounted on %q", before, got)
		}
		never := func(inode) bool { return false }
		if at := findImage(strings.NewReader(table), "x", never); at != "" {
			t.Fatalf("nobody's image is mounted on %q", at)
		}
		if w := quoted(unescape(before)); strings.HasPrefix(w, "'") != strings.HasSuffix(w, "'") && !strings.ContainsAny(before, "'") {
			t.Fatalf("%q is no word", w)
		}
	})
}
