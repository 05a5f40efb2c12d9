package ceph

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/rados"
)

// TestGatewayUser makes the user for gateways as docs/gateways.md says. The user may do everything that a gateway does.
// A user with fewer capabilities may not fence, or use the group's object in another pool.
func TestGatewayUser(t *testing.T) {
	cluster(t)
	c, err := StartWithKeys(t.TempDir(), "127.88.20.1:13300", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, line := range cephLines(t) {
		if _, err := c.Run("sh", "-c", "cd "+c.Dir+" && "+line); err != nil {
			t.Fatal(err)
		}
	}
	for name, caps := range map[string][2]string{"nofence": {"allow r", "profile rbd pool=disks"}, "elsewhere": {"profile rbd", "profile rbd pool=rbd"}} {
		if _, err := c.Run("ceph", "auth", "get-or-create", "client."+name, "mon", caps[0], "osd", caps[1], "-o", c.path("ceph.client."+name+".keyring")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := rados.Open(t.Context(), rados.Config{Conf: c.Conf, ID: "nvmeof", Pool: "disks", Group: "group1", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: "k", Value: []byte("v")}}}); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	owner, taker := userOf(t, c, "nvmeof"), userOf(t, c, "nvmeof")
	image, err := rbd.Open("disks/disk1", rbd.Config{Client: owner, Size: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	if err := taker.Fence(t.Context(), owner.Addresses(), 0); err != nil {
		t.Error(err)
	}
	if err := taker.AwaitFence(t.Context(), "disks"); err != nil {
		t.Error(err)
	}
	if err := userOf(t, c, "nofence").Fence(t.Context(), []string{"255.255.255.255:0/1"}, time.Second); !errors.Is(err, unix.EACCES) {
		t.Errorf("a user with mon 'allow r' fences: %v", err)
	}
	for _, wrong := range []struct {
		pool, id string
		errno    unix.Errno
		want     string
	}{
		{"disks", "elsewhere", unix.EPERM, "capabilities"},
		{"disk", "nvmeof", unix.ENOENT, "there is no such pool"},
		{"disks", "nobody", unix.EACCES, "connect to the cluster as client.nobody"},
	} {
		_, err := rados.Open(t.Context(), rados.Config{Conf: c.Conf, ID: wrong.id, Pool: wrong.pool, Group: "group1", Timeout: 5 * time.Second})
		if !errors.Is(err, wrong.errno) || !strings.Contains(fmt.Sprint(err), wrong.want) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// cephLines returns the page's command lines for Ceph.
func cephLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ {4,}((?:ceph|rbd) .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	var all []string
	for _, l := range lines {
		all = append(all, l[1])
	}
	return all
}

func userOf(t *testing.T, c *Cluster, id string) *rbd.Client {
	t.Helper()
	client, err := rbd.Connect(rbd.ClientConfig{Conf: c.Conf, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // it may be fenced
	return client
}
