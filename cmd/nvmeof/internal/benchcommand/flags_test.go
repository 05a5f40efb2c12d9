package benchcommand

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// flagsAlone is a fabric that cannot connect.
type flagsAlone struct{ Fabric }

func (flagsAlone) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("nqn", "n", "", "")
	cmd.Flags().String("dhchap-secret", "", "")
	cmd.Flags().String("dhchap-ctrl-secret", "", "")
}

// TestJob checks the meaning of fio's options.
func TestJob(t *testing.T) {
	for line, want := range map[string]bench.Job{
		"":                                     {Runtime: defaultRuntime, Ramp: defaultRamp},
		"--runtime 10":                         {Runtime: 10 * time.Second, Ramp: defaultRamp},
		"--runtime=2m --ramp_time 1":           {Runtime: 2 * time.Minute, Ramp: time.Second},
		"--size 1g":                            {Size: 1 << 30, Limit: 1 << 30},
		"--size 1g --runtime 0":                {Size: 1 << 30, Limit: 1 << 30},
		"--size 1g --runtime 10 --time_based":  {Size: 1 << 30, Runtime: 10 * time.Second, Ramp: defaultRamp},
		"--size=1g --io_size 4g --runtime 1.5": {Size: 1 << 30, Limit: 4 << 30, Runtime: 1500 * time.Millisecond},
		"--offset 1m --seed=9 --time-based":    {Offset: 1 << 20, Seed: 9, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--ioengine libaio --direct=1":         {Runtime: defaultRuntime, Ramp: defaultRamp},
		"--rw readwrite --verify crc32c":       {Pattern: bench.ReadWrite, Verify: true, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--rate 1m":                            {Rate: [3]int64{1 << 20, 1 << 20, 1 << 20}, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--rate=1m,500k":                       {Rate: [3]int64{1 << 20, 500 << 10, 500 << 10}, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--rate=,500k,":                        {Rate: [3]int64{0, 500 << 10, 0}, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--rate_iops=100,0,1k --bs 512":        {BlockSize: 512, MaxBlock: 512, Rate: [3]int64{51200, 0, 512 << 10}, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--thinktime 500 --thinktime_blocks 8": {Think: 500 * time.Microsecond, ThinkEvery: 8, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--thinktime=2ms":                      {Think: 2 * time.Millisecond, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--bs 16k,8k":                          {BlockSize: 16384, MaxBlock: 16384, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--bs ,8k, --rw trim":                  {Pattern: bench.Trim, Runtime: defaultRuntime, Ramp: defaultRamp},
		"--bs ,8k, --rw randrw": {Pattern: bench.RandRW, Runtime: defaultRuntime, Ramp: defaultRamp,
			Blocks: [3]bench.Sizes{{Least: 4096, Most: 4096}, {Least: 8192, Most: 8192}, {Least: 4096, Most: 4096}}},
		"--blocksize_range 4k-8k,8k-16k --rw rw": {Pattern: bench.ReadWrite, MaxBlock: 8192, Runtime: defaultRuntime, Ramp: defaultRamp,
			Blocks: [3]bench.Sizes{{Least: 4096, Most: 8192}, {Least: 8192, Most: 16384}, {Least: 8192, Most: 16384}}},
		"--bssplit 16k/40:4k:8k,8k": {MaxBlock: 16384, Runtime: defaultRuntime, Ramp: defaultRamp, Blocks: [3]bench.Sizes{
			{Split: []bench.Share{{Size: 16384, Percent: 40}, {Size: 4096, Percent: 30}, {Size: 8192, Percent: 30}}},
			{Split: []bench.Share{{Size: 8192, Percent: 100}}}, {Split: []bench.Share{{Size: 8192, Percent: 100}}}}},
		"--rw randtrimwrite": {Pattern: bench.RandTrimWrite, Runtime: defaultRuntime, Ramp: defaultRamp},
	} {
		l := load{fabric: flagsAlone{}}
		cmd := &cobra.Command{Use: "bench", Args: l.args}
		l.fabric.AddFlags(cmd)
		l.addLoadFlags(cmd)
		var got bench.Job
		cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
			got, err = l.job(cmd)
			return err
		}
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.Execute(); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		want.Depth, want.ReadShare = 1, 50
		if want.BlockSize == 0 {
			want.BlockSize, want.MaxBlock = 4096, max(want.MaxBlock, 4096)
		}
		want.ThinkEvery = max(want.ThinkEvery, 1)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is\n%+v, want\n%+v", line, got, want)
		}
	}
}

// TestCommandLine checks that secrets do not appear in reports.
func TestCommandLine(t *testing.T) {
	l := load{fabric: flagsAlone{}}
	cmd := &cobra.Command{Use: "bench"}
	l.fabric.AddFlags(cmd)
	l.addLoadFlags(cmd)
	if err := cmd.ParseFlags(strings.Fields("-n x --dhchap-secret DHHC-1:00:secret --dhchap-ctrl-secret file:k --vs udp --vs local=mem:1M --time_based")); err != nil {
		t.Fatal(err)
	}
	got := commandLine(cmd)
	for _, want := range []string{"nvmeof bench ", "--nqn x", "--dhchap-secret ...", "--dhchap-ctrl-secret file:k", "--vs udp --vs local=mem:1M", "--time_based=true"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "DHHC") {
		t.Errorf("a secret is in %s", got)
	}
}
