package nvmeof

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"output-format", "host-traddr", "traddr"}
	for s, want := range map[string]string{"tradr": "traddr", "host_traddr": "host-traddr", "xyz": "", "outp": "output-format", "ou": "", "outputformat": "output-format"} {
		if got := Nearest(s, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", s, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("distance %d, want 3", d)
	}
}
