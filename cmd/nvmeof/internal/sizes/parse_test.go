package sizes

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]int64{
		"4096": 4096, "4k": 4096, "4K": 4096, "1GiB": 1 << 30, "512MiB": 512 << 20, "10GB": 10e9, "2T": 2 << 40, "7B": 7,
	} {
		if got, err := Parse(s); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "k", "1.5k", "99999999999G", "1GiBs", "0x10"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", s, got)
		}
	}
}
