package control

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Served has the properties of a namespace as hosts see it that are not in the document, such as the present size
// of its file and what hosts have set.
type Served struct {
	Subsystem nvmeof.NQN `json:"subsystem"`
	NSID      int        `json:"nsid"`
	Size      int64      `json:"size"` // bytes
	BlockSize int        `json:"block-size"`
	UUID      string     `json:"uuid"`
	NGUID     string     `json:"nguid"`
	Paused    bool       `json:"paused,omitempty"`
	ReadOnly  bool       `json:"read-only,omitempty"` // by the configuration, or since its store is read-only
	// Protected says until when a host has write-protected the namespace; empty: none has.
	Protected Protection `json:"write-protected,omitempty"`
}

// Protection says until when a host has write-protected a namespace.
type Protection string

const (
	ProtectedByHost   Protection = "until-a-host-ends-it"
	ProtectedUnkept   Protection = "until-a-host-ends-it-or-the-target-ends" // no file has it
	ProtectedUntilOff Protection = "until-the-target-ends"                   // a takeover does not end it
)

// protectionOf returns the write protection of a namespace of s.
func protectionOf(s *config.Subsystem, p capsule.WriteProtection) Protection {
	switch {
	case p == capsule.WriteProtectedUntilOff:
		return ProtectedUntilOff
	case p == capsule.WriteProtectNone:
		return ""
	case s.State == "":
		return ProtectedUnkept
	}
	return ProtectedByHost
}

// served returns the namespaces whose properties are known, in the order of the document. The caller holds mu.
func served(m *Manager) []Served {
	out := []Served{}
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			continue // it is being removed
		}
		there := map[int]*target.Namespace{}
		for _, n := range s.Namespaces() {
			there[int(n.ID())] = n
		}
		for _, n := range d.Namespaces {
			x := there[n.NSID]
			if x == nil {
				continue
			}
			if now, known := x.Served(); known {
				out = append(out, Served{d.NQN, n.NSID, now.Size, now.BlockSize, now.UUID.String(), hex.EncodeToString(now.NGUID[:]),
					now.Paused, now.ReadOnly, protectionOf(d, now.Protection)})
			}
		}
	}
	return out
}

// warnReadOnly adds a warning if a namespace was made writable by a request but is not.
func (c *call) warnReadOnly(answer any) any {
	var body struct {
		ReadOnly *bool `json:"read-only"`
	}
	r, ok := answer.(Result)
	nsid, err := c.number("nsid")
	if err != nil || !ok || json.Unmarshal(c.body, &body) != nil || body.ReadOnly == nil || *body.ReadOnly {
		return answer
	}
	s, err := c.subsystem(c.manager.present())
	if err != nil {
		return answer
	}
	n, err := c.manager.find(s.NQN, nsid)
	if err != nil {
		return answer
	}
	now, _ := n.Served()
	name := namespaceName(namespaceKey{s.NQN, nsid})
	if now.StoreReadOnly {
		r.Warnings = append(r.Warnings, name+" is not writable: its file, device or image is read-only; see read-only in its file, block or rbd")
	}
	switch protectionOf(s, now.Protection) {
	case ProtectedByHost, ProtectedUnkept:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s is not writable: a host has write-protected it; to end that, run on a host that may write to it: nvme set-feature -n %d -f 0x84 -v 0", name, nsid))
	case ProtectedUntilOff:
		r.Warnings = append(r.Warnings, name+" is not writable: a host has write-protected it until the target ends; a restart ends that, a takeover does not")
	}
	return r
}
