package golden

import "testing"

func TestLoadReadsEveryCapture(t *testing.T) {
	names := Names("")
	if len(names) != 17 {
		t.Fatalf("%d captures, want 17", len(names))
	}
	for _, name := range names {
		packets, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(packets) < 10 {
			t.Errorf("%s: only %d RoCEv2 packets", name, len(packets))
		}
	}
}
