package targetcommand

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// TestAuditRotated checks that lines go to the new file after SIGHUP, and that none is lost.
func TestAuditRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, err := openAudit(new(opening), config.Audit{File: config.Path(path)}, zap.NewNop(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.rotated()
	a.add(control.Operation{Name: "one", Result: "ok", By: control.Peer{Process: &control.Process{}}})
	a.add(control.Operation{Name: "two", By: control.Peer{Signal: "SIGHUP"}})
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.add(control.Operation{})
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"uid":0,"gid":0,"pid":0,"user":"root"`) || !strings.Contains(string(text), `"signal":"SIGHUP"`) {
		t.Errorf("%v: %s", err, text)
	}
	if text, err = os.ReadFile(path + ".1"); err != nil || len(text) != 0 {
		t.Errorf("%v: the old file has %s", err, text)
	}
}

// TestAuditRemoved checks that a file that was removed is created again with the next line, and that this is reported:
// nobody could read further lines in the removed file.
func TestAuditRemoved(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	happened := events.New(events.Config{})
	path := filepath.Join(t.TempDir(), "audit")
	a, err := openAudit(new(opening), config.Audit{File: config.Path(path)}, zap.New(core), happened, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.add(control.Operation{Name: "one", Result: "ok"})
	a.add(control.Operation{Name: "two", Result: "ok"})
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%v: it has %q", err, text)
	}
	if n := logs.FilterMessageSnippet("was removed").Len(); n != 1 || happened.Last() != 1 {
		t.Errorf("it is said %d times, and %d events", n, happened.Last())
	}
}

// TestAuditLost checks that a line that cannot be written is counted and recorded as an event. The operation itself
// has ended by then.
func TestAuditLost(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	happened := events.New(events.Config{})
	a, err := openAudit(new(opening), config.Audit{File: "/dev/full"}, zap.New(core), happened, nil)
	if err != nil {
		t.Skip(err)
	}
	a.add(control.Operation{Name: "addNamespace", Result: "ok"})
	a.add(control.Operation{Name: "addNamespace", Result: string(control.CodeUnsaved), Error: "no space left on device"})
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"it was executed", "the target was changed, but the change is not saved: no space left on device"} {
		if l := logs.All(); i < len(l) && l[i].ContextMap()["came_to"] != want {
			t.Errorf("line %d says %v, want %q", i, l[i].ContextMap()["came_to"], want)
		}
	}
	if l := logs.FilterMessageSnippet("a line is lost").All(); len(l) != 2 || l[1].ContextMap()["lost"] != uint64(2) || happened.Last() != 2 {
		t.Errorf("%+v, %d events", l, happened.Last())
	}
}

// TestAuditQueue checks that a file that does not answer delays no operation.
func TestAuditQueue(t *testing.T) {
	a := &audit{log: zap.NewNop(), lines: make(chan control.Operation, 1)}
	a.add(control.Operation{})
	a.add(control.Operation{})
	if a.lost != 1 {
		t.Errorf("%d are lost", a.lost)
	}
}

// TestAuditSynced checks that lines are made durable soon, several together, including those of a file that was moved
// away, and at the end. A slow fsync delays neither operations nor lines.
func TestAuditSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, auditSynced)
}

func auditSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	synced, slow := make(chan string, 16), make(chan struct{})
	a := &audit{path: path, log: zap.NewNop(), happened: events.New(events.Config{}), lines: make(chan control.Operation, auditQueue)}
	a.sync = func(f *os.File) error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			return err
		}
		synced <- strings.Join(regexp.MustCompile(`"one"|"two"|"three"|"four"`).FindAllString(string(text), -1), " ")
		<-slow
		return nil
	}
	f, err := a.openFile()
	if err != nil {
		t.Fatal(err)
	}
	a.add(control.Operation{Name: "one"})
	a.add(control.Operation{Name: "two"})
	a.begin(f)
	want := func(names string) {
		t.Helper()
		select {
		case got := <-synced:
			if got != names {
				t.Errorf("synced is %s, want %s", got, names)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is synced")
		}
	}
	want(`"one" "two"`)
	for range 2 * auditQueue { // while that is in progress
		a.add(control.Operation{Name: "three"})
		for len(a.lines) > 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	if a.lost > 0 {
		t.Errorf("%d lines are lost", a.lost)
	}
	close(slow)
	<-synced
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.rotated()
	a.add(control.Operation{Name: "four"})
	ended := make(chan error, 1)
	go func() { ended <- a.end() }()
	want(`"one" "two"` + strings.Repeat(` "three"`, 2*auditQueue))
	want(`"four"`)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAuditUnsynced checks that a failing fsync is reported once while it lasts, and not at all for a file that keeps
// no data.
func TestAuditUnsynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, auditUnsynced)
}

func auditUnsynced(t *testing.T) {
	for why, said := range map[error]int{syscall.EIO: 1, syscall.EINVAL: 0} {
		core, logs := observer.New(zapcore.ErrorLevel)
		happened := events.New(events.Config{})
		a := &audit{path: filepath.Join(t.TempDir(), "audit"), log: zap.New(core), happened: happened, lines: make(chan control.Operation, auditQueue)}
		synced := make(chan struct{})
		once := sync.OnceFunc(func() { close(synced) })
		a.sync = func(*os.File) error { once(); return why }
		f, err := a.openFile()
		if err != nil {
			t.Fatal(err)
		}
		a.begin(f)
		a.add(control.Operation{Name: "one"})
		<-synced
		a.add(control.Operation{Name: "two"})
		if err := a.end(); err != nil {
			t.Error(err)
		}
		if n := logs.FilterMessageSnippet("may be lost").Len(); n != said || happened.Last() != uint64(said) {
			t.Errorf("%v is said %d times, and %d events", why, n, happened.Last())
		}
	}
}

// TestAuditToLog writes to the log, or nowhere.
func TestAuditToLog(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	a, err := openAudit(new(opening), config.Audit{Log: true}, zap.New(core), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.sink()(control.Operation{Name: "one"})
	if err := a.end(); err != nil || logs.FilterMessage("audit").Len() != 1 {
		t.Errorf("%v: %v", err, logs.All())
	}
	none, err := openAudit(new(opening), config.Audit{}, nil, nil, nil)
	none.rotated()
	if err != nil || none.sink() != nil || none.end() != nil {
		t.Error("without an audit there is one")
	}
	if _, err := openAudit(new(opening), config.Audit{File: config.Path(t.TempDir())}, nil, nil, nil); err == nil {
		t.Error("a folder is opened")
	}
}

// TestAuditFIFO checks that a FIFO without a reader is rejected with the remedy.
func TestAuditFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAuditFile(path); err == nil || !strings.Contains(err.Error(), "start its reader first") {
		t.Error(err)
	}
}

// TestAuditDevice checks that lines do not overwrite a disk.
func TestAuditDevice(t *testing.T) {
	for m, refused := range map[fs.FileMode]bool{
		0o600: false, fs.ModeNamedPipe: false, fs.ModeDevice | fs.ModeCharDevice: false, fs.ModeDevice | 0o660: true,
	} {
		if err := takesLines(m); (err != nil) != refused {
			t.Errorf("%v: %v", m, err)
		}
	}
}
