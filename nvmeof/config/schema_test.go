package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
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

// TestStatesAreDescribed: the description of an ANA state names all states.
func TestStatesAreDescribed(t *testing.T) {
	f, _ := reflect.TypeFor[ANAGroup]().FieldByName("State")
	n := len(anaStates) - 1
	if got, want := f.Tag.Get("doc"), strings.Join(anaStates[:n], ", ")+" or "+anaStates[n]+"."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
