package targetcommand

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/sandbox"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestSandboxModes checks what is confined in each mode, and the result if the kernel cannot confine it.
func TestSandboxModes(t *testing.T) {
	lacking := errors.New("the kernel has none")
	for _, c := range []struct {
		mode, socket string
		paths        []config.Path
		can          sandbox.Sandbox // what the kernel supports
		asked        bool            // for files to be confined
		transport    config.Transport
		err, log     string
	}{
		{mode: sandboxAuto, log: "not confined: sandbox.paths"},
		{mode: sandboxAuto, paths: []config.Path{"/srv"}, asked: true},
		{mode: sandboxAuto, socket: noSocket, asked: true},
		{mode: sandboxOn, asked: true},
		{mode: sandboxAuto, can: sandbox.Sandbox{Calls: lacking}, log: "not filtered: the kernel has none"},
		{mode: sandboxAuto, socket: noSocket, asked: true, can: sandbox.Sandbox{Files: lacking}, log: "not confined: the kernel has none"},
		{mode: sandboxOn, asked: true, can: sandbox.Sandbox{Calls: lacking}, err: "system calls are not filtered: the kernel has none"},
		{mode: sandboxOn, asked: true, can: sandbox.Sandbox{Files: lacking}, err: "files are not confined: the kernel has none"},
		{mode: sandboxOn, transport: "verbs", err: "files are not confined: with Landlock the kernel denies the commands of RDMA devices"},
		{mode: sandboxAuto, transport: "verbs", paths: []config.Path{"/srv"}, log: "not confined: with Landlock the kernel denies the commands of RDMA devices"},
		{mode: sandboxAuto, transport: "softroce", paths: []config.Path{"/srv"}, asked: true},
	} {
		core, logs := observer.New(zap.InfoLevel)
		entered, asked := false, false
		d := &Daemon{sandbox: c.mode, Socket: c.socket, Log: zap.New(core), Flags: new(Flags),
			Document: &config.Document{Sandbox: config.Sandbox{Paths: c.paths}, Listeners: []*config.Listener{{Transport: c.transport}}},
			enter: func(p *sandbox.Places) *sandbox.Sandbox {
				entered, asked = true, p != nil
				if s := c.can; p != nil || s.Calls != nil {
					return &s
				}
				return &sandbox.Sandbox{Files: sandbox.ErrUnconfined}
			}}
		err := d.enterSandbox(nil)
		if !entered || asked != c.asked || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: entered %v, asked %v, %v", c, entered, asked, err)
		}
		text := ""
		for _, l := range logs.All() {
			for _, f := range l.Context {
				text += f.String + "\n"
			}
		}
		if c.err == "" && !strings.Contains(text, c.log) {
			t.Errorf("%+v: the log says %q", c, text)
		}
	}
}
