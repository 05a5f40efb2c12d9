package ceph

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
)

const (
	fenceBlocks = 4096 // of 4 KiB each
	fenceDepth  = 2048
)

// An ownerReport says what became of the writes of a process until it was fenced.
type ownerReport struct {
	Acknowledged int                 // acknowledged writes
	Refused      int                 // writes that failed as fenced
	Last         [fenceBlocks]uint64 // newest number of each block that was acknowledged
}

// connect returns a client of the cluster.
func connect(t *testing.T, c *Cluster) *rbd.Client {
	t.Helper()
	client, err := rbd.Connect(rbd.ClientConfig{Conf: c.Conf})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestOwner runs in the process that TestFence starts.
func TestOwner(t *testing.T) {
	image := os.Getenv("CEPH_TEST_OWNER")
	if image == "" {
		t.Skip("TestFence runs it")
	}
	c := &Cluster{Conf: os.Getenv("CEPH_CONF")}
	client := connect(t, c)
	fmt.Printf("addresses %s\n", strings.Join(client.Addresses(), " "))
	s, err := rbd.Open(image, rbd.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.NewQueue(fenceDepth, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := json.Marshal(writeUntilFenced(q))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("report %s\n", report)
	if err := errors.Join(q.Close(), s.Close(), client.Close()); err != nil {
		t.Error(err)
	}
}

// writeUntilFenced writes numbered blocks until all writes of a whole second were refused.
func writeUntilFenced(q backend.Queue) *ownerReport {
	var r ownerReport
	numbers := make([]uint64, fenceDepth)
	busy := make([]bool, fenceBlocks) // one write of a block at a time, so that the newest number is what the block has
	blocks := make([]int, fenceDepth)
	results := make([]backend.Result, fenceDepth)
	var free []int
	for i := range fenceDepth {
		free = append(free, i)
	}
	buffers := backendtest.Buffer(fenceDepth*4096, 4096)
	var number uint64
	var refused time.Time
	for refused.IsZero() || time.Since(refused) < time.Second || len(free) < fenceDepth {
		for len(free) > 0 && (refused.IsZero() || time.Since(refused) < time.Second) {
			i := free[len(free)-1]
			block := rand.IntN(fenceBlocks)
			if busy[block] {
				break
			}
			number++
			free, numbers[i], blocks[i], busy[block] = free[:len(free)-1], number, block, true
			b := buffers[i*4096 : (i+1)*4096]
			copy(b, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, number), 512))
			q.Submit([]backend.Request{{Tag: uint64(i), Op: backend.OpWrite, Offset: int64(block) * 4096, Length: 4096, Buf: b}})
		}
		for _, result := range results[:q.Poll(results)] {
			i := int(result.Tag)
			free, busy[blocks[i]] = append(free, i), false
			switch {
			case result.Err == nil:
				r.Acknowledged++
				r.Last[blocks[i]] = numbers[i]
			case errors.Is(result.Err, backend.ErrFenced):
				if r.Refused++; refused.IsZero() {
					refused = time.Now()
				}
			default:
				fmt.Println("a write:", result.Err)
			}
		}
	}
	return &r
}

// startOwner starts the process. It returns its clients' addresses and a function that reads its report.
func startOwner(t *testing.T, c *Cluster, image string) (cmd *exec.Cmd, addresses []string, report func() *ownerReport) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestOwner$", "-test.v")
	cmd.Env = append(os.Environ(), "CEPH_TEST_OWNER="+image, "CEPH_CONF="+c.Conf)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	next := func(prefix string) string {
		for {
			line, err := lines.ReadString('\n')
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(rest)
			}
			if err != nil {
				t.Fatalf("the owner has said no %s: %v", prefix, err)
			}
		}
	}
	addresses = strings.Fields(next("addresses "))
	return cmd, addresses, func() *ownerReport {
		var r ownerReport
		if err := json.Unmarshal([]byte(next("report ")), &r); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the owner: %v", err)
		}
		return &r
	}
}

// contents reads all blocks, and returns their numbers.
func contents(t *testing.T, s *rbd.Store) (all [fenceBlocks]uint64) {
	t.Helper()
	w := newWriter(t, s)
	defer w.q.Close()
	b := backendtest.Buffer(1<<20, 4096)
	for at := 0; at < fenceBlocks*4096; at += len(b) {
		if err := w.do(backend.Request{Op: backend.OpRead, Offset: int64(at), Length: int64(len(b)), Buf: b}); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(b); i += 4096 {
			block := b[i : i+4096]
			if !bytes.Equal(block, bytes.Repeat(block[:8], 512)) {
				t.Errorf("block %d is torn", (at+i)/4096)
			}
			all[(at+i)/4096] = binary.LittleEndian.Uint64(block)
		}
	}
	return all
}

