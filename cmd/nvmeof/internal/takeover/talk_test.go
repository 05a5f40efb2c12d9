package takeover

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/internal/shape"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A frame is a frame that the other process sends.
type frame struct {
	kind kind
	body string
}

// TestTalk has the other process send wrong frames, or end: each step must return the right error.
func TestTalk(t *testing.T) {
	record, err := new(target.Moved).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	document := config.JSON(&config.Document{Version: config.Version})
	stated := func(change func(*state)) frame {
		s := state{Document: document, Saved: document, Target: record}
		change(&s)
		body, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		return frame{kindState, string(body)}
	}
	greet := func(c *Conn) error { _, err := c.Greet(Hello{}); return err }
	give := func(c *Conn) error { return c.Give(nothing()) }
	take := func(c *Conn) error { _, err := c.Take(); return err }
	for name, test := range map[string]struct {
		step   func(*Conn) error
		frames []frame
		want   string // empty: no error
	}{
		"ready":             {greet, []frame{{kindReady, ""}}, ""},
		"cancel":            {greet, []frame{{kindCancel, ""}}, ""},
		"greet, other":      {greet, []frame{{kindState, ""}}, "unexpected frame of kind"},
		"greet, end":        {greet, nil, "EOF"},
		"give, refused":     {give, []frame{{kindRefused, "no room"}}, "no room"},
		"give, other":       {give, []frame{{kindHello, ""}}, "unexpected frame of kind"},
		"give, end":         {give, nil, "EOF"},
		"take":              {take, []frame{stated(func(*state) {})}, ""},
		"take, refused":     {take, []frame{{kindRefused, "a store hangs"}}, "the running target continues: a store hangs"},
		"take, other":       {take, []frame{{kindReady, ""}}, "unexpected frame of kind"},
		"take, end":         {take, nil, "EOF"},
		"state, no JSON":    {take, []frame{{kindState, "?"}}, "its state"},
		"state, document":   {take, []frame{stated(func(s *state) { s.Document = json.RawMessage(`{"version": 99}`) })}, "version"},
		"state, record":     {take, []frame{stated(func(s *state) { s.Target = []byte("x") })}, "not a record of associations"},
		"state, device":     {take, []frame{stated(func(s *state) { s.Devices = []device{{"a", nil, -1}} })}, "device a with -1 descriptors"},
		"state, too many":   {take, []frame{stated(func(s *state) { s.Devices = []device{{"a", nil, maxDescriptors}, {"b", nil, 1}} })}, "descriptors, at most"},
		"state, no files":   {take, []frame{stated(func(s *state) { s.Memory = new(pool) }), {kindReady, ""}}, "want descriptors"},
		"state, files late": {take, []frame{stated(func(s *state) { s.Files = []string{"f"} })}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c, other := connected(t)
			go func() { // ends with the test
				for _, f := range test.frames {
					_ = other.send(f.kind, []byte(f.body)) // the step ends by its own error
				}
				_ = other.unix.CloseWrite()
			}()
			if err := test.step(c); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestGreeted checks with which running processes a new one continues.
func TestGreeted(t *testing.T) {
	for _, test := range []struct {
		frame frame
		want  string
	}{
		{frame{kindHello, `{"format": 3, "version": "v1", "pid": 7}`}, ""},
		{frame{kindHello, `{"format": 9, "version": "v9", "pid": 7}`}, "process 7 of version v9 has takeover format 9, and this program format 3"},
		{frame{kindHello, "?"}, "invalid character"},
		{frame{kindRefused, "it is being stopped"}, "it is being stopped"},
		{frame{kindReady, ""}, "unexpected frame of kind"},
	} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		running, err := Answer(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := running.send(test.frame.kind, []byte(test.frame.body)); err != nil {
			t.Fatal(err)
		}
		c, h, err := greeted(accepted)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || err == nil && h.Version != "v1" {
			t.Errorf("%+v: %+v, %v", test.frame, h, err)
		}
		if err == nil {
			if err := c.Cancel(); err != nil {
				t.Error(err)
			}
			if k, _, err := running.receive(); k != kindCancel {
				t.Errorf("unexpected frame of kind %d, %v", k, err)
			}
		}
		_, _ = running.Close(), l.Close()
	}
	if _, err := Answer(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "does not listen") {
		t.Error(err)
	}
}

// TestOfAnotherUser checks that a user who wants to take over another user's target, as root may, is told whose it is.
func TestOfAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may connect to every socket")
	}
	path := filepath.Join(t.TempDir(), "asks")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("is of user %d, and only that user can take it over", os.Geteuid())
	if _, err := Answer(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestDescriptors checks that descriptors arrive with their names and in their places.
func TestDescriptors(t *testing.T) {
	file := func(text string) *os.File {
		f, err := os.CreateTemp(t.TempDir(), "f")
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	running, next := connected(t)
	x := nothing()
	addMemory(t, x, "a", "b")
	x.Files = map[string]*os.File{"metrics": file("metrics")}
	sockets := make([]*os.File, maxFiles+3) // more than fit into one message
	for i := range sockets {
		sockets[i] = x.Files["metrics"]
	}
	sockets[len(sockets)-1] = file("socket")
	x.Target.Devices = []target.MovedDevice{{Name: "d", Moved: &rdmatransport.Moved{State: []byte("state"), Files: sockets}}}
	sent := make(chan error, 1)
	go func() { // ends with the frames
		_, _, err := running.receive()
		if err == nil {
			err = running.sendState(x)
		}
		sent <- err
	}()
	got, err := next.Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	d := got.Target.Devices
	if len(d) != 1 || d[0].Name != "d" || string(d[0].Moved.State) != "state" || len(d[0].Moved.Files) != len(sockets) || len(got.Offsets) != 2 {
		t.Fatalf("%+v", got)
	}
	for want, f := range map[string]*os.File{"metrics": got.Files["metrics"], "socket": d[0].Moved.Files[len(sockets)-1]} {
		b := make([]byte, 16)
		if n, _ := f.ReadAt(b, 0); string(b[:n]) != want {
			t.Errorf("%q in place of %q", b[:n], want)
		}
	}
	wantMemory(t, got)
	if err := running.Refuse(os.ErrClosed); err != nil {
		t.Error(err)
	}
}

// addMemory adds stores that contain their names.
func addMemory(t *testing.T, x *control.Moved, names ...string) {
	x.Memory, x.Offsets = new(memory.Pool), map[string]int64{}
	t.Cleanup(func() { x.Memory.Close() })
	for _, name := range names {
		s, err := memory.New(memory.Config{Size: 4096, Pool: x.Memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		copy(s.Memory(), name)
		x.Offsets[name] = s.Offset()
	}
}

// wantMemory checks that the stores contain their names.
func wantMemory(t *testing.T, x *control.Moved) {
	for want, offset := range x.Offsets {
		s, err := x.Memory.Open(offset)
		if err != nil {
			t.Fatal(err)
		}
		if found := string(s.Memory()[:len(want)]); found != want {
			t.Errorf("%q in place of %q", found, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTypes fails when the types that the processes exchange change, so that Format is raised too.
func TestTypes(t *testing.T) {
	const format, types = 3, "1f21aae5230257d7"
	if now := shape.Of(struct {
		Hello
		state
	}{}).String(); now != types || Format != format {
		t.Errorf("format %d has the types %s, and format %d had %s: raise Format, and then write both here", Format, now, format, types)
	}
}
