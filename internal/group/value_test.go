package group

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestUnknownFields: fields of a later version are preserved.
func TestUnknownFields(t *testing.T) {
	before := []byte(`{"version":1,"owner":"a","incarnation":"x","epoch":3,"phase":"owned","backend":"fenced","colour":{"red":1},"phases":2}`)
	var o Owner
	if err := decode(before, &o); err != nil || o.Owner != "a" || o.Epoch != 3 {
		t.Fatal(o, err)
	}
	after := string(encode(Owner{Version: 1, Epoch: 4, Phase: Free, Backend: Fenced}, before))
	for _, want := range []string{`"colour":{"red":1}`, `"phases":2`, `"epoch":4`} {
		if !strings.Contains(after, want) {
			t.Errorf("%s is not in %s", want, after)
		}
	}
	if strings.Contains(after, `"owner"`) || strings.Contains(after, "incarnation") {
		t.Errorf("what is not there any more: %s", after)
	}
	if s := string(encode(Order{1, true}, []byte("damaged"))); s != `{"version":1,"drained":true}` {
		t.Error(s)
	}
}

func TestDecode(t *testing.T) {
	for value, want := range map[string]string{
		`{"version":2,"epoch":1}`:  "version 2, but this gateway knows only 1",
		`{"version":1,"epoch":-1}`: "epoch",
		`damaged`:                  "invalid",
	} {
		var o Owner
		if err := decode([]byte(value), &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestRecord(t *testing.T) {
	hold := Hold{Epoch: 2, Session: "a.1", Guard: []state.Compare{{Key: ownerKey(3), Revision: 12}}}
	before := state.Entry{Key: RecordKey("uuid"), Value: []byte(`{"version":1,"revision":7,"epoch":1,"more":[1]}`), Revision: 40}
	txn, next, err := hold.Change(before, []byte("registrants"))
	if err != nil || next.Revision != 8 || next.Epoch != 2 || next.Session != "a.1" || len(txn.If) != 2 || txn.If[1].Revision != 40 || txn.If[0] != hold.Guard[0] {
		t.Fatal(txn, next, err)
	}
	read, err := ReadRecord(state.Entry{Key: txn.Then[0].Key, Value: txn.Then[0].Value})
	if a, b := mustJSON(t, read), mustJSON(t, next); err != nil || a != b || !strings.Contains(string(txn.Then[0].Value), `"more":[1]`) {
		t.Error(a, b, err)
	}
	if _, first, err := hold.Change(state.Entry{Key: "k"}, nil); err != nil || first.Revision != 1 {
		t.Error(first, err)
	}
	if _, _, err := hold.Change(state.Entry{Key: "k", Value: []byte(`{"version":9}`)}, nil); err == nil {
		t.Error("a later version is overwritten")
	}
	for _, damage := range []string{"", "damaged", "{}"} { // the administrator has to know which value is damaged
		if _, err := ReadRecord(state.Entry{Key: RecordKey("uuid"), Value: []byte(damage)}); err == nil || !strings.Contains(err.Error(), RecordKey("uuid")) {
			t.Errorf("%q: %v", damage, err)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Name: "a/b"}, {Name: strings.Repeat("x", 201)}, {Name: "a", Term: 1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
