package fio

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

func measure(t *testing.T, j bench.Job) *bench.Result {
	t.Helper()
	s, err := memory.New(memory.Config{Size: 4 << 20, BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j.BlockSize, j.Depth = 4096, 4
	r, err := bench.Run(t.Context(), s, backendtest.Buffer(1<<20, 4096), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func output(r *bench.Result) *Output {
	return &Output{Program: "test", Ended: time.Now(), Global: []Option{{"ioengine", "nvmeof"}, {"iodepth", "4"}},
		Groups: []Group{{Jobs: []Job{{Name: "ns1", Options: []Option{{"rw", r.Pattern.String()}}, Clones: 1, Result: r}}}}}
}

func mixed(t *testing.T) *bench.Result {
	return measure(t, bench.Job{Pattern: bench.RandRW, Limit: 32 << 20, FlushEvery: 32})
}

// keys collects the paths in a document with the types of their values. In some objects the keys are data.
func keys(doc any, path string, into map[string]string) {
	free := []string{"bins", "global options", "job options"}
	switch v := doc.(type) {
	case map[string]any:
		into[path] = "object"
		for k, x := range v {
			if !slices.Contains(free, path[strings.LastIndex(path, "/")+1:]) {
				keys(x, path+"/"+k, into)
			}
		}
	case []any:
		into[path] = "array"
		for _, x := range v {
			keys(x, path, into)
		}
	case string:
		into[path] = "string"
	default:
		into[path] = "number"
	}
}

func parsed(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	all := map[string]string{}
	keys(doc, "", all)
	return all
}

// TestKeys compares with the output of fio 3.33 itself, each time with --ioengine=null: --bs=4k --size=64m --runtime=2
// --time_based --iodepth=4 --rw=randrw --fsync=32 as json+, of whose bins few are kept; --rw=randread;
// --rw=randtrimwrite --iodepth=4 --rate_iops=2000 --percentile_list=50:99.9:99.999 --lat_percentiles=1
// --slat_percentiles=1; and --rw=randrw --bs=4k,8k --fsync=16 --clat_percentiles=0 as json+.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		file   string
		plus   bool
		how    Percentiles
		result *bench.Result
	}{
		{"testdata/mixed.json", true, Percentiles{}, mixed(t)},
		{"testdata/read.json", false, Percentiles{}, measure(t, bench.Job{Pattern: bench.RandRead, Limit: 4 << 20})},
		{"testdata/trimwrite.json", false, Percentiles{List: []float64{50, 99.9, 99.999}, Submission: true, Whole: true},
			measure(t, bench.Job{Pattern: bench.RandTrimWrite, Limit: 4 << 20})},
		{"testdata/sizes.json", true, Percentiles{NoCompletion: true},
			measure(t, bench.Job{Pattern: bench.RandRW, Limit: 4 << 20, FlushEvery: 16, Blocks: [bench.Directions]bench.Sizes{{}, {Least: 8192}}})},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		sameKeys(t, c.file, text, c.result, c.how, c.plus)
	}
}

// sameKeys compares the keys of our document with those of fio's.
func sameKeys(t *testing.T, name string, text []byte, r *bench.Result, how Percentiles, plus bool) {
	t.Helper()
	var ours bytes.Buffer
	o := output(r)
	o.Extra, o.Percentiles = "what fio has no place for", how
	if err := o.JSON(&ours, plus); err != nil {
		t.Fatal(err)
	}
	want, got := parsed(t, text), parsed(t, ours.Bytes())
	if got["/nvmeof"] == "" {
		t.Error("no key nvmeof")
	}
	delete(got, "/nvmeof")
	for k, kind := range want {
		if got[k] != kind {
			t.Errorf("%s: %q is %q, in fio %q", name, k, got[k], kind)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("%s: not in fio: %v", name, slices.Sorted(maps.Keys(got)))
	}
}

// TestPercentileTable checks that percentiles are printed as fio does, with as many digits as the longest needs.
func TestPercentileTable(t *testing.T) {
	r := mixed(t)
	o := output(r)
	for want, list := range map[string][]float64{
		"     |   1th=[": {1, 50, 100}, " 50.0th=[": {50, 99.5}, " 10.125th=[": {10.125, 50}, "50.000th=[": {10.125, 50}, "  1.00th=[": nil,
	} {
		var b bytes.Buffer
		o.Percentiles = Percentiles{List: list, Submission: true, Whole: true}
		if err := o.Normal(&b); err != nil || !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "    slat percentiles (") ||
			!strings.Contains(b.String(), "    lat percentiles (") {
			t.Errorf("%v: %v, no %q in\n%s", list, err, want, &b)
		}
	}
	var b bytes.Buffer
	o.Percentiles = Percentiles{NoCompletion: true}
	if err := o.Normal(&b); err != nil || strings.Contains(b.String(), "percentiles") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestFigures checks that the document contains the measured values.
func TestFigures(t *testing.T) {
	r := mixed(t)
	var b bytes.Buffer
	if err := output(r).JSON(&b, true); err != nil {
		t.Fatal(err)
	}
	type latencies struct {
		Min, Max, N uint64
		Percentile  map[string]uint64
		Bins        map[string]uint64
	}
	var doc struct {
		Jobs []struct {
			Read struct {
				Bytes uint64    `json:"io_bytes"`
				Total uint64    `json:"total_ios"`
				Clat  latencies `json:"clat_ns"`
			}
			Sync struct {
				Lat latencies `json:"lat_ns"`
			}
			Level map[string]float64 `json:"iodepth_level"`
			NS    map[string]float64 `json:"latency_ns"`
			US    map[string]float64 `json:"latency_us"`
			MS    map[string]float64 `json:"latency_ms"`
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	j, side := doc.Jobs[0], &r.Sides[bench.ToRead]
	if j.Read.Total != side.Ops() || j.Read.Bytes != side.Bytes || j.Read.Clat.N != side.Ops() || j.Read.Clat.Max != side.Clat.Max ||
		j.Read.Clat.Percentile["99.900000"] != uint64(side.Clat.Percentile(99.9)) || j.Sync.Lat.N != r.Flushes.Count {
		t.Errorf("%+v", j)
	}
	if n := sum(j.Read.Clat.Bins); n != side.Ops() {
		t.Errorf("the bins have %d requests of %d", n, side.Ops())
	}
	if p := sum(j.NS) + sum(j.US) + sum(j.MS); p < 99.9 || p > 100.1 {
		t.Errorf("latencies are %v %%", p)
	}
	if p := sum(j.Level); p < 99.9 || p > 100.1 {
		t.Errorf("depths are %v %%", p)
	}
}

func sum[N uint64 | float64](m map[string]N) (n N) {
	for _, x := range m {
		n += x
	}
	return n
}

// TestBins checks the keys of fio's bins. The examples are from its own output.
func TestBins(t *testing.T) {
	for v, want := range map[uint64]uint64{0: 0, 127: 127, 128: 129, 130: 131, 200: 201, 262: 262, 263: 262, 57304427: 57409536, 100045351: 100139008, 1 << 40: 17112760320} {
		if got := binValue(binOf(v)); got != want {
			t.Errorf("%d ns is in bin %d, want %d", v, got, want)
		}
	}
	text, err := os.ReadFile("testdata/mixed.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Jobs []struct {
			Read struct {
				Clat struct{ Bins map[string]int } `json:"clat_ns"`
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for key := range doc.Jobs[0].Read.Clat.Bins {
		v, err := strconv.ParseUint(key, 10, 64)
		if err != nil || binValue(binOf(v)) != v {
			t.Errorf("%s of fio's bins is in our %d", key, binValue(binOf(v)))
		}
	}
}

func TestText(t *testing.T) {
	r := mixed(t)
	o := output(r)
	var normal, table, hdr bytes.Buffer
	if err := o.Normal(&normal); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ns1: (groupid=0, jobs=1): err= 0: rw=randrw, bs=4096B, iodepth=4: ", "\n  read: IOPS=", "\n  write: IOPS=",
		"    clat percentiles (", "99.99th=[", "\n  cpu          : usr=", "\n  IO depths    : 1=", "\n  flushes: total=", "\nRun status group 0 (all jobs):\n",
		"    READ: bw=", "   WRITE: bw="} {
		if !strings.Contains(normal.String(), want) {
			t.Errorf("no %q in\n%s", want, &normal)
		}
	}
	if err := o.Table(&table); err != nil || !strings.Contains(table.String(), "randrw        4 KiB      4 ") {
		t.Errorf("%v\n%s", err, &table)
	}
	if err := HDR(&hdr, r.Latencies()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hdr.String(), " Value\tPercentile\tTotalCount\t1/(1-Percentile)\n\n") || !strings.Contains(hdr.String(), "#[Max     =") {
		t.Errorf("%s", &hdr)
	}
}

func TestUnits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 5276: "5276", 63210: "63.2k", 1.23e6: "1230k", 2.5e7: "25.0M"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	if got := speed(21.6e6); got != "20.6MiB/s (21.6MB/s)" {
		t.Error(got)
	}
}
