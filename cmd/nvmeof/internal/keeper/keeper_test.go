package keeper

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
)

// newBorrower is a keeper for which a process holds nvme0 that does not answer, and another one
// held nvme1 that has ended.
func newBorrower(t *testing.T) *Keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	silent, err := net.Listen("unix", filepath.Join(dir, "silent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	k := &Keeper{holder: connections.New(connections.Config{Dir: dir}), answerTime: time.Second}
	t.Cleanup(func() {
		if err := k.holder.Close(); err != nil {
			t.Error(err)
		}
	})
	k.lent.Add(lending.Loan{Lender: &connections.Process{Socket: silent.Addr().String()}, Name: "nvme0"})
	k.lent.Add(lending.Loan{Lender: &connections.Process{Socket: filepath.Join(dir, "ended")}, Name: "nvme1"})
	return k
}

// TestSilentLender checks that a process that does not answer neither counts as one that has
// ended nor hides that another one has.
func TestSilentLender(t *testing.T) {
	lost := func(t *testing.T, k *Keeper) {
		t.Helper()
		for limit := time.Now().Add(20 * time.Second); len(k.lent.List()) > 1; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("the end of a process is not noticed beside one that does not answer")
			}
		}
		if left := k.lent.List(); len(left) != 1 || left[0].Name != "nvme0" {
			t.Errorf("left is %+v", left)
		}
	}
	t.Run("Wait", func(t *testing.T) {
		t.Parallel()
		k := newBorrower(t)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- k.Wait(ctx) }() // ends with ctx
		lost(t, k)
		cancel()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
	t.Run("Orphans", func(t *testing.T) {
		t.Parallel()
		k := newBorrower(t)
		orphans := make(chan []string, 1)
		go func() { orphans <- k.Orphans(t.Context()) }() // ends when the processes were asked
		lost(t, k)
		if names := <-orphans; len(names) != 1 || names[0] != "nvme1" {
			t.Errorf("orphans are %q", names)
		}
	})
}
