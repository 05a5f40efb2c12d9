package control

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// TestOpenAPI: the published description has exactly the routes that are served, with their types.
func TestOpenAPI(t *testing.T) {
	if *update {
		if err := os.WriteFile("openapi.json", OpenAPI(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(OpenAPI()) {
		t.Error("openapi.json is not what the routes say: go test ./nvmeof/control -run TestOpenAPI -update")
	}
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var published, served, ids []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			published = append(published, strings.ToUpper(method)+" "+path)
			ids = append(ids, op.OperationID)
		}
	}
	for _, r := range routes() {
		served = append(served, r.pattern())
	}
	for _, s := range streams() {
		served = append(served, s.pattern())
	}
	slices.Sort(published)
	slices.Sort(served)
	if !slices.Equal(published, served) {
		t.Errorf("published\n%s\nserved\n%s", strings.Join(published, "\n"), strings.Join(served, "\n"))
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(served) {
		t.Errorf("operations share a name: %q", ids)
	}
}
