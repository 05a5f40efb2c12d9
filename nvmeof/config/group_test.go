package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func TestParseGroupStore(t *testing.T) {
	for text, want := range map[string]GroupStore{
		"etcd://192.0.2.1/a":                         {Kind: "etcd", Addresses: []string{"192.0.2.1:2379"}, Name: "a"},
		"etcd://a,b:99,[2001:db8::1],[::1]:5/rack.1": {Kind: "etcd", Addresses: []string{"a:2379", "b:99", "[2001:db8::1]:2379", "[::1]:5"}, Name: "rack.1"},
		"rados://rbd/g_1":                            {Kind: "rados", Pool: "rbd", Name: "g_1"},
	} {
		if got, err := ParseGroupStore(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "want etcd://",
		"etcd://a":                            "the group's name",
		"etcd://a/..":                         "the group's name",
		"etcd://a/b/c":                        "the group's name",
		"etcd:///g":                           "address",
		"etcd://a,,b/g":                       "address",
		"etcd://a:0/g":                        "address",
		"etcd://u:p@a:1/g":                    "address",
		"rados:///g":                          "a pool is missing",
		"zookeeper://a/g":                     "want etcd://",
		"etcd://a/" + strings.Repeat("g", 65): "the group's name",
	} {
		if _, err := ParseGroupStore(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestGroupIsChecked(t *testing.T) {
	const head = "version: 1\nlisteners: [{id: 1, address: 192.0.2.1}]\n"
	const group = head + "group: {store: etcd://192.0.2.9/g, gateway: gw1}\n"
	const disks = "subsystems:\n  - nqn: a\n    hosts: [{nqn: h}]\n    namespaces:\n"
	for _, test := range []struct{ name, text, want string }{
		{"good", group + disks + "      - {nsid: 1, rbd: {image: p/i}}\n      - {nsid: 2, file: {path: /f}, fence: lease}\n", ""},
		{"no store", head + "group: {gateway: a}\n", "group.store"},
		{"bad store", head + "group: {store: x}\n", "want etcd://"},
		{"bad name", head + "group: {store: etcd://a/g, gateway: a/b}\n", "the gateway's name"},
		{"conf with etcd", head + "group: {store: etcd://a/g, conf: /c}\n", "only for a Ceph cluster"},
		{"tls with rados", head + "group: {store: rados://a/g, tls: {authority: /c}}\n", "are only for etcd"},
		{"half a certificate", head + "group: {store: etcd://a/g, tls: {key: /c}}\n", "name both"},
		{"half a user", head + "group: {store: etcd://a/g, user: x}\n", "name both"},
		{"memory", group + disks + "      - {nsid: 1, memory: {size: 1MiB}}\n", "memory exists in one gateway only"},
		{"no fence", group + disks + "      - {nsid: 1, file: {path: /f}}\n", "fence: lease if every gateway"},
		{"fence it has not", group + disks + "      - {nsid: 1, file: {path: /f}, fence: storage}\n", "cannot fence a gateway"},
		{"buffered file", group + disks + "      - {nsid: 1, file: {path: /f, buffered: true}, fence: lease}\n", "page cache of one gateway"},
		{"buffered device", group + disks + "      - {nsid: 1, block: {path: /dev/d, buffered: true}, fence: lease}\n", "remove buffered"},
		{"mixed", group + disks + "      - {nsid: 1, ana-group: 1, rbd: {image: p/i}}\n      - {nsid: 2, ana-group: 1, file: {path: /f}, fence: lease}\n", "moves as a whole"},
		{"reservations", group + disks + "      - {nsid: 1, rbd: {image: p/i}, reservations: /r}\n", "in the group's store"},
		{"state", group + "subsystems: [{nqn: a, state: /s}]\n", "in the group's store"},
		{"controllers", group + "subsystems: [{nqn: a, min-controller-id: 5}]\n", "each gateway has its own range"},
	} {
		_, _, err := Parse("f", []byte(test.text))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestGroupsAreSpread: namespaces without an ANA group are spread over many, and those that only a lease fences
// have different ones.
func TestGroupsAreSpread(t *testing.T) {
	doc := &Document{Version: 1, Group: Gateways{Store: "etcd://a/g"}}
	for _, nqn := range []nvmeof.NQN{"a", "b"} {
		s := &Subsystem{NQN: nqn}
		for id := 1; id <= 100; id++ {
			n := &Namespace{NSID: id, RBD: &RBD{Image: fmt.Sprintf("p/%s%d", nqn, id)}}
			if id%2 == 0 {
				n.RBD, n.File, n.Fence = nil, &File{Path: Path(fmt.Sprintf("/%s%d", nqn, id))}, FenceLease
			}
			s.Namespaces = append(s.Namespaces, n)
		}
		doc.Subsystems = append(doc.Subsystems, s)
	}
	groups, fences := doc.Groups()
	if len(groups) < 40 {
		t.Errorf("groups %v", groups)
	}
	for _, g := range groups {
		if want := FenceStorage; (fences[g] == want) != (g <= spread) {
			t.Errorf("group %d has the fence %s", g, fences[g])
		}
	}
	said, _ := Describe(Namespace{}, "ana-group")
	if want := fmt.Sprintf("%d to %d, with fence: lease %d to %d.", firstFenced, firstFenced+spread-1, firstLeased, firstLeased+spread-1); !strings.HasSuffix(said, want) {
		t.Errorf("the help says %q, not %q", said, want)
	}
	if _, err := doc.Check(); err != nil {
		t.Error(err)
	}
	doc.AssignGroups()
	if again, _ := doc.Groups(); !reflect.DeepEqual(again, groups) || doc.Subsystems[1].Namespaces[7].ANAGroup == 0 {
		t.Errorf("groups %v that were %v", again, groups)
	}
}

func TestShared(t *testing.T) {
	doc := &Document{Version: 1, DiscoveryNQN: "d", Listeners: []*Listener{{ID: 1}}, Subsystems: []*Subsystem{{NQN: "a"}}, Referrals: []*Referral{{PortID: 5}}}
	part := doc.Shared()
	if part.DiscoveryNQN != "" || part.Listeners != nil || len(part.Subsystems) != 1 || len(part.Referrals) != 1 {
		t.Errorf("%+v", part)
	}
	part.Subsystems[0].NQN = "b"
	doc.TakeShared(part)
	part.Subsystems[0].NQN = "c"
	if doc.Subsystems[0].NQN != "b" || len(doc.Listeners) != 1 || doc.DiscoveryNQN != "d" {
		t.Errorf("%+v", doc)
	}
}
