package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
)

// newBorrower returns a keeper with two loans: nvme0 of a process that does not answer, and nvme1 of one that has
// ended.
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
	k := &Keeper{holder: connections.New(connections.Config{Dir: dir}), answerTime: 300 * time.Millisecond, lookTime: time.Millisecond}
	t.Cleanup(func() {
		if err := k.holder.Close(); err != nil {
			t.Error(err)
		}
	})
	k.lent.Add(lending.Loan{Lender: &connections.Process{Socket: silent.Addr().String()}, Name: "nvme0"})
	k.lent.Add(lending.Loan{Lender: &connections.Process{Socket: filepath.Join(dir, "ended")}, Name: "nvme1"})
	return k
}

// TestSilentLender checks that a process that does not answer is not taken for one that has ended, and does not hide
// the end of another.
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
		orphans := make(chan []Orphan, 1)
		go func() { orphans <- k.Orphans(t.Context()) }() // ends when the processes were queried
		lost(t, k)
		if all := <-orphans; len(all) != 1 || all[0] != (Orphan{"nvme1", lending.ErrLenderEnded}) {
			t.Errorf("orphans are %v", all)
		}
	})
}

// TestLenderHangsUp checks that a process that cannot answer at the moment is not taken for one that has ended.
func TestLenderHangsUp(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "lender"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with Close
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			c.Close()
		}
	}()
	k := &Keeper{}
	k.lent.Add(lending.Loan{Lender: &connections.Process{Socket: l.Addr().String()}, Name: "nvme0"})
	if all := k.Orphans(t.Context()); len(all) != 0 {
		t.Errorf("orphans are %v", all)
	}
}

// newLender serves is at /v1/process, and records the names that it is asked to disconnect, with the borrowers.
func newLender(t *testing.T, dir string, is connections.Process) (p *connections.Process, asked *[]string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, "lender"))
	if err != nil {
		t.Fatal(err)
	}
	asked = &[]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/process", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(is) })
	mux.HandleFunc("POST /v1/disconnect", func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Device string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		*asked = append(*asked, q.Device+" of "+r.URL.Query().Get("borrower"))
		_, _ = io.WriteString(w, `{"names":[]}`)
	})
	server := http.Server{Handler: mux}
	go server.Serve(l) // ends with Close
	t.Cleanup(func() { server.Close() })
	return &connections.Process{Socket: l.Addr().String()}, asked
}

// TestLoansGivenUp checks that a controller that its lender has given up, or whose name now belongs to another, is
// lost; that one disconnected on request has ended; and that the others are given back for this process.
func TestLoansGivenUp(t *testing.T) {
	controller := func(name, borrower string) connections.ControllerInfo {
		return connections.ControllerInfo{Name: name, Borrower: borrower}
	}
	k := newBorrower(t)
	k.lent = lending.Loans{}
	lender, asked := newLender(t, t.TempDir(), connections.Process{
		Lost:       map[string]string{"nvme0": "it was away"},
		Subsystems: []connections.SubsystemInfo{{Controllers: []connections.ControllerInfo{controller("nvme1", "/run/7.0.sock"), controller("nvme2", "/elsewhere/6.0.sock")}}},
	})
	for _, name := range []string{"nvme0", "nvme1", "nvme2", "nvme3"} {
		k.lent.Add(lending.Loan{Lender: lender, Name: name, Borrower: "/run/6.0.sock"})
	}
	all := k.Orphans(t.Context())
	if len(all) != 3 || all[0].Name != "nvme0" || all[0].Err == nil || all[0].Err.Error() != "it was away" ||
		all[1].Name != "nvme1" || all[1].Err == nil || all[2] != (Orphan{Name: "nvme3"}) {
		t.Errorf("orphans are %v", all)
	}
	if err := k.giveBack(); err != nil || !slices.Equal(*asked, []string{"nvme2 of 6.0.sock"}) {
		t.Errorf("given back: %q, %v", *asked, err)
	}
}

// TestGone checks that the end of a controller is reported once, even if another one has its name, and wakes the
// waiting goroutine.
func TestGone(t *testing.T) {
	k := &Keeper{Ended: make(chan struct{}, 1)}
	why := errors.New("it was away")
	k.noteGone("nvme0", why)
	k.noteGone("nvme1", nil)
	select {
	case <-k.Ended:
	default:
		t.Error("nobody is told")
	}
	if gone := k.Gone(); len(gone) != 2 || gone["nvme0"] != why || gone["nvme1"] != nil {
		t.Errorf("%v are gone", gone)
	}
	if gone := k.Gone(); len(gone) > 0 {
		t.Errorf("%v are gone again", gone)
	}
}
