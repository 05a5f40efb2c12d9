package config

import (
	"cmp"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Version is the version of the schema, which every document has.
const Version = 1

// A Document describes a target. A zero field is left out of the text. It means the default that the field's
// description names.
type Document struct {
	Version      int          `json:"version" need:"yes" doc:"Version of this schema: 1."`
	Transport    Transport    `json:"transport,omitzero" default:"softroce" doc:"RDMA transport of listeners that name none: softroce (UDP sockets), verbs (an RDMA device), or auto (verbs where the address belongs to an RDMA device). Default softroce."`
	DiscoveryNQN nvmeof.NQN   `json:"discovery-nqn,omitzero" doc:"Unique NQN of the discovery subsystem, in addition to the well-known one."`
	Limits       Limits       `json:"limits,omitzero" doc:"Bounds on what the target uses. A running target does not change them."`
	Congestion   Congestion   `json:"congestion,omitzero" doc:"Congestion control of listeners on softroce; RDMA devices have their own. A running target does not change it."`
	Sandbox      Sandbox      `json:"sandbox,omitzero" doc:"Files that the target can access once it serves. A running target does not change it."`
	Metrics      Metrics      `json:"metrics,omitzero" doc:"Counters for monitoring. A running target does not change it."`
	Events       Events       `json:"events,omitzero" doc:"What nvmeof events shows. A running target does not change it."`
	Audit        Audit        `json:"audit,omitzero" doc:"Log of who changed what. A running target does not change it."`
	Console      Console      `json:"console,omitzero" doc:"The API and the web console, over TCP, for users with a token. A running target does not change it."`
	Group        Gateways     `json:"group,omitzero" doc:"Gateways with which the target shares its subsystems. A running target does not change it."`
	Listeners    []*Listener  `json:"listeners,omitempty" doc:"Where hosts connect: addresses of this machine."`
	Subsystems   []*Subsystem `json:"subsystems,omitempty" doc:"What hosts connect to."`
	Referrals    []*Referral  `json:"referrals,omitempty" doc:"Other discovery services that the discovery log lists."`
	Erasing      []*Erasing   `json:"erasing,omitempty" doc:"Namespaces of a group of gateways that were removed, and whose data is being erased. Applying a document does not change it."`
}

// TakeSettings copies the settings that a running target cannot change: all but listeners, subsystems and
// referrals.
func (d *Document) TakeSettings(from *Document) {
	d.Version, d.Transport, d.DiscoveryNQN, d.Limits, d.Congestion, d.Sandbox, d.Metrics, d.Events, d.Audit, d.Console, d.Group = from.Version, from.Transport, from.DiscoveryNQN, from.Limits, from.Congestion, from.Sandbox, from.Metrics, from.Events, from.Audit, from.Console, from.Group
}

// A Sandbox limits the files that a running target can access. The kernel enforces it.
type Sandbox struct {
	Paths []Path `json:"paths,omitempty" doc:"Absolute paths of directories and files that the target may read and write in addition to those that this document needs, for namespaces that are added later. With one or more, the target can access nothing else, if the kernel has Landlock. Default: every file that its user may access."`
}

// Metrics configures the export of counters.
type Metrics struct {
	Hosts  bool        `json:"hosts,omitempty" doc:"Export a series for each connected host (nvmf_host_connected). The number of series grows with the hosts, and their names are visible to everyone who can read the metrics. Default: false."`
	Listen HTTPAddress `json:"listen,omitzero" doc:"Address and port of the metrics for Prometheus, as 127.0.0.1:9420: http://127.0.0.1:9420/metrics. Everyone who can connect can read them. Default: none."`
}

// Events configures the log of events.
type Events struct {
	File    Path `json:"file,omitzero" doc:"Absolute path of a file that keeps events across restarts, of at most 1 KiB each. Default: none."`
	Entries int  `json:"entries,omitzero" default:"1280" min:"80" max:"65000" doc:"Number of events that are kept. Default 1280."`
}

// Audit configures the audit, which has a line of JSON for each operation that changes something.
type Audit struct {
	File Path `json:"file,omitzero" doc:"Absolute path of a file to which lines are appended; SIGHUP reopens it. Default: none."`
	Log  bool `json:"log,omitzero" default:"false" doc:"Write to the log instead of a file. Default false."`
}

// A Console configures the API and the web pages over TCP.
type Console struct {
	Listen HTTPAddress `json:"listen,omitzero" doc:"Address and port, as 127.0.0.1:9430. Default: none."`
	TLS    ConsoleTLS  `json:"tls,omitzero" doc:"TLS certificate. Without one the address must be a loopback address."`
	Tokens Path        `json:"tokens,omitzero" doc:"Absolute path of the file of tokens, which nvmeof token writes. Required with listen."`
}

// A ConsoleTLS has the files of a certificate and its key, in PEM.
type ConsoleTLS struct {
	Certificate Path `json:"certificate,omitzero" doc:"Absolute path of the certificate and its intermediate certificates, in PEM."`
	Key         Path `json:"key,omitzero" doc:"Absolute path of its private key, in PEM."`
}

// Limits are bounds on resources of the target.
type Limits struct {
	Shards        int      `json:"shards,omitzero" min:"1" max:"64" doc:"Threads that serve I/O queues, for each address, or for each RDMA device that several addresses share. Default: half the processors."`
	Queues        int      `json:"queues,omitzero" default:"128" min:"1" max:"65534" doc:"I/O queues of a controller. Default 128."`
	QueueDepth    int      `json:"queue-depth,omitzero" default:"128" min:"2" max:"1024" doc:"Entries of an I/O queue. Default 128."`
	Controllers   int      `json:"controllers,omitzero" default:"1024" min:"1" max:"65519" doc:"Controllers of each subsystem. Default 1024."`
	InCapsule     Size     `json:"in-capsule,omitzero" default:"4KiB" max:"65536" doc:"Data in a command capsule, a multiple of 16. Default 4KiB."`
	MaxData       Size     `json:"max-data,omitzero" default:"1MiB" min:"4096" max:"1048576" doc:"Maximum data transfer of a command, a power of two. Below 32KiB Linux hosts do not read the ANA log, and treat all paths as equal. Default 1MiB."`
	QueueMemory   Size     `json:"queue-memory,omitzero" default:"2GiB" doc:"Maximum memory of all queues together, of which a queue of 128 entries takes about 1MiB. One address, or one authenticated host, may use no more than it leaves free: less than half if it is the only one. Default 2GiB."`
	ReceiveBuffer Size     `json:"receive-buffer,omitzero" doc:"Size of each receive socket's buffer. Default 8MiB, as far as allowed."`
	AckTimeout    Duration `json:"ack-timeout,omitzero" doc:"Time to wait for a host's acknowledgement before it counts as a retry. Default 500ms; with verbs less if the RDMA CM says so."`
	Polling       Polling  `json:"polling,omitzero" default:"auto" doc:"Behaviour of an idle thread: adaptive (poll for 50 us to 0.8 ms, then sleep), always (poll), never (sleep at once), or auto (never with a single processor, else adaptive)."`
	Shared        int      `json:"shared-receives,omitzero" min:"1" max:"65536" doc:"Receive buffers, of 4 KiB each, that the I/O queues of a thread share. Default: each queue has its own."`
	Revalidate    Duration `json:"revalidate,omitzero" default:"1s" doc:"Interval at which the sizes of files and devices are checked. Default 1s."`
}

// A Listener is an address at which hosts connect.
type Listener struct {
	ID        int         `json:"id" need:"yes" min:"1" max:"65535" doc:"Identifier of the listener, also in the discovery log (port ID)."`
	Address   Address     `json:"address" need:"yes" doc:"IP address, or ADDRESS:PORT; the default port is 4420. 0.0.0.0 or [::] is every address of that family that other machines can reach, also those that are added later."`
	Transport Transport   `json:"transport,omitzero" doc:"RDMA transport of this listener: softroce, verbs or auto; the same for all listeners of an address. Default: that of the document."`
	ANAGroups []*ANAGroup `json:"ana-groups,omitempty" doc:"ANA states of the ANA groups through this listener. Groups that are not listed are optimized."`
}

// Wildcard reports whether the listener is on all addresses of its family.
func (l *Listener) Wildcard() bool { return l.Address.Addr().IsUnspecified() }

// TransportOf returns the transport of a listener: its own, or that of the document.
func (d *Document) TransportOf(l *Listener) Transport {
	return cmp.Or(l.Transport, d.Transport, "softroce")
}

// An ANAGroup has the ANA state of a group at a listener.
type ANAGroup struct {
	Group int      `json:"group" need:"yes" min:"1" max:"128" doc:"ANA group."`
	State ANAState `json:"state" need:"yes" doc:"optimized, non-optimized, inaccessible, persistent-loss or change."`
}

// A Subsystem is what hosts connect to.
type Subsystem struct {
	NQN              nvmeof.NQN   `json:"nqn" need:"yes" doc:"Name of the subsystem."`
	Serial           string       `json:"serial,omitzero" max:"20" doc:"Serial number, ASCII. Default: derived from the name."`
	Model            string       `json:"model,omitzero" default:"nvmeof" max:"40" doc:"Model, ASCII. Default nvmeof."`
	MinControllerID  int          `json:"min-controller-id,omitzero" min:"1" max:"65519" doc:"Lowest controller identifier. Default 1."`
	MaxControllerID  int          `json:"max-controller-id,omitzero" min:"1" max:"65519" doc:"Highest controller identifier. Default 65519."`
	NVMeVersion      NVMeVersion  `json:"nvme-version,omitzero" default:"2.0" doc:"NVMe version that controllers report: 1.2.1, 1.3, 1.4 or 2.0. Default 2.0."`
	RefuseDuplicates bool         `json:"refuse-duplicates,omitzero" default:"false" doc:"Refuse a host that already has a controller through the same listener. Default false."`
	AllowAnyHost     bool         `json:"allow-any-host,omitzero" default:"false" doc:"Let every host connect. Default false."`
	State            Path         `json:"state,omitzero" doc:"Absolute path of a file that keeps the SMART counters, and the write protection that hosts set, across restarts. Default: none."`
	Listeners        []int        `json:"listeners,omitempty" doc:"Identifiers of the listeners that show the subsystem. Default: all."`
	Hosts            []*Host      `json:"hosts,omitempty" doc:"Hosts that may connect."`
	Namespaces       []*Namespace `json:"namespaces,omitempty" doc:"What the subsystem exports."`
}

// A Host is a host that may connect to a subsystem.
type Host struct {
	NQN               nvmeof.NQN `json:"nqn" need:"yes" doc:"Name of the host; on a Linux host: cat /etc/nvme/hostnqn."`
	Access            Access     `json:"access,omitzero" default:"write" doc:"Access to namespaces that are not listed: write, read or none. Default write."`
	Namespaces        []*Right   `json:"namespaces,omitempty" doc:"Access to single namespaces."`
	KeyFile           KeyFile    `json:"key-file,omitzero" doc:"File with the key (DHHC-1:...) by which the host authenticates. Default: the host does not authenticate."`
	ControllerKeyFile KeyFile    `json:"controller-key-file,omitzero" doc:"File with the key by which the target authenticates to the host."`
	Hashes            []Hash     `json:"hashes,omitempty" doc:"Hash functions that DH-HMAC-CHAP may use, the preferred one first. Default: all."`
	DHGroups          []Group    `json:"dh-groups,omitempty" doc:"DH groups that DH-HMAC-CHAP may use, the preferred one first. Default: all."`
}

// A Right is what a host may do with a namespace.
type Right struct {
	NSID     int    `json:"nsid" need:"yes" min:"1" max:"4096" doc:"Namespace."`
	Access   Access `json:"access" need:"yes" doc:"write, read, or none: the host does not see the namespace."`
	Only     bool   `json:"only,omitzero" default:"false" doc:"Exclusive use: the API grants the namespace to no other host while this one has it. Access that the configuration gives to others remains. Default false."`
	NoWriter bool   `json:"no-writer,omitzero" default:"false" doc:"The API grants the namespace to no other writing host while this one has it. Default false."`
}

// A Namespace describes a namespace. Exactly one of File, Block, Memory and RBD is given.
type Namespace struct {
	NSID               int     `json:"nsid" need:"yes" min:"1" max:"4096" doc:"Identifier of the namespace."`
	File               *File   `json:"file,omitempty" doc:"A regular file."`
	Block              *Block  `json:"block,omitempty" doc:"A block device."`
	Memory             *Memory `json:"memory,omitempty" doc:"Memory, which is lost when the target ends."`
	RBD                *RBD    `json:"rbd,omitempty" doc:"An image of a Ceph cluster. Requires a build with -tags rbd."`
	BlockSize          int     `json:"block-size,omitzero" export:"bs" oneof:"512 4096" doc:"Logical block size in bytes, 512 or 4096. Default: 512, or the device's own."`
	ReadOnly           bool    `json:"read-only,omitzero" default:"false" doc:"Write-protect the namespace for all hosts. Default false."`
	Shared             bool    `json:"shared,omitzero" default:"false" doc:"Allow other namespaces that are also shared to have the same file or device. Default false."`
	UUID               UUID    `json:"uuid,omitzero" doc:"UUID of the namespace. Default: derived from the subsystem's NQN, the NSID and the path, and for a file that the target created also from a mark in the file; a new one at each start for memory."`
	NGUID              NGUID   `json:"nguid,omitzero" doc:"NGUID of the namespace, 32 hexadecimal digits. Default: the UUID."`
	EUI64              EUI64   `json:"eui64,omitzero" doc:"EUI-64 of the namespace, 16 hexadecimal digits. Default: none."`
	ANAGroup           int     `json:"ana-group,omitzero" default:"1" min:"1" max:"128" doc:"ANA group. Default 1; with gateways one of 32 that is derived from the names: 1 to 32, with fence: lease 33 to 64."`
	Fence              Fence   `json:"fence,omitzero" doc:"With gateways: how a gateway that failed is kept from writing. storage: the storage refuses it, as Ceph does; lease: it stops by its own clock. Default: storage for images of Ceph; lease is required for files and devices."`
	RefuseReservations bool    `json:"refuse-reservations,omitzero" default:"false" doc:"Do not allow reservations of the namespace. Default false."`
	// If several namespaces share a volume, Reservations of the first applies.
	Reservations Path `json:"reservations,omitzero" export:"resv" doc:"Absolute path of a file that keeps the reservations of hosts across restarts. Default: none."`
}

// A File is a regular file that is exported.
type File struct {
	Path     Path   `json:"path" need:"yes" doc:"Absolute path of the file."`
	Size     Size   `json:"size,omitzero" doc:"Length of the file, as 10GiB: a missing file is created, a shorter one extended, and a longer one keeps its length. Only the first start creates it: later, since hosts may have written to it, the namespace waits while the file is missing or shorter than it was. Default: the length of the file, which must exist."`
	ReadOnly bool   `json:"read-only,omitzero" export:"ro" default:"false" doc:"Open the file for reading only. Default false."`
	Buffered bool   `json:"buffered,omitzero" default:"false" doc:"Use the page cache. Default false."`
	Thin     bool   `json:"thin,omitzero" default:"false" doc:"Do not preallocate the file, and free what hosts deallocate. Default false."`
	Force    bool   `json:"force,omitzero" default:"false" doc:"Open a file that a virtual machine, a loop device or the kernel's target uses. Two users corrupt its content. Default false."`
	Engine   Engine `json:"engine,omitzero" default:"auto" doc:"I/O engine: auto, uring or threads. Default auto."`
}

// A Block is a block device that is exported.
type Block struct {
	Path     Path   `json:"path" need:"yes" doc:"Absolute path of the device."`
	ReadOnly bool   `json:"read-only,omitzero" export:"ro" default:"false" doc:"Open the device for reading only. Default false."`
	Buffered bool   `json:"buffered,omitzero" default:"false" doc:"Use the page cache. Default false."`
	Force    bool   `json:"force,omitzero" default:"false" doc:"Open a device that is mounted or otherwise in use. Two users corrupt its content. Default false."`
	Engine   Engine `json:"engine,omitzero" default:"auto" doc:"I/O engine: auto, uring or threads. Default auto."`
}

// An RBD is an image of a Ceph cluster that is exported.
type RBD struct {
	Image    string `json:"image" need:"yes" max:"1024" doc:"POOL/IMAGE or POOL/NAMESPACE/IMAGE; with @SNAPSHOT a snapshot, which is read-only."`
	Size     Size   `json:"size,omitzero" doc:"Length of the image, as 10GiB: a missing image is created, a smaller one extended, and a larger one keeps its length. Default: the length of the image, which must exist."`
	ReadOnly bool   `json:"read-only,omitzero" export:"ro" default:"false" doc:"Open the image for reading only, without its lock. Default false."`
	Conf     Path   `json:"conf,omitzero" doc:"Absolute path of the cluster's ceph.conf. Default: CEPH_CONF, or /etc/ceph/ceph.conf."`
	ID       string `json:"id,omitzero" default:"admin" max:"128" doc:"Client of the cluster, without the prefix client. Default admin."`
}

// A Memory is exported memory.
type Memory struct {
	Size Size `json:"size" need:"yes" doc:"Size of the memory, as 1GiB; the data is lost when the target ends."`
}

// A Referral refers hosts to another discovery service.
type Referral struct {
	Address   Address    `json:"address" need:"yes" doc:"IP address of the other service, or ADDRESS:PORT. The default port is 4420."`
	Transport TrType     `json:"transport,omitzero" default:"rdma" doc:"rdma or tcp. Default rdma."`
	NQN       nvmeof.NQN `json:"nqn,omitzero" default:"nqn.2014-08.org.nvmexpress.discovery" doc:"NQN of its discovery subsystem. Default: the well-known one."`
	PortID    int        `json:"port-id,omitzero" min:"0" max:"65535" doc:"Identifier of the listener there. Default 0."`
	Secure    bool       `json:"secure,omitzero" default:"false" doc:"Hosts must authenticate there. Default false."`
}
