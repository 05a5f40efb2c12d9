package benchreport

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/bench"
)

func measure(t *testing.T, p bench.Pattern) *bench.Result {
	t.Helper()
	s, err := memory.New(memory.Config{Size: 4 << 20, BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := bench.Run(t.Context(), s, backendtest.Buffer(1<<20, 4096), bench.Job{Pattern: p, BlockSize: 4096, Depth: 4, Limit: 64 << 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wellFormed parses the page as XML, which is stricter than HTML, but for the tags
// that HTML does not close and what style and script hold.
func wellFormed(t *testing.T, page string) (tags map[string]int) {
	t.Helper()
	page = regexp.MustCompile(`(?s)<(style|script)[^>]*>.*?</(style|script)>`).ReplaceAllString(page, "")
	page = strings.TrimPrefix(page, "<!DOCTYPE html>")
	d := xml.NewDecoder(strings.NewReader(page))
	d.AutoClose = []string{"meta"}
	d.Strict = false
	tags = map[string]int{}
	depth := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			tags[e.Name.Local]++
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if depth != 0 {
		t.Errorf("%d tags are left open", depth)
	}
	return tags
}

func TestPage(t *testing.T) {
	a, b := measure(t, bench.RandRW), measure(t, bench.RandTrim)
	r := &Report{
		Title: `nvmeof bench: <randrw> & "more"`, Ended: time.Now(),
		Setting: []Row{{"command line", `nvmeof bench --nqn <script>alert(1)</script>`}, {"kernel", "Linux 6.12"}},
		Jobs:    []Job{{"ns1", a}, {"ns2", b}},
		Versus:  &Versus{Columns: []string{"", "IOPS"}, Rows: [][]string{{"fabric", "1000"}, {"raw UDP", "3000"}}, Note: "medians of 3 rounds"},
		JSON:    []byte(`{"jobs":[{"jobname":"\u003c/script\u003e"}]}`),
	}
	page := render(t, r)
	tags := wellFormed(t, page)
	if tags["svg"] != 4 || tags["polyline"] != 4*3 || tags["table"] != 3 {
		t.Errorf("tags: %v", tags)
	}
	for _, want := range []string{"&lt;randrw&gt; &amp;", "&lt;script&gt;alert(1)", "<td>ns1</td>", "<td>all</td>", ">read<", ">write<", ">trim<",
		bench.Latency(a.Sides[bench.ToRead].Lat.Percentile(99.99)), "99.9</text>", "raw UDP", "medians of 3 rounds", "Linux 6.12", "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if got := regexp.MustCompile(`(?i)https?:|//[a-z]|src=|href=|@import|url\(`).FindString(page); got != "" {
		t.Errorf("the page refers to something outside: %q", got)
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page has numbers that are none")
	}
	data := regexp.MustCompile(`(?s)<script type="application/json" id="fio">(.*?)</script>`).FindStringSubmatch(page)
	if len(data) != 2 || !json.Valid([]byte(data[1])) {
		t.Errorf("no JSON in the page: %q", data)
	}
	if name := os.Getenv("BENCH_REPORT"); name != "" { // to look at it
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageOfNothing: a job that did nothing has a page too.
func TestPageOfNothing(t *testing.T) {
	page := render(t, &Report{Title: "nothing", Jobs: []Job{{"ns1", &bench.Result{}}}, JSON: []byte("{}")})
	wellFormed(t, page)
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Errorf("the page has numbers that are none:\n%s", page)
	}
}

// TestCurve: percentiles are where the axis says.
func TestCurve(t *testing.T) {
	var h bench.Histogram
	for i := range 1000 {
		d := 10 * time.Microsecond
		if i >= 990 {
			d = time.Millisecond
		}
		h.Record(d)
	}
	xs, ys := distribution(&h, 3, 4, 6)
	last := len(xs) - 1
	if xs[0] != 0 || math.Abs(ys[0]) > 0.01 || math.Abs(xs[last]-1) > 0.01 || math.Abs(ys[last]-1) > 0.01 {
		t.Errorf("the curve goes from %v,%v to %v,%v", xs[0], ys[0], xs[last], ys[last])
	}
	for i := range xs {
		if (ys[i] > 0.5) != (xs[i] > 0.66) && math.Abs(xs[i]-2.0/3) > 0.01 {
			t.Errorf("at %v of three nines the curve is at %v", xs[i], ys[i])
		}
	}
	for e, want := range map[int]string{0: "1 ns", 4: "10 us", 6: "1 ms", 8: "100 ms", 10: "10 s", 12: "1000 s"} {
		if got := decadeName(e); got != want {
			t.Errorf("10^%d ns are %s, want %s", e, got, want)
		}
	}
	for nines, want := range []string{"0", "90", "99", "99.9", "99.99"} {
		if got := percentileName(nines); got != want {
			t.Errorf("%d nines are %s, want %s", nines, got, want)
		}
	}
}
