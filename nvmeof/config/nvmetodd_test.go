package config

import (
	"strings"
	"testing"
)

// TestNvmetcliByHand: a file that was edited by hand means the same as to nvmetcli, or is refused. Nothing that is
// disabled is exported, and nothing is exported elsewhere.
func TestNvmetcliByHand(t *testing.T) {
	t.Parallel()
	const file = `{"hosts": [{"nqn": "h", "dhchap": {"key": "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"}}],
"ports": [{"portid": 1, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "192.0.2.1", "trsvcid": "4420"}, "subsystems": ["a"]},
 {"portid": 2, "addr": {"trtype": "rdma", "adrfam": "ipv4", "traddr": "198.51.100.1", "trsvcid": "4420"}, "subsystems": ["b"]}],
"subsystems": [{"nqn": "a", "attr": {"allow_any_host": "0"}, "allowed_hosts": ["h"], "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "/dev/sda"}}]},
 {"nqn": "b", "attr": {"allow_any_host": "0"}, "allowed_hosts": ["h"], "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "/dev/sdb"}}]}]}`
	change := func(old, now string) string {
		t.Helper()
		if !strings.Contains(file, old) {
			t.Fatal(old)
		}
		return strings.Replace(file, old, now, 1)
	}
	in, err := ImportNvmetcli("c", []byte(change(`"subsystems": ["a"]`, `"subsystems": ["a", "a"]`)), "/keys")
	if err != nil || len(in.Document.Subsystems[0].Listeners) != 1 {
		t.Errorf("a subsystem that a port names twice is on all: %v, %v", in, err)
	}
	for _, off := range []string{"0", `"0"`, "false"} {
		in, err := ImportNvmetcli("c", []byte(change(`"nsid": 1, "enable": 1`, `"nsid": 1, "enable": `+off)), "/keys")
		if err != nil || len(in.Document.Subsystems[0].Namespaces) != 0 {
			t.Errorf("a namespace whose enable is %s: %v, %v", off, in, err)
		}
	}
	for _, on := range []string{"1", `"1"`, "true"} {
		in, err := ImportNvmetcli("c", []byte(change(`"allow_any_host": "0"`, `"allow_any_host": `+on)), "/keys")
		if err != nil || !in.Document.Subsystems[0].AllowAnyHost {
			t.Errorf("allow_any_host %s: %v, %v", on, in, err)
		}
		_, err = ImportNvmetcli("c", []byte(change(`"nqn": "b",`, `"nqn": "b", "passthru": [{"enable": `+on+`}],`)), "/keys")
		if err == nil || !strings.Contains(err.Error(), "pass a whole controller through") {
			t.Errorf("passthru %s: %v", on, err)
		}
	}
	for _, c := range []struct{ old, now, want string }{
		{`"allow_any_host": "0"`, `"allow_any_host": "yes"`, "c:4:56: subsystems[0].attr.allow_any_host: yes is neither 0 nor 1"},
		{`"enable": 1`, `"enable": 2`, "subsystems[0].namespaces[0].enable: 2 is neither 0 nor 1"},
		{`"enable": 1`, `"enable": []`, "subsystems[0].namespaces[0].enable: is a list, want 0 or 1"},
		{`"enable": 1`, `"resv": {"enable": "off"}`, "subsystems[0].namespaces[0].resv.enable: off is neither 0 nor 1"},
		{`"dhchap": {"key": "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"}`, `"dhchap": "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"`, "hosts[0].dhchap: is text, want an object"},
		{`"attr": {"allow_any_host": "0"}`, `"attr": ["allow_any_host"]`, "subsystems[0].attr: is a list, want an object"},
		{`"attr": {"allow_any_host": "0"}`, `"attr": {"allow_any_host": "0", "allow_any_host": "1"}`, "c:4:61: subsystems[0].attr.allow_any_host: is given twice"},
		{`"nqn": "a",`, `"nqn": "a", "allowed_hosts": [],`, "c:4:83: subsystems[0].allowed_hosts: is given twice"},
		{`[{"portid": 1`, `[5, {"portid": 1`, "ports[0]: is a number, want an object"},
	} {
		if _, err := ImportNvmetcli("c", []byte(change(c.old, c.now)), "/keys"); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "DHHC") {
			t.Errorf("%s: %v, want %s", c.now, err, c.want)
		}
	}
}
