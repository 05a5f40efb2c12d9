package driver

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"go.uber.org/zap"
)

// serve serves a driver with a target and a machine at a socket, and returns the socket's path.
func serve(t testing.TB, r *targetRig, m *machine) string {
	t.Helper()
	path := filepath.Join(r.dir, "csi.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Version: "test", Log: zap.NewNop(), Volumes: r.set, Host: m.nqn, Fabric: m, Mounts: m, TidyEvery: 10 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(l) }() // ends with Stop
	t.Cleanup(func() {
		d.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "unix:" + path
}

// TestSanity runs the test suite of the specification's authors on the driver, with volumes that our host connects to,
// writes to and reads.
func TestSanity(t *testing.T) {
	r := newTargetRig(t)
	m := newMachine(t, r.addr.Next(), 1)
	c := sanity.NewTestConfig()
	c.Address = serve(t, r, m)
	c.TargetPath, c.StagingPath = filepath.Join(r.dir, "target"), filepath.Join(r.dir, "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = 4<<20, 8<<20
	c.IdempotentCount = 3
	// The suite runs in this process's ginkgo, which is configured to print only failures.
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct, reporter.NoColor = true, true
	gomega.RegisterFailHandler(ginkgo.Fail)
	sc := sanity.GinkgoTest(&c)
	if !ginkgo.RunSpecs(t, "CSI", suite, reporter) {
		t.Error("the suite failed")
	}
	sc.Finalize()
	if left := r.document().Subsystems; len(left) != 1 || len(left[0].Namespaces)+len(left[0].Hosts) != 0 {
		t.Errorf("the suite is over, and the target has yet %s", r.document().YAML())
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*.img"))
	if err != nil || len(files) > 0 {
		t.Errorf("there are files yet: %q, %v", files, err)
	}
	if _, err := os.Stat(c.StagingPath); err == nil {
		t.Errorf("%s is there yet", c.StagingPath)
	}
}
