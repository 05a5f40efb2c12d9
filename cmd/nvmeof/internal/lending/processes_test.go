package lending

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
)

// TestFollow checks that the end of a process is reported once, also if it had ended before, and not after Close.
func TestFollow(t *testing.T) {
	ended := make(chan string, 1)
	f := NewProcesses(func(p *connections.Process) { ended <- p.Socket })
	dir := t.TempDir()
	for _, lives := range []bool{true, false} {
		p := &connections.Process{Socket: filepath.Join(dir, "1.0.sock")}
		l, err := net.Listen("unix", p.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if !lives {
			_ = l.Close()
		}
		done := f.Follow(p)
		if lives {
			if again := f.Follow(p); again != done {
				t.Error("a process is followed twice")
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.Close(), c.Close()
		}
		select {
		case at := <-ended:
			if at != p.Socket {
				t.Errorf("the end of %s is reported", at)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the end of a process is not noticed")
		}
		<-done
	}
	f.Close()
	<-f.Follow(&connections.Process{Socket: filepath.Join(dir, "1.0.sock")})
	if len(ended) > 0 {
		t.Error("reported after Close")
	}
}
