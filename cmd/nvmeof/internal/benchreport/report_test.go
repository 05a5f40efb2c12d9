package benchreport

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/internal/bench"
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

// wellFormed parses the page as XML, which is stricter than HTML, except for tags that HTML does not close and the
// content of style and script.
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
	if name := os.Getenv("BENCH_REPORT"); name != "" { // for a visual check
		if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// stalled returns a job that did nothing for half of its time, with the corresponding windows.
func stalled() *bench.Result {
	r := &bench.Result{Job: bench.Job{Pattern: bench.RandWrite}, Elapsed: 2 * time.Second, Ops: 1000}
	side := &r.Sides[bench.ToWrite]
	side.Slat, side.Clat, side.Lat = new(bench.Histogram), new(bench.Histogram), new(bench.Histogram)
	for i := range 1000 {
		side.Lat.Record(time.Duration(i+1) * time.Duration(i+1) * time.Microsecond)
		side.Bytes += 4096
		if at := time.Duration(i+1) * time.Millisecond; i%10 == 9 {
			s := bench.Sample{At: at}
			s.Ops[bench.ToWrite], s.Bytes[bench.ToWrite], s.Clat[bench.ToWrite] = uint64(i+1), uint64(i+1)*4096, uint64(i)*1e6
			r.Samples = append(r.Samples, s)
		}
	}
	last := r.Samples[len(r.Samples)-1]
	last.At = 2 * time.Second
	r.Samples = append(r.Samples, last)
	return r
}

// TestPlots checks every plot: everything is inside the picture, curves go to the right, those of percentiles upwards,
// events are at the right place, and there is a title.
func TestPlots(t *testing.T) {
	all := []*Report{
		{Jobs: []Job{{"a", measure(t, bench.RandRW)}, {"b", measure(t, bench.TrimWrite)}}},
		{Jobs: []Job{{"a", stalled()}}, Paths: [][]string{{"192.0.2.1:4420", "live", "1", "1000", "4"}}, Events: []Event{
			{-time.Second, "before"}, {900 * time.Millisecond, `lost: <"x">`}, {905 * time.Millisecond, "other lost"}, {1500 * time.Millisecond, "live"}, {time.Hour, "after"},
		}},
		{Jobs: []Job{{"a", &bench.Result{}}}},
	}
	for i, r := range all {
		r.Title, r.JSON = "plots", []byte("{}")
		page := render(t, r)
		wellFormed(t, page)
		pictures := regexp.MustCompile(`(?s)<svg viewBox="0 0 900 320".*?</svg>`).FindAllString(page, -1)
		if len(pictures) != 4 {
			t.Fatalf("report %d: %d pictures", i, len(pictures))
		}
		for k, svg := range pictures {
			if !strings.Contains(svg, `role="img" aria-label="`) || !regexp.MustCompile(`^<svg [^>]*><title>[^<]{20,}</title>`).MatchString(svg) {
				t.Errorf("report %d, picture %d has no title: %.200s", i, k, svg)
			}
			within(t, svg)
			curves(t, svg, k == 0)
		}
		if marks := strings.Count(pictures[1], `<g class="event"><title>`); i == 1 != (marks == 3) {
			t.Errorf("report %d: %d marks", i, marks)
		}
	}
	page := render(t, all[1])
	for _, want := range []string{`>1-2</text>`, "lost: &lt;", "<td>192.0.2.1:4420</td>", "<td>0.900</td>", `<td class="text">live</td>`} {
		if !strings.Contains(page, strings.Replace(want, "1-2", "2-3", 1)) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// within checks that all coordinates are inside the picture.
func within(t *testing.T, svg string) {
	t.Helper()
	for _, m := range regexp.MustCompile(` ([xy])[12]?="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		inside(t, m[1], m[2])
	}
	for _, m := range regexp.MustCompile(`([^ ",]+),([^ ",]+)`).FindAllStringSubmatch(strings.Join(regexp.MustCompile(`points="[^"]*"`).FindAllString(svg, -1), " "), -1) {
		inside(t, "x", strings.TrimPrefix(m[1], "points="))
		inside(t, "y", m[2])
	}
}

func inside(t *testing.T, axis, text string) {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if most := map[string]float64{"x": width, "y": height}[axis]; err != nil || !(v >= 0 && v <= most) {
		t.Errorf("%s is %q, of at most %v", axis, text, most)
	}
}

// curves checks that curves go to the right, and upwards if they are percentiles.
func curves(t *testing.T, svg string, percentiles bool) {
	t.Helper()
	for _, m := range regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		lastX, lastY := 0.0, float64(height)
		for _, point := range strings.Fields(m[1]) {
			x, y, _ := strings.Cut(point, ",")
			px, _ := strconv.ParseFloat(x, 64)
			py, _ := strconv.ParseFloat(y, 64)
			if px < lastX || percentiles && py > lastY {
				t.Fatalf("a curve goes from %v,%v back to %v,%v", lastX, lastY, px, py)
			}
			lastX, lastY = px, py
		}
	}
}

// TestColours checks that each colour exists for dark screens too, and differs from the background.
func TestColours(t *testing.T) {
	roots := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(source, -1)
	if len(roots) != 2 {
		t.Fatalf("%d sets of colours", len(roots))
	}
	var sets [2]map[string]float64 // luminance
	for i, r := range roots {
		sets[i] = map[string]float64{}
		for _, m := range regexp.MustCompile(`(--[a-z]+): #([0-9a-f]{6})`).FindAllStringSubmatch(r[1], -1) {
			sets[i][m[1]] = luminance(t, m[2])
		}
	}
	for name := range sets[0] {
		for i, set := range sets {
			l, ok := set[name]
			back := set["--back"]
			contrast := (max(l, back) + 0.05) / (min(l, back) + 0.05)
			if least := 4.5; !ok || contrast < least && name != "--back" && name != "--line" {
				t.Errorf("set %d: the contrast of %s is %.1f, want %v", i, name, contrast, least)
			}
		}
	}
	for _, m := range regexp.MustCompile(`var\((--[a-z]+)\)`).FindAllStringSubmatch(source, -1) {
		if _, ok := sets[0][m[1]]; !ok {
			t.Errorf("%s is used and not set", m[1])
		}
	}
}

// luminance returns the relative luminance as defined by WCAG 2.2 for contrast ratios.
func luminance(t *testing.T, hex string) (l float64) {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 24+1)
	if err != nil {
		t.Fatal(err)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

// TestPageOfNothing checks the page of a job that did nothing.
func TestPageOfNothing(t *testing.T) {
	page := render(t, &Report{Title: "nothing", Jobs: []Job{{"ns1", &bench.Result{}}}, JSON: []byte("{}")})
	wellFormed(t, page)
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Errorf("the page has numbers that are none:\n%s", page)
	}
}

// TestCurve checks that percentiles are drawn where the axis says.
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
