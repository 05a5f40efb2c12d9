package gateways

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

var erasures = flag.Int("erase", 0, "how many erasures TestErase has killed in between")

const (
	diskSize     = 1 << 20
	firstErasing = 100 // the first NSID of an erased namespace
	takeUpTime   = time.Minute
)

// TestErase kills the gateway that erases a namespace while that gateway waits for another one, which is stopped. The
// remaining gateway must erase the namespace. Until it has, it must refuse a namespace with the same number or store.
func TestErase(t *testing.T) {
	if *erasures == 0 {
		t.Skip("without -erase")
	}
	dir := t.TempDir()
	c := startCluster(t, dir, newStore(t, dir), 3)
	c.configure(t, dir)
	if err := c.served(everything(), anyone); err != nil {
		t.Fatal(err)
	}
	for i := range *erasures {
		id := firstErasing + i
		if err := c.killErasing(t, id); err != nil {
			t.Fatal(err, c.gateways[0].tail())
		}
		if err := errors.Join(c.crashed()...); err != nil {
			t.Fatal(err)
		}
	}
}

// An erasure is a namespace whose owner is killed while erasing it.
type erasure struct {
	*cluster
	n                    *config.Namespace
	owner, left, stopped *gateway
}

// killErasing creates a namespace, and kills its owner while it is being erased.
func (c *cluster) killErasing(t *testing.T, id int) error {
	if err := c.within(t.Context(), takeUpTime, func(context.Context) error { return c.alive() }); err != nil {
		return err
	}
	e, err := c.newErasure(t.Context(), id)
	if err != nil {
		return err
	}
	e.stopped.signal(syscall.SIGSTOP)
	e.stopped.held = true
	if err := e.kill(t.Context()); err != nil {
		return err
	}
	killed := time.Now()
	if err := e.refused(t.Context()); err != nil {
		return err
	}
	if err := c.within(t.Context(), takeUpTime, func(context.Context) error { return e.left.erasing(0) }); err != nil {
		return err
	}
	t.Logf("namespace %d: erased %v after its owner %s was killed, with %s stopped", id, time.Since(killed).Round(time.Millisecond), e.owner.name, e.stopped.name)
	if err := c.gone(e.n); err != nil {
		return err
	}
	e.stopped.signal(syscall.SIGCONT)
	e.stopped.held = false
	return c.start()
}

// newErasure creates the namespace, and waits until its owner has it.
func (c *cluster) newErasure(ctx context.Context, id int) (*erasure, error) {
	disk, err := c.store.namespace(id)
	if err != nil {
		return nil, err
	}
	doc, _, err := config.Parse("", fmt.Appendf(nil, "version: 1\nsubsystems:\n  - nqn: %s\n    namespaces:\n      - {nsid: %d, ana-group: %d, block-size: %d, %s}\n",
		nqn, id, spaces, blockSize, strings.Replace(disk, "}", fmt.Sprintf(", size: %d}", diskSize), 1)))
	if err != nil {
		return nil, err
	}
	e := &erasure{cluster: c, n: doc.Subsystems[0].Namespaces[0], owner: c.owners()[spaces]}
	if e.owner == nil {
		return nil, errors.New("nobody serves it")
	}
	for _, g := range c.gateways {
		switch {
		case g == e.owner:
		case e.left == nil:
			e.left = g
		default:
			e.stopped = g
		}
	}
	if err := e.create(ctx, e.n); err != nil {
		return nil, err
	}
	return e, c.within(ctx, serveTime, func(ctx context.Context) error {
		return e.owner.client.Do(ctx, "GET", e.path(), nil, nil, nil)
	})
}

func (e *erasure) path(more ...string) string {
	return control.Path(append([]string{"subsystems", nqn, "namespaces", strconv.Itoa(e.n.NSID)}, more...)...)
}

// create creates a namespace at the remaining gateway.
func (e *erasure) create(ctx context.Context, n *config.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, takeUpTime)
	defer cancel()
	return e.left.client.Do(ctx, "POST", control.Path("subsystems", nqn, "namespaces"), nil, config.JSON(n), nil)
}

// kill kills the owner once the group's state says that the namespace is being erased.
func (e *erasure) kill(ctx context.Context) error {
	asked := make(chan error, 1)
	go func() { // ends with the owner's answer, or its death
		asked <- e.owner.client.Do(ctx, "POST", e.path("erase"), []string{"force=true"}, nil, nil)
	}()
	noted := e.within(ctx, serveTime, func(context.Context) error { return e.left.erasing(1) })
	e.owner.kill()
	if err := <-asked; err == nil || noted != nil {
		return errors.Join(errors.New("it was erased at once, or nobody has noted that it is being erased"), noted, err)
	}
	return nil
}

// refused returns an error unless creating a namespace with the same store, or also the same number, is refused.
func (e *erasure) refused(ctx context.Context) error {
	for _, nsid := range []int{e.n.NSID, e.n.NSID + 1000} {
		other := *e.n
		other.NSID, other.UUID = nsid, config.UUID{1}
		var refused *control.Error
		if err := e.create(ctx, &other); !errors.As(err, &refused) || refused.Code != control.CodeExists || !strings.Contains(refused.Message, "being erased") {
			return fmt.Errorf("namespace %d with the store of one that is being erased: %v, want it refused", nsid, err)
		}
	}
	return e.left.erasing(1)
}

// erasing returns an error unless a gateway knows of exactly want namespaces that are being erased.
func (g *gateway) erasing(want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	var doc config.Document
	if err := g.client.Do(ctx, "GET", control.Path("config"), nil, nil, &doc); err != nil {
		return err
	}
	if len(doc.Erasing) != want {
		return fmt.Errorf("%d are being erased", len(doc.Erasing))
	}
	return nil
}

// gone returns an error if the file or image of a namespace still exists.
func (c *cluster) gone(n *config.Namespace) error {
	switch s := c.store.(type) {
	case *etcdStore:
		if _, err := os.Lstat(string(n.Path())); err == nil {
			return fmt.Errorf("%s is there", n.Path())
		}
	case *cephStore:
		images, err := s.Run("rbd", "ls", "rbd")
		if err != nil {
			return err
		}
		if slices.Contains(strings.Fields(images), strings.TrimPrefix(n.RBD.Image, "rbd/")) {
			return fmt.Errorf("%s is there: %s", n.Path(), images)
		}
	}
	return nil
}
