package console

import (
	"strings"
	"testing"
	"time"
)

// TestCertificateOutdated checks that the log reports once that clients reject the certificate because of its dates,
// at the start and when it expires. One that is not valid yet does not replace a valid one.
func TestCertificateOutdated(t *testing.T) {
	r := newRig(t)
	said := func(step, want string) {
		t.Helper()
		lines := r.logs.TakeAll()
		switch {
		case want == "" && len(lines) == 0:
		case len(lines) != 1 || !strings.Contains(lines[0].Message, want):
			t.Errorf("%s: it is logged %v, want %q", step, lines, want)
		}
	}
	const refused, kept, again = "refuse the certificate", "the previous one stays in use", "is usable again"
	now, hour := time.Now(), time.Hour
	c := &certificate{files: certifyFor(t, r.dir, now.Add(-2*hour), now.Add(-hour), "a.example")}
	step := func(name string, from, to time.Time, want string) {
		t.Helper()
		certifyFor(t, r.dir, from, to, name)
		pair, err := c.renew()
		if err != nil {
			t.Fatal(err)
		}
		said(name, want)
		if used := pair.Leaf.DNSNames[0] == name; used == (want == kept) {
			t.Errorf("%s is used: %v", name, used)
		}
	}
	if _, err := c.renew(); err != nil {
		t.Fatal(err)
	}
	c.begin(r.cfg.Log)
	said("start", refused)
	step("b.example", now.Add(-2*hour), now.Add(-hour), "")
	step("c.example", now.Add(-hour), now.Add(hour), again)
	step("d.example", now.Add(hour), now.Add(2*hour), kept)
	step("e.example", now.Add(-hour), now.Add(hour), again)
	c.good.Leaf.NotAfter = now.Add(-time.Minute) // it has expired meanwhile
	step("f.example", now.Add(hour), now.Add(2*hour), refused)
	step("g.example", now.Add(-hour), now.Add(hour), again)
}
