package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A victim is what can be observed of a target besides its traffic.
type victim struct {
	pid    int
	client *control.Client // nil: the target is another program
	// extra returns holdings that a test in the target's process can see; nil elsewhere.
	extra func() []holding
}

func newVictim(ctx context.Context, o *options) (*victim, error) {
	v := &victim{pid: o.pid}
	if o.socket == "" {
		return v, nil
	}
	v.client = control.NewClient(o.socket)
	var s control.Status
	if err := v.client.Do(ctx, "GET", "/v1/status", nil, nil, &s); err != nil {
		return nil, err
	}
	if v.pid == 0 {
		v.pid = s.PID
	}
	return v, nil
}

// A holding is the amount of a resource that a target uses, and by how much it may grow.
type holding struct {
	name   string
	spare  int64
	bytes  bool
	amount int64
}

// holdings returns what can be observed, in a fixed order. The spare of RSS is large because a Go program returns
// memory to the system minutes after its last use.
func (v *victim) holdings(ctx context.Context) (out []holding, err error) {
	if v.client != nil {
		var s control.Status
		if err := v.client.Do(ctx, "GET", "/v1/status", nil, nil, &s); err != nil {
			return nil, err
		}
		out = append(out, holding{name: "controllers", amount: int64(s.Controllers)}, holding{name: "goroutines", amount: int64(s.Goroutines), spare: 8})
	}
	if v.extra != nil {
		out = append(out, v.extra()...)
	}
	if v.pid == 0 {
		return out, nil
	}
	proc := filepath.Join("/proc", strconv.Itoa(v.pid))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return nil, fmt.Errorf("the target's process is gone, or somebody else's: %w", err)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return nil, err
	}
	return append(out,
		holding{name: "descriptors", amount: int64(len(fds))},
		holding{name: "threads", amount: field(string(status), "Threads:"), spare: 8},
		holding{name: "RSS", amount: field(string(status), "VmRSS:") << 10, bytes: true, spare: 192 << 20}), nil
}

func field(status, name string) int64 {
	_, rest, _ := strings.Cut(status, name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[0], 10, 64)
	return n
}

// left waits, at most for the given time, until a target uses no more than before, and lists what is left over. took is
// how long that was.
func (v *victim) left(ctx context.Context, before []holding, atMost time.Duration) (left []string, took time.Duration, err error) {
	began := time.Now()
	for {
		now, err := v.holdings(ctx)
		if err != nil {
			return nil, 0, err
		}
		was := map[string]int64{}
		for _, h := range before {
			was[h.name] = h.amount
		}
		left = nil
		for _, h := range now {
			if more := h.amount - was[h.name]; more > h.spare {
				left = append(left, h.more(more))
			}
		}
		if took = time.Since(began); len(left) == 0 || took > atMost {
			return left, took, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, took, ctx.Err()
		}
	}
}

func (h *holding) more(n int64) string {
	if h.bytes {
		return fmt.Sprintf("%d MiB %s", n>>20, h.name)
	}
	return fmt.Sprintf("%d %s", n, h.name)
}
