package nvmecli

import (
	"bytes"
	"strings"
	"testing"
)

func TestSubsystems(t *testing.T) {
	const id = "6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01"
	s := Subsystem{
		Name: "nvme-subsys0", NQN: "nqn.2026-11.org.example:a", HostNQN: "nqn.2014-08.org.nvmexpress:uuid:" + id, HostID: id,
		Model: "Linux", Firmware: "6.12.107", Policy: "numa", Type: "nvm",
		Paths: []Path{{Name: "nvme0", Transport: "loop", State: "live"}, {Name: "nvme1", Transport: "loop", State: "live"}},
	}
	one, two := s, s
	one.NQN, one.Paths = "nqn.2014-08.org.nvmexpress.discovery", s.Paths[:1]
	two.Name, two.Paths = "nvme-subsys1", s.Paths[1:]
	for _, c := range []struct {
		file  string
		print func(b *bytes.Buffer) error
	}{
		{"list-subsys.txt", func(b *bytes.Buffer) error { return SubsystemsText(b, []Subsystem{s}, false) }},
		{"list-subsys.json", func(b *bytes.Buffer) error { return SubsystemsJSON(b, []Subsystem{s}, false) }},
		{"list-subsys-v.txt", func(b *bytes.Buffer) error { return SubsystemsText(b, []Subsystem{s}, true) }},
		{"list-subsys-v.json", func(b *bytes.Buffer) error { return SubsystemsJSON(b, []Subsystem{s}, true) }},
		{"list-subsys-two.txt", func(b *bytes.Buffer) error { return SubsystemsText(b, []Subsystem{one, two}, false) }},
		{"connect.txt", func(b *bytes.Buffer) error { return ConnectText(b, "nvme0") }},
		{"connect.json", func(b *bytes.Buffer) error { return ConnectJSON(b, "nvme1") }},
	} {
		t.Run(c.file, func(t *testing.T) { wantText(t, printed(t, c.print), string(read(t, c.file))) })
	}
	wantText(t, printed(t, func(b *bytes.Buffer) error { return SubsystemsText(b, nil, false) }), "")
	wantText(t, printed(t, func(b *bytes.Buffer) error { return SubsystemsJSON(b, nil, false) }), "[]\n")
}

// TestSubsystemsANA checks that the ANA state of one namespace is shown for each path.
func TestSubsystemsANA(t *testing.T) {
	s := Subsystem{Name: "nvme-subsys0", NQN: "nqn.2026-11.org.example:a", HostNQN: "me", Paths: []Path{{Name: "nvme0", Transport: "rdma", Address: "traddr=192.0.2.1", State: "live", ANA: "optimized"}}}
	wantText(t, printed(t, func(b *bytes.Buffer) error { return SubsystemsText(b, []Subsystem{s}, false) }),
		"nvme-subsys0 - NQN=nqn.2026-11.org.example:a\n               hostnqn=me\n\\\n +- nvme0 rdma traddr=192.0.2.1 live optimized\n")
	got := printed(t, func(b *bytes.Buffer) error { return SubsystemsJSON(b, []Subsystem{s}, false) })
	if want := "\"State\":\"live\",\n            \"ANAState\":\"optimized\"\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}
