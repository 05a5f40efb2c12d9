package administer

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func TestGatewayTable(t *testing.T) {
	var b strings.Builder
	gatewayTable(&b, &control.GroupStatus{Gateway: "gw1", Revision: 7, Behind: "a file is missing",
		Gateways: []control.Member{{Name: "gw1", State: "alive", Groups: 3, Addresses: []string{"192.0.2.1:4420"}, FirstID: 1, LastID: 2047}, {Name: "gw2", State: "silent"}},
		Fences:   []control.FenceStatus{{Gateway: "gw2", Incarnation: "ab", Done: true}, {Gateway: "gw3", Incarnation: "cd"}},
		Alarms:   []control.GroupAlarm{{Kind: "fence-fails", Text: "no monitor answers"}}})
	for _, want := range []string{"gw1 (this one)\talive\t3\t192.0.2.1:4420\t1-2047", "gw2\tsilent\t0\t-\t-", "revision 7", "ab, is fenced", "cd, is being fenced", "alarm: fence-fails: no monitor answers"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "has not answered") {
		t.Errorf("its store answers:\n%s", b.String())
	}
}

// TestGatewayTableOfAnother checks the table if the store does not answer: all information is marked as old. It also
// checks that with a duplicate name the line of that name is marked as the other gateway's.
func TestGatewayTableOfAnother(t *testing.T) {
	var b strings.Builder
	gatewayTable(&b, &control.GroupStatus{Gateway: "gw1", Age: 61_400, Gateways: []control.Member{{Name: "gw1", State: "alive"}},
		Alarms: []control.GroupAlarm{{Kind: "name-in-use", Gateway: "gw1", Text: "another"}}})
	for _, want := range []string{"has not answered for 1m1s", "gw1 (not this one)\talive"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
