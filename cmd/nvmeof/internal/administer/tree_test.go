package administer

import (
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestRefusals checks that ls shows each counter of rejections by limits, and nothing if all are zero.
func TestRefusals(t *testing.T) {
	print := func(s *control.Status) string {
		var b strings.Builder
		tree{out: &b}.refusals(s)
		return b.String()
	}
	if got := print(&control.Status{}); got != "" {
		t.Errorf("nothing was refused: %q", got)
	}
	for _, c := range []struct {
		status control.Status
		want   string
	}{
		{control.Status{Admission: target.AdmissionCounts{GaveWay: 7}}, "7 made room"},
		{control.Status{Admission: target.AdmissionCounts{Refused: 7}}, "7 refused at the limit of their address"},
		{control.Status{Admission: target.AdmissionCounts{Silent: 7}}, "7 ended without a Connect command"},
		{control.Status{Admission: target.AdmissionCounts{Memory: 7}}, "7 refused for lack of memory"},
		{control.Status{Requests: rdmatransport.RefusedRequests{TooMany: 7}}, "7 dropped above the rate"},
		{control.Status{Requests: rdmatransport.RefusedRequests{Backlog: 7}}, "7 refused because too many waited"},
		{control.Status{Requests: rdmatransport.RefusedRequests{HalfOpen: 7}}, "7 made room for newer ones"},
		{control.Status{ControllerLimits: target.ControllerCounts{Refused: 7}}, "7 refused at a limit"},
		{control.Status{Undelivered: 7}, "7 ended because"},
		{control.Status{Slowed: 7}, "7 times a queue got less memory"},
	} {
		if got := print(&c.status); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q, want %q in one line", got, c.want)
		}
	}
}

// TestGatewayTree checks that ls shows what a gateway of a group serves.
func TestGatewayTree(t *testing.T) {
	doc := &config.Document{Subsystems: []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{
		{NSID: 1, Memory: &config.Memory{Size: 1 << 20}}, {NSID: 2, Memory: &config.Memory{Size: 1 << 20}, ANAGroup: 2},
	}}}}
	var b strings.Builder
	printTree(&b, doc, &control.Status{Gateway: &control.GatewayStatus{Fenced: "a test", Groups: []control.ServedGroup{{Group: 2, Epoch: 7}}}}, nil)
	for _, want := range []string{"FENCED, serves nothing: a test\n", "served here [1]\n    2, epoch 7\n", "1 memory 1MiB, at another target, ana-group 1\n", "2 memory 1MiB, ana-group 2\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// TestTreeHasLocalTime checks that the start time of a target is shown in local time with its zone.
func TestTreeHasLocalTime(t *testing.T) {
	began := time.Date(2026, 11, 28, 23, 30, 0, 0, time.FixedZone("east", 9*3600))
	var b strings.Builder
	printTree(&b, new(config.Document), &control.Status{PID: 7, Started: began}, nil)
	if want := "target (process 7, since " + began.Local().Format(time.RFC3339) + ")\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestTreeHasRights checks that the rights of a host to single namespaces are shown, unless they are very many.
func TestTreeHasRights(t *testing.T) {
	many := &config.Host{NQN: "h3", Access: "none"}
	for i := range 17 {
		many.Namespaces = append(many.Namespaces, &config.Right{NSID: i + 1, Access: "write"})
	}
	doc := &config.Document{Subsystems: []*config.Subsystem{{NQN: "a", Hosts: []*config.Host{
		{NQN: "h1", KeyFile: "/k"}, {NQN: "h2", Namespaces: []*config.Right{{NSID: 1, Access: "none"}, {NSID: 2, Access: "read"}}}, many,
	}}}}
	var b strings.Builder
	printTree(&b, doc, new(control.Status), nil)
	for _, want := range []string{"h1 write, with a key\n", "h2 write, except 1=none, 2=read\n", "h3 none, except for 17 namespaces: see nvmeof host show\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

// TestTreeOfHostileNames checks that file names from clients of the API cannot send control sequences to a terminal or
// add lines.
func TestTreeOfHostileNames(t *testing.T) {
	doc := &config.Document{Subsystems: []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{
		{NSID: 1, File: &config.File{Path: "/disks/a\n      hosts [0]\x1b[31m"}},
	}}}}
	var b strings.Builder
	printTree(&b, doc, new(control.Status), nil)
	if !strings.Contains(b.String(), `1 file /disks/a\n      hosts [0]\x1b[31m, ana-group 1`) {
		t.Errorf("%q", b.String())
	}
}

// TestErasingTree checks that ls shows what a group is erasing, and why that fails.
func TestErasingTree(t *testing.T) {
	doc := &config.Document{Erasing: []*config.Erasing{
		{Subsystem: "a", Namespace: &config.Namespace{NSID: 1, ANAGroup: 3, RBD: &config.RBD{Image: "p/i"}}},
		{Subsystem: "a", Namespace: &config.Namespace{NSID: 2, File: &config.File{Path: "/f"}}, Why: "the image has snapshots"},
	}}
	var b strings.Builder
	printTree(&b, doc, &control.Status{}, nil)
	for _, want := range []string{"being erased [2]\n", "namespace 1 of a, rbd:p/i, ana-group 3\n", "namespace 2 of a, /f, ana-group 1, FAILED, retrying: the image has snapshots\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
