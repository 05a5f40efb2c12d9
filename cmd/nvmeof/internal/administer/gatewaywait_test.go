package administer

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestOrderDone checks what a command with --wait makes of a sequence of statuses. The last status of each case
// decides the result.
func TestOrderDone(t *testing.T) {
	at := func(owner, moving string) *control.GroupStatus {
		return &control.GroupStatus{Groups: []control.ANAStatus{{Group: 3, Owner: owner, Moving: moving}, {Group: 4, Owner: "gw2"}}}
	}
	for _, test := range []struct {
		name  string
		done  func(*control.GroupStatus) (string, error)
		reads []*control.GroupStatus
		want  string // part of the remaining work or of the error; empty: done
	}{
		{"it has moved", moved(3, "gw2"), []*control.GroupStatus{at("gw1", ""), at("gw1", "gw2"), at("", "gw2"), at("gw2", "")}, ""},
		{"it moves", moved(3, "gw2"), []*control.GroupStatus{at("gw1", "gw2")}, "ANA group 3 is not at gateway gw2"},
		{"it was taken over meanwhile", moved(3, "gw2"), []*control.GroupStatus{at("gw1", "gw2"), at("gw1", ""), at("", "")}, "is not at"},
		{"it was given up", moved(3, "gw2"), []*control.GroupStatus{at("gw1", "gw2"), at("gw1", ""), at("gw1", "")}, "abandoned, and gateway gw1 serves it"},
		{"it is configured no more", moved(5, "gw2"), []*control.GroupStatus{at("gw1", "")}, "no longer has ANA group 5"},
		{"it is drained", drained("gw1"), []*control.GroupStatus{at("gw1", "gw2"), at("gw2", "")}, ""},
		{"it drains", drained("gw2"), []*control.GroupStatus{at("gw2", "gw1")}, "still serves ANA groups [3 4]"},
	} {
		var got string
		for _, g := range test.reads {
			left, err := test.done(g)
			if got = left; err != nil {
				got = err.Error()
			}
		}
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, and not %q", test.name, got, test.want)
		}
	}
}
