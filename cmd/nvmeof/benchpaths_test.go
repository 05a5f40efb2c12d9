package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// startBench runs bench, which leaves processor time for others, and returns when its requests reach the target.
func startBench(t *testing.T, args ...string) (errOut *output, ended chan outcome) {
	t.Helper()
	out := newOutput()
	errOut, ended = newOutput(), make(chan outcome, 1)
	stop, end := begin(t, out, errOut, append([]string{"bench", "-n", testNQN, "-k", "1", "-c", "1", "--timeout", "2s", "--namespace-id", "2", "--rate_iops", "100"}, args...)...)
	t.Cleanup(stop)
	go func() {
		err := <-end
		ended <- outcome{out.String(), errOut.String(), err}
	}()
	for limit := time.Now().Add(20 * time.Second); ; {
		var list []administer.RatedController
		text := command(t, "controller", "list", "-o", "json", "--interval", "50ms").want(t, 0).out
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list, func(c administer.RatedController) bool { return slices.ContainsFunc(c.Queues, moved) }) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("bench does nothing: %s%s", out, errOut)
		}
	}
	return errOut, ended
}

// moved reports whether a queue transferred more data than its Connect command.
func moved(q control.Queue) bool { return q.ReadBytes+q.WrittenBytes > capsule.ConnectDataSize }

// TestBenchRestart checks that a measurement continues after its target was away, and verifies all that it has
// written.
func TestBenchRestart(t *testing.T) {
	beside(t)
	second := loopbackAddress()
	s := startConfigured(t, strings.Replace(testConfig, "subsystems:", "  - {id: 2, address: "+second+"}\nsubsystems:", 1))
	s.out.await(t, "nvme connect")
	errOut, ended := startBench(t, "-a", s.addr+","+second, "--rw", "randwrite", "--size", "4m", "--iodepth", "4", "--verify",
		"--time_based", "--runtime", "1", "--report", s.dir+"/r.html")
	s.end(t)
	errOut.await(t, "nvmeof: "+s.addr+":4420: lost: ")
	again := s.again(t)
	o := (<-ended).want(t, 0, "read back and compared: ", "\nPaths (numa):\n  "+s.addr+":4420: live, reconnected ", " s  "+second+":4420: lost: ")
	if strings.Contains(o.out, "compared: 0 blocks") {
		t.Error(o.out)
	}
	t.Run("one", func(t *testing.T) {
		errOut, ended := startBench(t, "-a", s.addr, "--iodepth", "4", "--runtime", "3", "--ramp_time", "0", "-o", "json")
		again.end(t)
		errOut.await(t, "lost: ")
		third := s.again(t)
		d := benchDocument(t, (<-ended).want(t, 0).out)
		p := d.Extra.Paths
		if p == nil || len(p.Paths) != 1 || p.Paths[0].Reconnects != 1 || p.Paths[0].Requests == 0 || p.Policy != "numa" {
			t.Fatalf("%+v", p)
		}
		if e := p.Events; len(e) != 2 || e[0].State != "lost" || e[0].Error == "" || e[1].State != "live" || e[1].AtMsec < e[0].AtMsec || e[0].AtMsec < 0 {
			t.Errorf("%+v", e)
		}
		_, ended = startBench(t, "-a", s.addr, "--iodepth", "4", "--runtime", "60", "-l", "1")
		third.end(t)
		(<-ended).want(t, exitConnection, "no path to namespace 2 of "+testNQN, "is dead: ")
	})
}

// TestBenchAllocations checks that the allocations of the load, the host and the target together do not grow with the
// number of requests, over one controller and over paths.
func TestBenchAllocations(t *testing.T) {
	s := startTarget(t, "--export", "mem:16MiB", "--allow-any-host")
	for name, more := range map[string][]string{"controller": nil, "paths": {"--ctrl-loss-tmo", "60"}} {
		count := func(size string) uint64 {
			t.Helper()
			args := append([]string{"-n", testNQN, "--rw", "randrw", "--iodepth", "8", "--io_size", size, "-o", "table"}, more...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			command(t, s.at("bench", args...)...).want(t, 0)
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		count("2m") // the one-time allocations
		const requests = 16 << 20 / 4096
		grown := int64(requests)
		for range 3 { // on a slow machine periodic tasks allocate as well
			if few, many := count("2m"), count("18m"); int64(many)-int64(few) < grown {
				grown = int64(many) - int64(few)
			}
			if grown <= requests/100 {
				break
			}
		}
		if grown > requests/100 {
			t.Errorf("%s: %d allocations for %d requests more", name, grown, requests)
		}
	}
}
