package connections

import (
	"fmt"
	"slices"
	"strings"
)

// Process is what one process has connected, as its control socket reports.
type Process struct {
	PID        int             `json:"pid"`
	Socket     string          `json:"-"`
	Addresses  []string        `json:"addresses,omitempty"` // of which it is the RoCE endpoint
	Subsystems []SubsystemInfo `json:"subsystems"`
	// Lost has the controllers that were given up, by name, with the reason.
	Lost map[string]string `json:"lost,omitempty"`
}

// SubsystemInfo is a connected subsystem.
type SubsystemInfo struct {
	Name        string           `json:"name"` // nvme-subsys0
	NQN         string           `json:"nqn"`
	HostNQN     string           `json:"hostnqn"`
	HostID      string           `json:"hostid"`
	Policy      string           `json:"iopolicy"`
	Model       string           `json:"model"`
	Serial      string           `json:"serial"`
	Firmware    string           `json:"firmware"`
	Controllers []ControllerInfo `json:"controllers"`
	Namespaces  []NamespaceInfo  `json:"namespaces"`
}

// ControllerInfo is one path.
type ControllerInfo struct {
	Name       string `json:"name"` // nvme0
	Transport  string `json:"transport"`
	Traddr     string `json:"traddr"`
	Trsvcid    string `json:"trsvcid"`
	HostTraddr string `json:"host_traddr,omitempty"`
	State      State  `json:"state"`
	Error      string `json:"error,omitempty"` // why it is not live
	ID         uint16 `json:"cntlid"`
	Borrower   string `json:"borrower,omitempty"` // control socket of the process for which it is held

	ReconnectDelay float64 `json:"reconnect_delay"`  // seconds
	CtrlLossTmo    float64 `json:"ctrl_loss_tmo"`    // negative: never
	FastIOFailTmo  float64 `json:"fast_io_fail_tmo"` // negative: when it is given up
	KeepAliveTmo   float64 `json:"keep_alive_tmo"`   // 0: none
}

// Address is what Linux shows in /sys/class/nvme/nvme0/address.
func (c *ControllerInfo) Address() string {
	s := fmt.Sprintf("traddr=%s,trsvcid=%s", c.Traddr, c.Trsvcid)
	if c.HostTraddr != "" {
		s += ",host_traddr=" + c.HostTraddr
	}
	return s
}

// NamespaceInfo is a namespace that can be used.
type NamespaceInfo struct {
	Name      string `json:"name"` // nvme0n1
	ID        uint32 `json:"nsid"`
	UUID      string `json:"uuid,omitempty"`
	Size      int64  `json:"size"` // bytes
	Used      int64  `json:"used"`
	BlockSize int    `json:"block_size"`
	URI       string `json:"uri,omitempty"` // where it is published
	// ANA is by how each live controller reaches it, by the controller's name.
	ANA map[string]string `json:"ana,omitempty"`
}

// Namespace is the one that somebody named, with or without /dev/, or the first of the
// controller that is named; nil: none.
func (s *SubsystemInfo) Namespace(name string) *NamespaceInfo {
	name = controllerName(name)
	for i := range s.Namespaces {
		if s.Namespaces[i].Name == name || slices.ContainsFunc(s.Controllers, func(c ControllerInfo) bool { return c.Name == name }) {
			return &s.Namespaces[i]
		}
	}
	return nil
}

// Wanted is what a connection would be, to be compared with those that are there.
type Wanted struct {
	NQN, HostNQN, Traddr, Trsvcid string
	HostTraddr                    string // empty: any
}

// Find is the controller that is such a connection already.
func Find(all []Process, w Wanted) (ControllerInfo, bool) {
	for _, p := range all {
		for _, s := range p.Subsystems {
			if s.NQN != w.NQN || s.HostNQN != w.HostNQN {
				continue
			}
			for _, c := range s.Controllers {
				if c.Traddr == w.Traddr && c.Trsvcid == w.Trsvcid && (w.HostTraddr == "" || c.HostTraddr == "" || c.HostTraddr == w.HostTraddr) {
					return c, true
				}
			}
		}
	}
	return ControllerInfo{}, false
}

// Apart is a controller of another subsystem of the list that is the same one, of the same host, as that of a named controller: its namespaces
// are disks of their own.
func Apart(all []Process, name string) (ControllerInfo, bool) {
	var own SubsystemInfo
	for _, p := range all {
		for _, s := range p.Subsystems {
			if slices.ContainsFunc(s.Controllers, func(c ControllerInfo) bool { return c.Name == name }) {
				own = s
			}
		}
	}
	for _, p := range all {
		for _, s := range p.Subsystems {
			if s.Name != own.Name && s.NQN == own.NQN && s.HostNQN == own.HostNQN && len(s.Controllers) > 0 {
				return s.Controllers[0], true
			}
		}
	}
	return ControllerInfo{}, false
}

// controllerName is the name of a controller in the way in which somebody wrote it:
// /dev/nvme0 or nvme0.
func controllerName(s string) string { return strings.TrimPrefix(s, "/dev/") }

// live reports whether there is a way to the subsystem now.
func (s *SubsystemInfo) live() bool {
	return slices.ContainsFunc(s.Controllers, func(c ControllerInfo) bool { return c.State == Live })
}

// Has reports whether a controller or namespace is the subsystem's, by its name with
// or without /dev/.
func (s *SubsystemInfo) Has(name string) bool {
	name = controllerName(name)
	for _, c := range s.Controllers {
		if c.Name == name {
			return true
		}
	}
	for _, n := range s.Namespaces {
		if n.Name == name {
			return true
		}
	}
	return false
}
