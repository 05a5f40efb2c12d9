package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchcommand"
)

// bench checks the options on a target with two namespaces.
func (s *testTarget) bench(t *testing.T) {
	run := func(t *testing.T, args ...string) outcome {
		t.Helper()
		return command(t, s.at("bench", append([]string{"-n", testNQN, "--io-size", "1m"}, args...)...)...)
	}
	run(t, "--iodepth", "8").want(t, 0, "ns1: (groupid=0, jobs=1)", "  read: IOPS=", "99.99th=[")
	run(t, "-o", "table").want(t, 0, "randread      4 KiB      1")
	run(t, "--rw", "write", "--bs", "128k", "--size", "4MiB", "--io_size", "4MiB", "--verify").want(t, 0, "read back and compared: 32 blocks of 128 KiB")
	run(t, "--rw", "read", "--bs", "128k", "--size", "4MiB", "--io_size", "4MiB", "--verify", "crc32c").want(t, 0, "read back and compared: 32 ")
	run(t, "--rw", "read", "--bs", "4k", "--size", "4MiB", "--verify=crc32c").want(t, exitWrongData, "in blocks of 131072 bytes, not 4096")
	run(t, "--rw", "randtrim", "--size", "1MiB", "--offset", "4MiB").want(t, 0, "  trim: IOPS=")
	run(t, "--rw", "randrw", "--rwmixread", "0", "--fsync", "4").want(t, 0, "  write: IOPS=", "flushes: total=")
	run(t, "--rw", "randrw", "--bsrange", "4k-16k", "--rate_iops", "1000", "--seed", "7").want(t, 0, "bs=4096B-16384B")
	run(t, "--rw", "randtrimwrite", "--verify", "--iodepth", "4").want(t, 0, "  trim: IOPS=", "  write: IOPS=", "read back and compared: 256 blocks of 4 KiB")
	run(t, "--rw", "trimwrite", "--bs", "4k,8k,16k").want(t, exitUsage, "need the same block sizes")
	run(t, "--rw", "rw", "--bs", "4k,16k", "--rate", "8m,", "--thinktime", "10", "--thinktime_blocks", "50", "--percentile_list", "50:99.5", "--lat_percentiles").
		want(t, 0, "bs=(R) 4096B-4096B, (W) 16384B-16384B", "    lat percentiles (", " 50.0th=[", " 99.5th=[")
	run(t, "--bssplit", "4k/10:16k/90", "-o", "table").want(t, 0, "4 KiB-16 KiB")
	run(t, "--iopolicy", "round-robin", "-o", "table").want(t, 0, "randread      4 KiB      1", "Paths (round-robin):\n", ":4420: live, reconnected 0 times, ")
	run(t, "--namespace-id", "1,3").want(t, exitUsage, "no such namespace")
	run(t, "--bs", "512", "--namespace-id", "2").want(t, exitUsage, "block size 512 is not a multiple of the store's 4096")
	t.Run("several", func(t *testing.T) {
		o := run(t, "--namespace-id", "all", "--numjobs", "2", "-i", "2", "--rw", "randwrite", "-o", "json").want(t, 0)
		if d := benchDocument(t, o.out); len(d.Jobs) != 4 || d.Jobs[0].Name != "ns1" || d.Jobs[3].Name != "ns2" || d.Jobs[3].Write.Total == 0 {
			t.Errorf("%+v", d)
		}
		o = run(t, "--namespace-id", "1,2", "--numjobs", "2", "--group_reporting", "--name", "all", "-o", "json+").want(t, 0, `"bins"`)
		if d := benchDocument(t, o.out); len(d.Jobs) != 1 || d.Jobs[0].Name != "all" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("vs", func(t *testing.T) {
		o := run(t, "--vs", "udp", "--vs", "local=mem:8MiB", "--vs-rounds", "2", "--time-based", "--runtime", "20ms", "--ramp-time", "5ms", "--dhchap-secret", "", "-o", "json").want(t, 0)
		d := benchDocument(t, o.out)
		if v := d.Extra.Versus; len(v) != 2 || v[0].P50Ratio <= 0 || v[1].IOPSRatio <= 0 || v[1].Rounds != 2 {
			t.Errorf("%+v", d.Extra)
		}
		run(t, "--vs", "udp", "--iodepth", "4", "--vs_rounds", "1", "--time_based", "--runtime", "20ms", "--ramp_time", "5ms").want(t, 0, "through the fabric", "raw UDP, one flow of 4112 B with GSO", "Medians of 1 rounds")
	})
	t.Run("interrupted", func(t *testing.T) {
		for after := 200 * time.Millisecond; ; after *= 4 { // on a busy machine it takes a while until there are results
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			o := commandIn(ctx, t, nil, s.at("bench", "-n", testNQN, "--runtime", "60", "--ramp_time", "0", "--numjobs", "2", "--rate_iops", "500")...)
			if strings.Contains(o.out, "  read: IOPS=") || after > 5*time.Second {
				o.want(t, exitInterrupted, "  read: IOPS=")
				return
			}
		}
	})
	t.Run("files", func(t *testing.T) { s.benchFiles(t) })
}

type benchJSON struct {
	Jobs []struct {
		Name        string `json:"jobname"`
		Options     map[string]string
		Read, Write struct {
			Total uint64 `json:"total_ios"`
		}
	}
	Extra benchcommand.Extra `json:"nvmeof"`
}

func benchDocument(t *testing.T, text string) (d benchJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return d
}

// benchFiles checks that all requested files are written, and none after an error.
func (s *testTarget) benchFiles(t *testing.T) {
	dir := t.TempDir()
	p := func(name string) string { return filepath.Join(dir, name) }
	args := s.at("bench", "-n", testNQN, "--rw", "randrw", "--numjobs", "2", "--rate_iops", "500", "--ramp_time", "0", "--runtime", "0.4", "--output", p("out"), "--report", p("r.html"),
		"--write_bw_log", p("x"), "--write_lat_log", p("x"), "--write_iops_log", p("y"), "--log_avg_msec", "50", "--write_hist", p("h"))
	if o := command(t, args...).want(t, 0); o.out != "" {
		t.Errorf("standard output has\n%s", o.out)
	}
	for name, want := range map[string]string{
		"out": "ns1: (groupid=0", "r.html": "<polyline", "h_read.hgrm": "1/(1-Percentile)", "h_write.hgrm": "#[Mean",
		"x_bw.1.log": ", 1, 0\n", "x_slat.2.log": ", 0, 0\n", "x_clat.1.log": ", 0, 0\n", "x_lat.2.log": ", 1, 0\n", "y_iops.2.log": ", 1, 0\n",
	} {
		text, err := os.ReadFile(p(name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %q in %.300q", name, err, want, text)
		}
		if strings.HasSuffix(name, ".log") && strings.Count(string(text), "\n") < 4 {
			t.Errorf("%s: lines of 50 ms over 400 ms are\n%s", name, text)
		}
	}
	none := p("none")
	command(t, s.at("bench", "-n", testNQN, "--namespace-id", "9", "--output", none)...).want(t, exitUsage)
	if _, err := os.Stat(none); err == nil {
		t.Error("a measurement that failed left a file")
	}
	command(t, s.at("bench", "-n", testNQN, "--report", p("missing/r.html"))...).want(t, exitFailed, "missing/r.html")
}

// TestBenchUsage checks that mistakes are reported before anything is connected.
func TestBenchUsage(t *testing.T) {
	for line, text := range map[string]string{
		"--rw wr":                  "rw (or readwrite)",
		"--bs 4k,8k,16k,32k":       "at most one value each for reads, writes and trims",
		"--bs 4k,x":                "--bs: size",
		"--bs 32M":                 "at most 16 MiB",
		"--bsrange 4k":             "as 4k-64k",
		"--bsrange 8k-4k":          "want the smallest size first",
		"--bsrange 4k-8k,8k-32M":   "at most 16 MiB",
		"--bssplit 4k/60:8k/50":    "add up to 110 percent",
		"--bssplit 4k/60":          "add up to 60 percent",
		"--bssplit 4k/x:8k":        "as 4k/60",
		"--rate 1m --rate_iops 5":  "exclude each other",
		"--rate 1x":                "--rate: size",
		"--thinktime x":            "thinktime",
		"--thinktime_blocks 0":     "want 1 to",
		"--percentile_list 50:101": "as 50:99:99.9",
		"--percentile_list NaN":    "as 50:99:99.9",
		"--percentile_list 1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21": "21 percentiles, at most 20",
		"--iopolicy fastest":                   "numa, round-robin, queue-depth or latency",
		"--reconnect-delay 0":                  "1 to",
		"--fast_io_fail_tmo -2":                "-1 to",
		"--ctrl-loss-tmo 5 --tls":              "no TLS over RDMA",
		"-a 127.0.0.1,a..b":                    "a..b", // a name that is never resolved
		"--vs udp -a 127.0.0.1,127.0.0.2":      "compares a single address",
		"--vs udp --bssplit 4k:8k":             "requests of one size",
		"--iodepth 0":                          "--iodepth 0: want 1 to 1024",
		"--numjobs 0":                          "--numjobs 0: want 1 to",
		"--rwmixread 101":                      "0 to 100",
		"--runtime x":                          "runtime",
		"--runtime -5":                         "runtime",
		"--runtime 0":                          "--runtime 0: the job would never end",
		"--runtime 0 --size 1m --time_based":   "--runtime 0: the job would never end",
		"--size 0":                             `--size: size 0`,
		"--fsync 1":                            "writes nothing that could be flushed",
		"--verify md5":                         "only crc32c",
		"--verify crc32":                       "did you mean crc32c?",
		"--verify crc32c x":                    `unknown command "x"`,
		"--verify crc32c --rw trim":            "nothing to verify",
		"--rate-iops 1000,x":                   "--rate_iops: size",
		"--output-format jsn":                  "did you mean json",
		"--vs tcp":                             "want udp",
		"--vs local":                           "local=mem:1GiB",
		"--vs local=mem:x":                     "--vs local",
		"--vs udp --rw randrw":                 "compares reads or writes",
		"--vs udp -a 192.0.2.99":               "another machine",
		"--vs udp --namespace-id 1,2":          "compares a single namespace",
		"--vs udp --bsrange 4k-8k --numjobs 2": "requests of one size",
		"--runtim 5":                           "did you mean runtime?",
	} {
		args := append([]string{"bench", "-a", "127.0.0.1", "-n", "x"}, strings.Fields(line)...)
		command(t, args...).want(t, exitUsage, text)
	}
}

// TestBenchLosesTarget checks that a target that dies during bench is reported as a lost connection.
func TestBenchLosesTarget(t *testing.T) {
	beside(t)
	addr := loopbackAddress()
	target := startSeparate(t, "target", "--listen", addr, "--nqn", testNQN, "--shards", "1", "--export", "mem:16MiB", "--allow-any-host")
	target.out.await(t, "nvme connect")
	bench := startSeparate(t, "bench", "-t", "rdma", "-a", addr, "-n", testNQN, "-k", "1", "--rw", "randrw", "--iodepth", "4", "--rate_iops", "400", "--runtime", "60")
	time.Sleep(time.Second / 2) // if it has not connected by then, the exit code is the same
	target.kill(t)
	err := <-bench.ended
	bench.ended <- err
	(outcome{bench.out.String(), bench.errOut.String(), err}).want(t, exitConnection, "nvmeof: ")
}
