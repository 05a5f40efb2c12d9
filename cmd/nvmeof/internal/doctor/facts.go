package doctor

import "net/netip"

// Facts are what is known of a machine. The package comment explains the keys.
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

// Build is what this program has and finds.
type Build struct {
	Verbs         bool      `json:"verbs"`
	Libraries     Libraries `json:"libraries"`
	LibraryDetail string    `json:"library_detail,omitempty"`
	Ceph          bool      `json:"ceph"`
	CephLibraries Libraries `json:"ceph_libraries"`
}

// Installed says how the program came to this machine, and what is begun by it.
type Installed struct {
	How          string   `json:"how"`
	Program      string   `json:"program"`
	Package      string   `json:"package,omitempty"`
	Version      string   `json:"version,omitempty"`
	Example      string   `json:"example"`
	Ceph         bool     `json:"ceph"` // the configuration has images or a group of a Ceph cluster
	Network      string   `json:"network"`
	Units        []Unit   `json:"units"`
	Capabilities []string `json:"capabilities"`
}

// What Installed.How can be.
const (
	installedPackage   = "package"
	installedContainer = "container"
	installedBinary    = "binary"
)

// What Installed.Example can be: whether /etc/nvmeof/target.yaml is that of the package.
const (
	exampleSame    = "same"
	exampleChanged = "changed"
	exampleAbsent  = "absent"
	exampleUnknown = "unknown"
)

// What Installed.Network can be.
const (
	networkMachine = "machine"
	networkOwn     = "own"
)

// A Unit is one of systemd's.
type Unit struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled"`
	Running  bool   `json:"running"`
	Replaced bool   `json:"replaced"` // its program is not the one that is installed now
}

// Libraries says what there is of libibverbs and librdmacm.
type Libraries string

// What Libraries can be.
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
	Provider      string  `json:"provider"` // "": not known
	Software      bool    `json:"software"`
	NodeType      string  `json:"node_type"`
	Transport     string  `json:"transport"`
	Firmware      string  `json:"firmware"`
	Board         string  `json:"board"`
	Limits        *Limits `json:"limits"`
	LimitsUnknown string  `json:"limits_unknown,omitempty"`
	Ports         []Port  `json:"ports"`
}

// What Device.Transport can be.
const (
	transportIB    = "InfiniBand"
	transportRoCE  = "RoCE"
	transportIWARP = "iWARP"
	transportOther = "other"
)

// Limits are a device's, as ibv_query_device(3) reports them.
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

// A Port is one of a device's.
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
	Type    string     `json:"type"` // "RoCE v2", "RoCE v1", "IB", as the kernel says otherwise
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

	choices []choice // of the addresses, in order
}

// A choice is what --transport auto takes for an address.
type choice struct{ name, why string }

// A Holder has UDP port 4791 at an address.
type Holder struct {
	Address netip.Addr `json:"address"`
	Kind    string     `json:"holder"`
	PID     int        `json:"pid,omitempty"`
	Program string     `json:"program,omitempty"`
}

// What Holder.Kind can be.
const (
	holderKernel  = "kernel"
	holderProcess = "process"
	holderUnknown = "unknown"
)

// Memory is about what may be pinned for RDMA.
type Memory struct {
	Soft   int64 `json:"memlock_soft"`
	Hard   int64 `json:"memlock_hard"`
	Exempt bool  `json:"exempt"`
	Wanted int64 `json:"wanted"`
}

// Sockets is about the buffers of softroce's sockets.
type Sockets struct {
	RmemMax       int64 `json:"rmem_max"`
	WmemMax       int64 `json:"wmem_max"`
	Exempt        bool  `json:"exempt"`
	ReceiveBuffer int64 `json:"receive_buffer"`
	Wanted        int64 `json:"wanted"`
}

// A Module is one of the kernel's.
type Module struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// What Module.State can be.
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

// IOUring says whether files can be served without threads.
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
