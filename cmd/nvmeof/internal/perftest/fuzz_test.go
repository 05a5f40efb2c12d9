package perftest

import (
	"bytes"
	"testing"
)

// FuzzMessages checks that a message from another program is rejected, or is within bounds and encoded the same by us.
func FuzzMessages(f *testing.F) {
	f.Add(VersionMessage(), Destination{QPN: 5, RKey: 7, VAddr: 1 << 40}.Encode())
	f.Add([]byte("NaN"), bytes.Repeat([]byte{0xff}, destinationSize))
	f.Add(bytes.Join(Bandwidth{Size: 4096, Iterations: 1000, Peak: 1, Average: 2, Rate: 3}.Messages(), nil), []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		_ = CheckVersion(a)
		if d, err := ParseDestination(b); err == nil {
			if again, err := ParseDestination(d.Encode()); err != nil || d.QPN != 0 && again != d {
				t.Fatalf("%x is %+v, then %+v (%v)", b, d, again, err)
			}
		}
		if len(a) != 5*ReportSize {
			return
		}
		var messages [][]byte
		for i := 0; i < len(a); i += ReportSize {
			messages = append(messages, a[i:i+ReportSize])
		}
		w, err := ParseBandwidth(messages)
		if err != nil {
			return
		}
		if w.Size < 0 || w.Iterations < 0 || w.Peak < 0 || w.Average < 0 || w.Rate < 0 {
			t.Fatalf("%x is %+v", a, w)
		}
		if again, err := ParseBandwidth(w.Messages()); err != nil || again != w {
			t.Fatalf("%x is %+v, then %+v (%v)", a, w, again, err)
		}
	})
}
