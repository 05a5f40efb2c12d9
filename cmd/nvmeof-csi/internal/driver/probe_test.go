package driver

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestProbeOthers checks that the driver is ready if any target answers, whatever the others do: the sidecars, when they
// are started, do nothing before that, for volumes of all targets.
func TestProbeOthers(t *testing.T) {
	c := newConsole(t, softroce.Config{}, "", nil)
	c.put(t, "token", "operate")
	c.put(t, "wrong", "none")
	at := func(name, control, token string) volumes.TargetConfig {
		return volumes.TargetConfig{Name: name, Control: control, TokenFile: filepath.Join(c.dir, token), CAFile: filepath.Join(c.dir, "ca.pem"), Subsystem: subsystemNQN, Directory: c.dir}
	}
	hung, err := net.Listen("unix", filepath.Join(t.TempDir(), "s")) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	live, away, silent, refuses := at("live", c.URL, "token"), at("away", "unix:"+filepath.Join(c.dir, "none"), ""), at("silent", "unix:"+hung.Addr().String(), ""), at("refuses", c.URL, "wrong")
	for _, test := range []struct {
		targets []volumes.TargetConfig
		ready   bool
		code    codes.Code
		warned  int // targets
	}{
		{[]volumes.TargetConfig{away, refuses, silent, live}, true, codes.OK, 2},
		{[]volumes.TargetConfig{live, refuses}, true, codes.OK, 1},
		{[]volumes.TargetConfig{away, refuses}, false, codes.OK, 2},
		{[]volumes.TargetConfig{refuses}, false, codes.FailedPrecondition, 1},
	} {
		set, err := volumes.New(volumes.Config{Targets: test.targets})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		core, logged := observer.New(zap.WarnLevel)
		i := newIdentity("test", zap.New(core), set)
		for range 2 { // the second time nothing is new
			r, err := i.Probe(t.Context(), nil)
			if code := statusOf(err).Code(); code != test.code || r.GetReady().GetValue() != test.ready {
				t.Errorf("%d targets, the first %s: %v, %v; want %v, %v", len(test.targets), test.targets[0].Name, r, err, test.ready, test.code)
			}
			for end := time.Now().Add(10 * time.Second); logged.Len() < test.warned && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			if logged.Len() != test.warned {
				t.Errorf("%d targets, the first %s: warnings %v", len(test.targets), test.targets[0].Name, logged.All())
			}
		}
	}
}
