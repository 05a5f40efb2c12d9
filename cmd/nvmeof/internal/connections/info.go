package connections

import (
	"fmt"
	"slices"
	"strings"
)

// Process describes the connections of one process, as its control socket reports them.
type Process struct {
	PID        int             `json:"pid"`
	Socket     string          `json:"-"`
	Addresses  []string        `json:"addresses,omitempty"` // at which it is the RoCE endpoint
	Subsystems []SubsystemInfo `json:"subsystems"`
	// Lost maps the names of the controllers that were given up to the reasons.
	Lost map[string]string `json:"lost,omitempty"`
}

// SubsystemInfo describes a connected subsystem.
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

// ControllerInfo describes one path.
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

// Address returns what Linux shows in /sys/class/nvme/nvme0/address.
func (c *ControllerInfo) Address() string {
	s := fmt.Sprintf("traddr=%s,trsvcid=%s", c.Traddr, c.Trsvcid)
	if c.HostTraddr != "" {
		s += ",host_traddr=" + c.HostTraddr
	}
	return s
}

// NamespaceInfo describes a namespace that can be used.
type NamespaceInfo struct {
	Name      string `json:"name"` // nvme0n1
	ID        uint32 `json:"nsid"`
	UUID      string `json:"uuid,omitempty"`
	Size      int64  `json:"size"` // bytes
	Used      int64  `json:"used"`
	BlockSize int    `json:"block_size"`
	URI       string `json:"uri,omitempty"` // where it is published
	// ANA is the namespace's ANA state on each live controller, by the controller's name.
	ANA map[string]string `json:"ana,omitempty"`
}

// Namespace returns the namespace with that name, with or without /dev/, or the first one of the controller with that
// name; nil if there is none.
func (s *SubsystemInfo) Namespace(name string) *NamespaceInfo {
	name = controllerName(name)
	for i := range s.Namespaces {
		if s.Namespaces[i].Name == name || slices.ContainsFunc(s.Controllers, func(c ControllerInfo) bool { return c.Name == name }) {
			return &s.Namespaces[i]
		}
	}
	return nil
}

// Wanted identifies a connection, to be compared with existing ones.
type Wanted struct {
	NQN, HostNQN, Traddr, Trsvcid string
	HostTraddr                    string // empty: any
}

// Find returns the controller of an existing connection that is equal to w.
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

// Apart returns a controller of another subsystem in the list that has the same NQN and host as the subsystem of the
// named controller. Its namespaces are separate disks.
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

// controllerName strips a leading /dev/ from a controller's name.
func controllerName(s string) string { return strings.TrimPrefix(s, "/dev/") }

// live reports whether a controller of the subsystem is live.
func (s *SubsystemInfo) live() bool {
	return slices.ContainsFunc(s.Controllers, func(c ControllerInfo) bool { return c.State == Live })
}

// Has reports whether a controller or namespace with that name, with or without /dev/, belongs to the subsystem.
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
