package doctor

import "net/netip"

// Facts is what is known about a machine. The package comment explains the keys.
type Facts struct {
	Build      Build       `json:"build"`
	Installed  Installed   `json:"installed"`
	Devices    []Device    `json:"devices"`
	Interfaces []Interface `json:"interfaces"`
	RoCEPort   []Holder    `json:"roce_port"`
	Memory     Memory      `json:"memory"`
	Sockets    Sockets     `json:"sockets"`
	Modules    []Module    `json:"modules"`
	Access     []Access    `json:"access"`
	IOUring    IOUring     `json:"io_uring"`
	Processors int         `json:"processors"`
	Unread     []string    `json:"unread"`

	release string // of the kernel
}

// Build describes what this program contains and finds.
type Build struct {
	Verbs         bool      `json:"verbs"`
	Libraries     Libraries `json:"libraries"`
	LibraryDetail string    `json:"library_detail,omitempty"`
	Ceph          bool      `json:"ceph"`
	CephLibraries Libraries `json:"ceph_libraries"`
}

// Installed describes how the program was installed, and which of its services are started.
type Installed struct {
	How          string   `json:"how"`
	Program      string   `json:"program"`
	Package      string   `json:"package,omitempty"`
	Version      string   `json:"version,omitempty"`
	Example      string   `json:"example"`
	Ceph         bool     `json:"ceph"` // the configuration names images or a group of a Ceph cluster
	Network      string   `json:"network"`
	Units        []Unit   `json:"units"`
	Capabilities []string `json:"capabilities"`
}

// Values of Installed.How.
const (
	installedPackage   = "package"
	installedContainer = "container"
	installedBinary    = "binary"
)

// Values of Installed.Example: whether /etc/nvmeof/target.yaml is the file of the package.
const (
	exampleSame    = "same"
	exampleChanged = "changed"
	exampleAbsent  = "absent"
	exampleUnknown = "unknown"
)

// Values of Installed.Network.
const (
	networkMachine = "machine"
	networkOwn     = "own"
)

// A Unit is a unit of systemd.
type Unit struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled"`
	Running  bool   `json:"running"`
	Replaced bool   `json:"replaced"` // it runs a program that was replaced by another version
}

// Libraries is the availability of libibverbs and librdmacm.
type Libraries string

// Values of Libraries.
const (
	LibrariesLoaded   Libraries = "loaded"
	LibrariesFound    Libraries = "found"
	LibrariesMissing  Libraries = "missing"
	LibrariesUnusable Libraries = "unusable"
)

// A Device is an RDMA device.
type Device struct {
	Name          string  `json:"name"`
	Driver        string  `json:"driver"`
	Provider      string  `json:"provider"` // "": unknown
	Software      bool    `json:"software"`
	NodeType      string  `json:"node_type"`
	Transport     string  `json:"transport"`
	Firmware      string  `json:"firmware"`
	Board         string  `json:"board"`
	Limits        *Limits `json:"limits"`
	LimitsUnknown string  `json:"limits_unknown,omitempty"`
	Ports         []Port  `json:"ports"`
}

// Values of Device.Transport.
const (
	transportIB    = "InfiniBand"
	transportRoCE  = "RoCE"
	transportIWARP = "iWARP"
	transportOther = "other"
)

// Limits holds a device's limits, as reported by ibv_query_device(3).
type Limits struct {
	QueuePairs    int    `json:"queue_pairs"`
	QueueDepth    int    `json:"queue_depth"`
	Completions   int    `json:"completions"` // entries of a completion queue
	Regions       int    `json:"memory_regions"`
	RegionBytes   uint64 `json:"region_bytes"`
	SharedQueues  int    `json:"shared_receive_queues"`
	ReadsIn       int    `json:"reads_in"`  // IRD of a queue pair
	ReadsOut      int    `json:"reads_out"` // ORD
	MemoryWindows int    `json:"memory_windows"`
}

// A Port is a port of a device.
type Port struct {
	Number        int      `json:"number"`
	State         string   `json:"state"`
	PhysicalState string   `json:"physical_state"`
	LinkLayer     string   `json:"link_layer"`
	Rate          string   `json:"rate"`
	ActiveMTU     int      `json:"active_mtu"`
	Netdevs       []string `json:"netdevs"`
	GIDs          []GID    `json:"gids"`
}

func (p *Port) active() bool { return p.State == "ACTIVE" }

// A GID is an entry of a port's table that is in use.
type GID struct {
	Index   int        `json:"index"`
	Type    string     `json:"type"` // "RoCE v2", "RoCE v1", "IB", or the kernel's text
	Address netip.Addr `json:"address"`
	Netdev  string     `json:"netdev"`
}

// An Interface is a network interface.
type Interface struct {
	Name      string         `json:"name"`
	State     string         `json:"state"`
	MTU       int            `json:"mtu"`
	PathMTU   int            `json:"path_mtu"`
	RDMA      []string       `json:"rdma_devices"`
	Addresses []netip.Prefix `json:"addresses"`

	choices []choice // for the addresses, in the same order
}

// A choice is what --transport auto selects for an address.
type choice struct{ name, why string }

// A Holder is the user of UDP port 4791 at an address.
type Holder struct {
	Address netip.Addr `json:"address"`
	Kind    string     `json:"holder"`
	PID     int        `json:"pid,omitempty"`
	Program string     `json:"program,omitempty"`
}

// Values of Holder.Kind.
const (
	holderKernel  = "kernel"
	holderProcess = "process"
	holderUnknown = "unknown"
)

// Memory describes how much memory may be pinned for RDMA.
type Memory struct {
	Soft   int64 `json:"memlock_soft"`
	Hard   int64 `json:"memlock_hard"`
	Exempt bool  `json:"exempt"`
	Wanted int64 `json:"wanted"`
}

// Sockets describes the buffers of softroce's sockets.
type Sockets struct {
	RmemMax       int64 `json:"rmem_max"`
	WmemMax       int64 `json:"wmem_max"`
	Exempt        bool  `json:"exempt"`
	ReceiveBuffer int64 `json:"receive_buffer"`
	Wanted        int64 `json:"wanted"`
}

// A Module is a kernel module.
type Module struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Values of Module.State.
const (
	moduleLoaded    = "loaded"
	moduleBuiltIn   = "built-in"
	moduleAvailable = "available"
	moduleAbsent    = "absent"
	moduleUnknown   = "unknown"
)

// Access says whether this user may read and write a device node.
type Access struct {
	Path      string `json:"path"`
	ReadWrite bool   `json:"read_write"`
}

// IOUring says whether io_uring is available, with which files are served without threads.
type IOUring struct {
	Disabled int    `json:"disabled"`
	Works    bool   `json:"works"`
	Detail   string `json:"detail,omitempty"`
}

func (f *Facts) device(name string) *Device {
	for i := range f.Devices {
		if f.Devices[i].Name == name {
			return &f.Devices[i]
		}
	}
	return nil
}

func (f *Facts) module(name string) string {
	for _, m := range f.Modules {
		if m.Name == name {
			return m.State
		}
	}
	return moduleUnknown
}
