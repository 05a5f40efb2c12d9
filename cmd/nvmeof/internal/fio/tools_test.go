package fio

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

var long = flag.Bool("long", false, "fio's scripts for logs, too, which take long")

// needTool skips a test if a program of fio's, or one that it needs, is missing.
func needTool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: apt-get install fio python3 python3-six gnuplot-nox", name)
		}
	}
}

func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	// Use the system's interpreter, for which fio's package installs its dependencies.
	c.Env = append(os.Environ(), "PATH=/usr/bin:/bin")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestJSONPlusTool checks that fio's own script converts json+ to tables with the values of the document.
func TestJSONPlusTool(t *testing.T) {
	needTool(t, "fio_jsonplus_clat2csv", "python3")
	r := mixed(t)
	o := output(r)
	o.Groups = append(o.Groups, output(measure(t, bench.Job{Pattern: bench.Trim, Limit: 4 << 20})).Groups...)
	var b bytes.Buffer
	if err := o.JSON(&b, true); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "out.json"), b.Bytes())
	tool(t, dir, "fio_jsonplus_clat2csv", "out.json", "out.csv")
	if out := tool(t, dir, "fio_jsonplus_clat2csv", "out.json", "out.csv", "--validate"); !strings.Contains(out, "out_job1.csv validated") {
		t.Error(out)
	}
	table, err := os.ReadFile(filepath.Join(dir, "out_job0.csv"))
	if err != nil || bytes.Count(table, []byte("\n")) < 10 {
		t.Errorf("%v:\n%s", err, table)
	}
}

// TestKeysOfInstalled compares with the installed fio, if it is of the version whose format is printed.
func TestKeysOfInstalled(t *testing.T) {
	needTool(t, "fio")
	dir := t.TempDir()
	if v := strings.TrimSpace(tool(t, dir, "fio", "--version")); v != format {
		t.Skipf("%s is installed, not %s", v, format)
	}
	for _, c := range []struct {
		args []string
		how  Percentiles
		job  bench.Job
	}{
		{[]string{"--rw=trim"}, Percentiles{}, bench.Job{Pattern: bench.Trim}},
		{[]string{"--rw=trimwrite", "--thinktime=1", "--lat_percentiles=1", "--clat_percentiles=0"}, Percentiles{Whole: true, NoCompletion: true},
			bench.Job{Pattern: bench.TrimWrite, Think: time.Microsecond}},
		{[]string{"--rw=rw", "--bssplit=4k/50:8k/50", "--rate=100m,50m", "--percentile_list=50:99.5"}, Percentiles{List: []float64{50, 99.5}},
			bench.Job{Pattern: bench.ReadWrite, Rate: [bench.Directions]int64{100 << 20, 50 << 20},
				Blocks: [bench.Directions]bench.Sizes{{Split: []bench.Share{{Size: 4096, Percent: 50}, {Size: 8192, Percent: 50}}}}}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			t.Parallel() // fio sleeps
			c.job.Limit = 1 << 20
			args := append([]string{"--ioengine=null", "--name=x", "--size=1m", "--iodepth=4", "--output-format=json+"}, c.args...)
			text := tool(t, dir, "fio", args...)
			sameKeys(t, strings.Join(c.args, " "), []byte(text), measure(t, c.job), c.how, true)
		})
	}
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

var logKinds = []LogKind{LogBandwidth, LogIOPS, LogSubmission, LogCompletion, LogLatency}

// logs writes all logs of two jobs, and returns their directory.
func logs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for n := 1; n <= 2; n++ {
		r := measure(t, bench.Job{Pattern: bench.RandRead, Runtime: 600 * time.Millisecond})
		for _, kind := range logKinds {
			var b bytes.Buffer
			if err := Log(&b, r, kind, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, LogName("t", kind, n)), b.Bytes())
		}
	}
	return dir
}

// TestLogTools checks that fio's scripts for logs, if installed, can read ours.
func TestLogTools(t *testing.T) {
	if !*long {
		t.Skip("it takes a second of processor time: -long")
	}
	needTool(t, "fio2gnuplot", "python3")
	dir := logs(t)
	if out := tool(t, dir, "fio2gnuplot", "-b", "-v"); !strings.Contains(out, "t_bw.1.log") {
		t.Error(out)
	}
	t.Run("fiologparser", func(t *testing.T) {
		script := fiologparser(t, dir)
		for _, kind := range logKinds {
			out := tool(t, dir, "python3", script, "-i", "250", "-s", LogName("t", kind, 1), LogName("t", kind, 2))
			if !strings.HasPrefix(out, "250, ") || strings.HasPrefix(out, "250, 0.000") {
				t.Errorf("%s: %s", kind, out)
			}
		}
	})
	t.Run("fio_generate_plots", func(t *testing.T) {
		needTool(t, "fio_generate_plots", "gnuplot")
		tool(t, dir, "fio_generate_plots", "ours")
		for _, kind := range logKinds {
			if plot, err := os.ReadFile(filepath.Join(dir, "ours-"+string(kind)+".svg")); err != nil || !bytes.Contains(plot, []byte("<path")) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}

// fiologparser unpacks the script that Debian's package installs as documentation.
func fiologparser(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Open("/usr/share/doc/fio/fiologparser.py.gz")
	if err != nil {
		t.Skipf("fiologparser is not installed: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "fiologparser.py")
	write(t, name, text)
	return name
}
