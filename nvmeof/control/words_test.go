package control

import (
	"maps"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestWords: the tables have exactly the words that a document can have.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		what     string
		here, in []string
	}{
		{"ANA states", keys(anaStates), config.Words[config.ANAState]()},
		{"versions", keys(versions), config.Words[config.NVMeVersion]()},
		{"accesses", keys(accesses), append(config.Words[config.Access](), "")}, // the empty word means write
	} {
		slices.Sort(c.in)
		if !slices.Equal(c.here, c.in) {
			t.Errorf("%s are %q, in documents %q", c.what, c.here, c.in)
		}
	}
}

func keys[K ~string, V any](words map[K]V) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(words)) {
		out = append(out, string(k))
	}
	return out
}
