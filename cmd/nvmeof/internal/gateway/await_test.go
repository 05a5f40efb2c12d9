package gateway

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestPoolsOf: each pool of a group's images is named once, with the cluster that it is in.
func TestPoolsOf(t *testing.T) {
	doc := &config.Document{Subsystems: []*config.Subsystem{{}, {}}}
	add := func(subsystem, group int, image, conf string) {
		s := doc.Subsystems[subsystem]
		s.Namespaces = append(s.Namespaces, &config.Namespace{ANAGroup: group, RBD: &config.RBD{Image: image, Conf: config.Path(conf)}})
	}
	for i := range 3 {
		add(0, 0, fmt.Sprintf("rbd/%d", i), "")
	}
	add(1, 1, "rbd/a/1", "")
	add(1, 1, "rbd/1", "/etc/ceph/other.conf")
	add(1, 1, "no image", "")
	add(1, 2, "fast/1", "")
	doc.Subsystems[1].Namespaces = append(doc.Subsystems[1].Namespaces, &config.Namespace{File: &config.File{}})
	want := map[rbd.ClientConfig][]string{{}: {"rbd", "rbd/a"}, {Conf: "/etc/ceph/other.conf"}: {"rbd"}}
	if got := poolsOf(doc, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("pools %v, want %v", got, want)
	}
	var none clients
	if err := none.await(t.Context(), doc, 1); err != nil {
		t.Errorf("of clusters of which the gateway is no client: %v", err)
	}
}

type pooledFunc func(pools []string) error

func (f pooledFunc) AwaitFence(_ context.Context, pools ...string) error { return f(pools) }

// TestAwaitFenceLost: a client that the cluster refuses is reported as lost.
func TestAwaitFenceLost(t *testing.T) {
	for _, want := range []error{nil, context.DeadlineExceeded, fmt.Errorf("pool: %w", unix.ESHUTDOWN)} {
		lost := false
		err := awaitFence(t.Context(), pooledFunc(func([]string) error { return want }), []string{"rbd"}, func() { lost = true })
		if err != want || lost != errors.Is(want, unix.ESHUTDOWN) {
			t.Errorf("%v: %v, lost %v", want, err, lost)
		}
	}
}
