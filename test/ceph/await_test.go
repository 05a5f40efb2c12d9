package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// answerOf has an OSD execute a command, and parses the answer.
func answerOf[T any](t *testing.T, c *Cluster, osd, command string, more ...string) (answer T) {
	t.Helper()
	out, err := c.Run("ceph", append([]string{"tell", osd, command, "--format", "json"}, more...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil {
		t.Fatalf("%s %s: %v: %s", osd, command, err, out)
	}
	return answer
}

// history is the recent operations that an OSD keeps.
type history struct {
	Ops []struct {
		Description string `json:"description"`
	} `json:"ops"`
}

// listing matches the operation that visits a placement group: the group, and the epoch of the client's map.
var listing = regexp.MustCompile(`^osd_op\(client\S+ (\S+) .*\[pgnls .* e(\d+)\)$`)

type osdStatus struct {
	NewestMap int `json:"newest_map"`
}

// TestAwaitFence: after AwaitFence each placement group has executed an operation, and each OSD has the map with the
// fence.
func TestAwaitFence(t *testing.T) {
	c := own(t)
	client := connect(t, c)
	defer client.Close()
	wait(t, c)
	remember := func(ops string) {
		if _, err := c.Run("ceph", "tell", "osd.*", "config", "set", "osd_op_history_size", ops); err != nil {
			t.Fatal(err)
		}
	}
	remember("100000")
	defer remember("20")
	stranger := []string{"127.0.0.1:0/12345"}
	if err := client.Fence(t.Context(), stranger, time.Minute); err != nil {
		t.Fatal(err)
	}
	epoch := osdEpoch(t, c) // of the fence, or a later one: a new cluster makes maps by itself
	if err := client.AwaitFence(t.Context(), "rbd"); err != nil {
		t.Fatal(err)
	}
	visited := map[string]bool{}
	for end := time.Now().Add(20 * time.Second); len(visited) < 8 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, osd := range []string{"osd.0", "osd.1"} {
			for _, op := range answerOf[history](t, c, osd, "dump_historic_ops").Ops {
				m := listing.FindStringSubmatch(op.Description)
				if m == nil {
					continue
				}
				if with, err := strconv.Atoi(m[2]); err == nil && with >= epoch {
					visited[m[1]] = true
				}
			}
		}
	}
	if len(visited) != 8 {
		t.Errorf("with map %d or later %v were visited of 8 placement groups", epoch, visited)
	}
	for _, osd := range []string{"osd.0", "osd.1"} {
		if s := answerOf[osdStatus](t, c, osd, "status"); s.NewestMap < epoch {
			t.Errorf("%s has map %d, the monitor %d", osd, s.NewestMap, epoch)
		}
	}
	began := time.Now()
	if err := client.AwaitFence(t.Context(), "rbd"); err != nil {
		t.Error(err)
	}
	t.Logf("where the map is the same: %v", time.Since(began))
	unfence(t, connect(t, c), stranger)
}

func osdEpoch(t *testing.T, c *Cluster) int {
	t.Helper()
	var stat struct{ Epoch int }
	out, err := c.Run("ceph", "osd", "stat", "--format", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &stat)
	}
	if err != nil || stat.Epoch == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return stat.Epoch
}

// TestAwaitFenceHung: AwaitFence waits for an OSD that hangs until the cluster has marked it down, and another OSD
// serves its placement groups.
func TestAwaitFenceHung(t *testing.T) {
	c := own(t)
	client := connect(t, c)
	defer client.Close()
	wait(t, c)
	if err := c.Signal("osd.1", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer wait(t, c)
	defer func() {
		if err := c.Signal("osd.1", syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	stranger := []string{"127.0.0.1:0/12346"}
	if err := client.Fence(t.Context(), stranger, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.AwaitFence(short, "rbd"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an OSD hangs: %v", err)
	}
	long, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.AwaitFence(long, "rbd"); err != nil {
		t.Error(err)
	}
	t.Logf("awaited after %v, with osd_heartbeat_grace=6", time.Since(began).Round(time.Millisecond))
	unfence(t, connect(t, c), stranger)
}
