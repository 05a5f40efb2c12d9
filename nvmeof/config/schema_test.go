package config

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestSchema: the published schema is that of the types.
func TestSchema(t *testing.T) {
	if *update {
		if err := os.WriteFile("schema.json", Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := Schema(); string(got) != string(read(t, "schema.json")) {
		t.Error("schema.json is not the schema of the types: go test ./nvmeof/config -update")
	}
}
