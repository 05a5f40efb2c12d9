package control

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestServedStatus: the status has the properties of a namespace that are not in the document.
func TestServedStatus(t *testing.T) {
	r := newAPIRig(t)
	r.apply(r.doc(first))
	ro := r.dir + "/ro"
	if err := os.WriteFile(ro, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 3, "block-size": 4096, "file": {"path": "DIR/ro", "read-only": true}}`, nil)
	r.do("POST", "/v1/subsystems/a/namespaces/2/pause", `{"limit": "20s"}`, nil)
	var s Status
	r.do("GET", "/v1/status", "", &s)
	if len(s.Served) != 3 {
		t.Fatalf("%+v", s.Served)
	}
	one, two, three := s.Served[0], s.Served[1], s.Served[2]
	if one.Size != 1<<20 || one.BlockSize != 512 || len(one.UUID) != 36 || one.NGUID != strings.ReplaceAll(one.UUID, "-", "") || one.Paused || one.ReadOnly || one.Protected != "" {
		t.Errorf("%+v", one)
	}
	if !two.Paused || two.NSID != 2 || two.Subsystem != "a" {
		t.Errorf("%+v", two)
	}
	if three.Size != 3<<20 || three.BlockSize != 4096 || !three.ReadOnly || three.Paused {
		t.Errorf("%+v", three)
	}
	var result Result
	r.do("PATCH", "/v1/subsystems/a/namespaces/3", `{"read-only": false}`, &result)
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "namespace 3 of a is not writable: its file, device or image is read-only") {
		t.Errorf("%+v", result)
	}
	r.do("POST", "/v1/subsystems/a/namespaces/2/resume", "", nil)
	if r.Status().Served[1].Paused {
		t.Error("it is paused after it was resumed")
	}
}

// TestPlanOfError: only the error of a dry run has a plan.
func TestPlanOfError(t *testing.T) {
	r := newAPIRig(t)
	r.apply(r.doc(first))
	for _, options := range [][]string{{"dry-run"}, nil} {
		var refused *Error
		err := r.client.Do(t.Context(), "PATCH", "/v1/subsystems/a/namespaces/2", options, []byte(`{"memory": {"size": "2MiB"}}`), nil)
		if !errors.As(err, &refused) || refused.Code != CodeLoss || (refused.Plan != nil) != (options != nil) {
			t.Fatalf("%v: %+v", options, err)
		}
		if p := refused.Plan; p != nil && (!p.DryRun || len(p.Changes) != 2 || !p.Changes[0].Loses || p.Changes[1].Loses) {
			t.Errorf("%+v", p)
		}
	}
	r.wantState(r.doc(first))
}
