package gateway

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// fakeOpeners stand for images that are opened ahead.
type fakeOpeners struct {
	mu      sync.Mutex
	log     []string
	refuses error
}

type fakeOpener struct {
	all  *fakeOpeners
	name string
}

func (f *fakeOpeners) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, what)
}

// since returns the calls since the last time, in order.
func (f *fakeOpeners) since() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	slices.Sort(log)
	return log
}

func (f *fakeOpeners) open(name string, _ rbd.Config) (opener, error) {
	f.note("ahead " + name)
	if f.refuses != nil {
		return nil, f.refuses
	}
	return &fakeOpener{f, name}, nil
}

var errUsed = errors.New("it was opened ahead")

func (f *fakeOpener) Open() (*rbd.Store, error) {
	f.all.note("use " + f.name)
	return nil, errUsed
}

func (f *fakeOpener) Close() error {
	f.all.note("close " + f.name)
	return nil
}

// TestAhead: the images of a group that is about to come are opened once, and closed if it does not come.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := known(map[string]*fakeCluster{"x": {address: "a"}}), &fakeOpeners{}
		c.preopenWith = f.open
		join := func() {
			if _, err := c.connect(&config.Document{Group: config.Gateways{Store: "rados://p/g", ID: "x"}}, "i", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(what string, want ...string) {
			t.Helper()
			if got := f.since(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		doc := images(t, "x", "x", "z")
		all := doc.Subsystems[0].Namespaces
		c.preopen(doc, 1)
		want("no incarnation has begun")
		join()
		c.preopen(doc, 2)
		want("another group")
		c.preopen(doc, 1)
		c.preopen(doc, 1)
		want("once each, and not where there is no client", "ahead p/0", "ahead p/1")
		if _, err := c.openImage(all[0].RBD, 0); !errors.Is(err, errUsed) {
			t.Errorf("what was opened ahead is not used: %v", err)
		}
		if _, err := c.openImage(all[1].RBD, 4096); errors.Is(err, errUsed) {
			t.Error("what was opened with another block size is used")
		}
		want("one is used", "use p/0")
		time.Sleep(preopenTime + time.Second)
		want("the other is not", "close p/1")
		f.refuses = errors.New("no monitor answers")
		c.preopen(doc, 1)
		want("tried", "ahead p/0", "ahead p/1")
		if _, err := c.openImage(all[0].RBD, 0); errors.Is(err, errUsed) || errors.Is(err, f.refuses) {
			t.Errorf("what failed ahead is not tried again: %v", err)
		}
		time.Sleep(preopenTime + time.Second)
		f.refuses = nil
		c.preopen(doc, 1)
		c.close()
		want("the incarnation ends", "ahead p/0", "ahead p/1", "close p/0", "close p/1")
		join()
		time.Sleep(preopenTime + time.Second)
		want("nothing is left")
	})
}

// TestPreopenMoving: the gateway to which a group is to move opens its images ahead.
func TestPreopenMoving(t *testing.T) {
	for _, s := range []group.GroupStatus{
		{}, {Moving: true}, {Moving: true, To: "b"}, {Moving: true, To: "a", Owner: group.Owner{Owner: "a"}},
	} {
		(&Gateway{name: "a"}).preopenMoving(group.Status{Groups: []group.GroupStatus{s}}) // it would ask the manager, and there is none
	}
}
