package baddisk

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// hang makes all requests to the faulty file hang from now on, with some commands in progress.
func (r *rig) hang(k *client, commands, bytes int) (ended *sync.WaitGroup) {
	r.t.Helper()
	r.disk.Inject(faultyfs.Fault{Ops: faultyfs.OpAll, Name: "disk", Hang: true})
	ended = new(sync.WaitGroup)
	for i := range commands {
		ended.Go(func() { // ends when the disk answers again
			buf := make([]byte, bytes)
			if i%2 == 0 {
				_, _ = k.spaces[1].WriteAtContext(context.Background(), buf, 0)
			} else {
				_, _ = k.spaces[1].ReadAtContext(context.Background(), buf, 0)
			}
		})
	}
	r.await("the disk hangs", func() bool { return r.disk.Hanging() > 0 })
	return ended
}

// TestHang: a disk that does not answer affects only the commands for it. Other namespaces are served, and a new host
// can connect, identify all namespaces, and use the others.
func TestHang(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		r := newRig(t, disk)
		k := r.connect()
		k.well(1)
		ended := r.hang(k, 8, 4096)
		time.Sleep(200 * time.Millisecond) // time for the monitoring of the disk to hang too
		k.well(2)
		again := r.connect() // identifies all namespaces
		again.well(2)
		if s := r.Status(); len(s.Waiting) > 0 {
			t.Errorf("waiting are %+v", s.Waiting)
		}
		disk.Release()
		ended.Wait()
		again.well(1)
	})
}

// TestStopWhileHung: a target that stops while a disk hangs says which disk it waits for, and ends when that answers.
func TestStopWhileHung(t *testing.T) {
	if !*long {
		t.Skip("waits for as long as a target does until it says so: go test ./test/baddisk -long")
	}
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		r := newRig(t, disk)
		k := r.connect()
		k.well(2)
		ended := r.hang(k, 8, 4096)
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }() // ends when the disk answers
		said := func() []observer.LoggedEntry { return r.logs.FilterMessageSnippet("stopping: a store hangs").All() }
		r.await("the log says so", func() bool { return len(said()) > 0 })
		if names := said()[0].ContextMap()["waits_for_store_of"]; fmt.Sprint(names) != "["+r.file()+"]" {
			t.Errorf("it waits for %v", names)
		}
		disk.Release()
		ended.Wait()
		if err := <-closed; err != nil && !strings.Contains(err.Error(), "not connected") {
			t.Error(err)
		}
	})
}

var long = flag.Bool("long", false, "run also what waits for as long as changes wait for a disk that hangs, a quarter of a minute")

// TestChangesWhileHung: changes that do not need the hanging disk work as usual, and its namespace can be removed.
func TestChangesWhileHung(t *testing.T) {
	if !*long {
		t.Skip("waits for a quarter of a minute: go test ./test/baddisk -long")
	}
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		r := newRig(t, disk)
		k := r.connect()
		ended := r.hang(k, 8, 4096)
		time.Sleep(200 * time.Millisecond)
		doc := r.doc.Clone()
		doc.Subsystems[0].Namespaces = doc.Subsystems[0].Namespaces[:2]
		began := time.Now()
		_, err := r.Apply(doc, control.Options{Force: true})
		r.must(err)
		doc = doc.Clone()
		doc.Subsystems[0].Namespaces = doc.Subsystems[0].Namespaces[1:]
		_, err = r.Apply(doc, control.Options{Force: true})
		r.must(err)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		if l := r.Status().Leaving; len(l) != 1 {
			t.Errorf("leaving are %+v", l)
		}
		k.well(2)
		k.want(3, read, capsule.StatusInvalidNamespace|capsule.StatusDNR)
		k.want(1, read, capsule.StatusInvalidNamespace|capsule.StatusDNR)
		disk.Release()
		ended.Wait()
		r.await("nothing is leaving", func() bool { return len(r.Status().Leaving) == 0 })
		_, err = r.Apply(r.doc, control.Options{})
		r.must(err)
		r.connect().well(1)
	})
}
