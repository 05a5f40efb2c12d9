package nbd

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestURI(t *testing.T) {
	for socket, want := range map[string]string{
		"/run/a b.sock":              "nbd+unix:///1?socket=/run/a%20b.sock",
		"/run/ü&a=b;c,d+e'f%#?.sock": "nbd+unix:///1?socket=/run/%C3%BC%26a%3Db%3Bc%2Cd%2Be%27f%25%23%3F.sock",
	} {
		if got := uri(socket, "1"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestUsageIsTyped: whatever the socket's path, a shell splits the printed commands into the intended words.
func TestUsageIsTyped(t *testing.T) {
	for _, name := range []string{"s", "disk one", "it's & <this>;"} {
		socket := filepath.Join("/run", name)
		lines := (&Server{cfg: Config{Socket: socket}}).Usage(Disk{Name: "1"})
		_, words, _ := strings.Cut(lines[len(lines)-1], " -unix ")
		out, err := exec.Command("sh", "-c", "printf '%s\n' "+words).Output()
		if want := socket + "\n-N\n1\n/dev/nbd0\n"; err != nil || string(out) != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
}
