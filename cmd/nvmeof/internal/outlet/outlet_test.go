package outlet

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// A sink accepts writes unless it is held up.
type sink struct {
	taken  strings.Builder
	gate   sync.Mutex // held while it hangs
	broken bool
}

func (s *sink) Write(b []byte) (int, error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.broken {
		return 0, io.ErrClosedPipe
	}
	return s.taken.Write(b)
}

func detached(s *sink) (cmd *cobra.Command, settle func()) {
	cmd = &cobra.Command{}
	cmd.SetOut(s)
	cmd.SetErr(s)
	return cmd, Detach(cmd)
}

// TestOrder checks that the text for both outputs is written in order, and completely before settle returns.
func TestOrder(t *testing.T) {
	s := &sink{}
	cmd, settle := detached(s)
	want := ""
	for _, w := range []io.Writer{cmd.ErrOrStderr(), cmd.OutOrStdout(), cmd.ErrOrStderr()} {
		_, _ = io.WriteString(w, "line\n")
		want += "line\n"
	}
	settle()
	if got := s.taken.String(); got != want {
		t.Errorf("written is %q", got)
	}
	w, ok := cmd.ErrOrStderr().(interface{ Unwrap() io.Writer })
	if !ok || w.Unwrap() != s {
		t.Error("where it is written to is not seen")
	}
}

// TestDescriptors checks that a line about a lack of descriptors includes the remedy.
func TestDescriptors(t *testing.T) {
	s := &sink{}
	cmd, settle := detached(s)
	if n, err := io.WriteString(cmd.ErrOrStderr(), "accept4: too many open files\n"); n != 29 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	settle()
	if got := s.taken.String(); !strings.Contains(got, "ulimit -n, or LimitNOFILE=") || !strings.HasSuffix(got, ")\n") {
		t.Errorf("written is %q", got)
	}
}

// TestHeldUp checks that a writer does not wait for a reader that hangs, that lost lines are counted where they are
// missing, and that the end does not wait either.
func TestHeldUp(t *testing.T) {
	s := &sink{}
	s.gate.Lock()
	cmd, settle := detached(s)
	line := strings.Repeat("x", 1<<10-1) + "\n"
	for range most>>10 + 7 {
		_, _ = io.WriteString(cmd.ErrOrStderr(), line)
	}
	s.gate.Unlock()
	for { // until there is room
		if n, _ := io.WriteString(cmd.ErrOrStderr(), "end\n"); n != 4 {
			t.Fatalf("%d bytes were taken", n)
		}
		s.gate.Lock()
		got := s.taken.String()
		s.gate.Unlock()
		if _, after, ok := strings.Cut(got, "lines are missing here"); ok && strings.Contains(after, "\nend\n") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	settle()
}

// TestEndWithoutReader checks that the end does not wait for a reader that hangs.
func TestEndWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := &outlet{done: make(chan struct{})}
		o.work.L = &o.mu
		o.add(w, []byte("one\n"))
		go o.run()
		start := time.Now()
		o.settle()
		if d := time.Since(start); d != timeout {
			t.Errorf("the end took %v", d)
		}
		_ = r.Close()
		<-o.done
	})
}

// TestReaderEnded checks that lines that cannot be written are counted, and reported once writing works again.
func TestReaderEnded(t *testing.T) {
	s, o := &sink{broken: true}, &outlet{}
	o.work.L = &o.mu
	for _, text := range []string{"a\nb\n", "c\n"} {
		o.add(s, []byte(text))
		m, _ := o.next()
		_, err := m.to.Write(m.text)
		o.wrote(m, err)
	}
	if m, _ := o.next(); string(m.text) != "c\n" || o.lost != 1 {
		t.Errorf("next is %q, and %d lines are lost", m.text, o.lost)
	}
}
