package config

import (
	"strings"
	"testing"
	"time"
)

func TestParseCongestion(t *testing.T) {
	const all = "no-ecn=true,ignore=true,min-rate=500kbit,cnp-interval=20µs,gain=1/16,alpha-period=1ms,increase-period=2ms," +
		"increase-bytes=1MiB,fast-rounds=3,hyper-rounds=9,additive-step=1Gbit,hyper-step=20Mbit"
	c, err := ParseCongestion(all)
	if err != nil {
		t.Fatal(err)
	}
	want := Congestion{true, true, 500e3, Duration(20 * time.Microsecond), 16, Duration(time.Millisecond), Duration(2 * time.Millisecond), 1 << 20, 3, 9, 1e9, 20e6}
	if c != want {
		t.Errorf("%+v", c)
	}
	if got := c.String(); got != all {
		t.Errorf("as a flag again %q", got)
	}
	if c, err := ParseCongestion("no-ecn,cnp-interval=50us"); err != nil || c != (Congestion{NoECN: true, CNPInterval: Duration(50 * time.Microsecond)}) {
		t.Errorf("%+v, %v", c, err)
	}
	for text, says := range map[string]string{
		"no-enc":                          "unknown field no-enc; did you mean no-ecn?",
		"":                                "unknown field ",
		"no-ecn=maybe":                    "no-ecn: is maybe, want true or false",
		"min-rate=40":                     "min-rate: rate 40: write it as 500kbit, 40Mbit or 1Gbit",
		"min-rate=0Mbit":                  "min-rate: rate 0Mbit",
		"min-rate=9999999Gbit":            "min-rate: rate 9999999Gbit",
		"gain=256":                        "gain: part 256: write it as 1/256",
		"gain=1/0":                        "gain: part 1/0",
		"gain=1/99999999999":              "gain: part 1/99999999999",
		"cnp-interval=-1s":                "cnp-interval: duration -1s",
		"fast-rounds=0":                   "fast-rounds: 0 is too small; at least 1",
		"fast-rounds=x":                   "fast-rounds: x is not a whole number",
		"fast-rounds=60":                  "hyper-rounds: 50 is less than fast-rounds, which is 60; use at least 60",
		"fast-rounds=6,fast-rounds=7":     "fast-rounds: is given twice",
		"ignore,increase-bytes=-1":        "increase-bytes: size -1",
		"hyper-step=1Mbit,\x1b[31mred=\n": "unknown field ",
	} {
		if _, err := ParseCongestion(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		} else if strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %q", text, err)
		}
	}
}

// TestCongestionInDocument: a document has the same parameters, which survive a round trip, and a change of them
// needs a restart.
func TestCongestionInDocument(t *testing.T) {
	const text = "version: 1\ncongestion: {gain: 1/16, min-rate: 1Mbit, no-ecn: true}\nlisteners: [{id: 1, address: 192.0.2.1}]\n"
	doc, _, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.Congestion; got != (Congestion{NoECN: true, Gain: 16, MinRate: 1e6}) {
		t.Errorf("%+v", got)
	}
	for _, again := range [][]byte{doc.JSON(), doc.YAML()} {
		if back, _, err := Parse("f", again); err != nil || back.Congestion != doc.Congestion {
			t.Errorf("%v from\n%s", err, again)
		}
	}
	other := doc.Clone()
	other.Congestion = Congestion{CNPInterval: Duration(50 * time.Microsecond)} // the default
	changes := Diff(doc, other)
	if len(changes) != 1 || changes[0].Kind != KindTarget || len(changes[0].Fields) != 3 {
		t.Errorf("changes %v", changes)
	}
	other.TakeSettings(doc)
	if changes := Diff(doc, other); len(changes) != 0 {
		t.Errorf("changes %v", changes)
	}
	if _, _, err := Parse("f", []byte("version: 1\ncongestion: {hyper-rounds: 4}\n")); err == nil || !strings.Contains(err.Error(), "f:2:28: congestion.hyper-rounds: 4 is less than fast-rounds, which is 5") {
		t.Errorf("%v", err)
	}
}