// TestFence: once Fence has returned and the image is open elsewhere, no write of its former owner appears, although
// thousands are outstanding. What was acknowledged to the owner must be there.
func TestFence(t *testing.T) {
	c := cluster(t)
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%v", stopped), func(t *testing.T) { fence(t, c, stopped) })
	}
}

func fence(t *testing.T, c *Cluster, stopped bool) {
	s, image := open(t, c, rbd.Config{Size: fenceBlocks * 4096})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	client := connect(t, c)
	former, addresses, report := startOwner(t, c, image)
	time.Sleep(2 * time.Second) // meanwhile the owner writes
	if stopped {
		if err := former.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := client.Fence(t.Context(), addresses, time.Minute); err != nil {
		t.Fatal(err)
	}
	fenced := time.Since(began)
	s, err := rbd.Open(image, rbd.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(began)
	was := contents(t, s)
	w := newWriter(t, s)
	w.count = 1 << 32 // unlike the owner's numbers
	w.during(func() error { return nil })
	if stopped {
		if err := former.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	last := report()
	t.Logf("fenced in %v, open in %v; of the former owner %d writes were acknowledged, %d refused", fenced.Round(time.Millisecond), opened.Round(time.Millisecond), last.Acknowledged, last.Refused)
	if last.Acknowledged == 0 || last.Refused == 0 {
		t.Error("the former owner has not met the fence")
	}
	now := contents(t, s)
	for i := range was {
		if want := w.blocks[min(i, len(w.blocks)-1)]; i < len(w.blocks) && want != 0 {
			if now[i] != want {
				t.Errorf("block %d has %d, want %d, which the new owner has written", i, now[i], want)
			}
		} else if now[i] != was[i] {
			t.Errorf("block %d had %d and has %d, of the former owner", i, was[i], now[i])
		}
		if was[i] < last.Last[i] {
			t.Errorf("block %d had %d, and %d was acknowledged", i, was[i], last.Last[i])
		}
	}
	w.close(s)
	unfence(t, client, addresses)
}

// unfence removes a fence, and closes the client.
func unfence(t *testing.T, client *rbd.Client, addresses []string) {
	t.Helper()
	until, err := client.Fenced(t.Context(), addresses)
	if err != nil || len(until) == 0 {
		t.Errorf("fenced: %v, %v", until, err)
	}
	if err := client.Unfence(t.Context(), addresses); err != nil {
		t.Error(err)
	}
	if until, err := client.Fenced(t.Context(), addresses); err != nil || len(until) != 0 {
		t.Errorf("after the end of the fence: %v, %v", until, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// TestFenced: requests of a store whose client is fenced fail at once. The image can be opened again with another
// client.
func TestFenced(t *testing.T) {
	c := cluster(t)
	s, image := open(t, c, rbd.Config{Size: 20 << 20})
	w := newWriter(t, s)
	defer w.close(s)
	w.during(func() error { return nil })
	address := watcher(t, c, image)
	client := connect(t, c)
	defer client.Close()
	if err := client.Fence(t.Context(), []string{address}, time.Minute); err != nil {
		t.Fatal(err)
	}
	learn(t, image, client, w)
	for range 3 {
		began := time.Now()
		if err := w.write(); !errors.Is(err, backend.ErrFenced) {
			t.Errorf("a write: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the refusal has taken %v", took)
		}
	}
	w.verifyFenced()
	if s.Failed() == nil {
		t.Error("the store does not say that it has failed")
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	w.during(func() error { return nil })
	w.verify()
	if err := client.Unfence(t.Context(), []string{address}); err != nil {
		t.Error(err)
	}
}

// watcher returns the address of the client that has an image open.
func watcher(t *testing.T, c *Cluster, image string) string {
	t.Helper()
	out, err := c.Run("rbd", "status", image)
	_, after, _ := strings.Cut(out, "watcher=")
	address, _, found := strings.Cut(after, " ")
	if err != nil || !found {
		t.Fatalf("%s: %v", out, err)
	}
	return address
}

// verifyFenced checks that reads are refused, too.
func (w *writer) verifyFenced() {
	w.t.Helper()
	b := backendtest.Buffer(4096, 4096)
	if err := w.do(backend.Request{Op: backend.OpRead, Length: 4096, Buf: b}); !errors.Is(err, backend.ErrFenced) {
		w.t.Errorf("a read: %v", err)
	}
}
