package config

import (
	"strings"
	"testing"
)

// TestYAMLHasWhatJSONHas: both forms have the same fields, including those of embedded structures and zero ones.
func TestYAMLHasWhatJSONHas(t *testing.T) {
	type inner struct {
		ID   int  `json:"id"`
		Busy bool `json:"busy"`
	}
	type outer struct {
		inner
		Rate  float64  `json:"rate"`
		Note  string   `json:"note,omitempty"`
		Count int      `json:"count,omitzero"`
		None  *inner   `json:"none"`
		More  *inner   `json:"more,omitempty"`
		List  []string `json:"list,omitempty"`
	}
	got := string(YAML([]any{outer{inner: inner{ID: 3}}, &outer{Rate: 1.5, More: &inner{Busy: true}}}))
	want := strings.TrimPrefix(`
- id: 3
  busy: false
  rate: 0
- id: 0
  busy: false
  rate: 1.5
  more:
    id: 0
    busy: true
`, "\n")
	if got != want {
		t.Errorf("YAML is\n%swant\n%s", got, want)
	}
}
