package nvmecli

import (
	"fmt"
	"io"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Discovery is a discovery log.
type Discovery struct {
	Generation uint64
	Entries    []capsule.DiscoveryEntry
}

// Text prints the log as `nvme discover` does.
func (d *Discovery) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nDiscovery Log Number of Records %d, Generation counter %d\n", len(d.Entries), d.Generation)
	for i := range d.Entries {
		fmt.Fprintf(&b, "=====Discovery Log Entry %d======\n", i)
		for _, f := range discoveryFields(&d.Entries[i]) {
			if f.name == "rdma_pkey" { // the only name that is not padded
				fmt.Fprintf(&b, "%s: %s\n", f.name, f.text)
				continue
			}
			fmt.Fprintf(&b, "%s:%s %s\n", f.name, strings.Repeat(" ", padding(f.name)), f.text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// padding returns the column at which the texts start: 8 for names of the common part, and 12 for those of RDMA.
func padding(name string) int {
	width := 7
	if strings.HasPrefix(name, "rdma_") {
		width = 11
	}
	return max(0, width-len(name))
}

// JSON prints the log as `nvme discover -o json` does.
func (d *Discovery) JSON(w io.Writer) error {
	records := []object{}
	for i := range d.Entries {
		o := members(discoveryFields(&d.Entries[i]))
		records = append(records, o)
	}
	return writeJSON(w, object{{"genctr", integer(d.Generation)}, {"records", records}})
}

func discoveryFields(e *capsule.DiscoveryEntry) []field {
	adrfam := field{"adrfam", named(adrfams, e.ADRFAM), named(adrfams, e.ADRFAM), 0}
	traddr := clean(e.TRADDR[:])
	if traddr == "" {
		adrfam.text = ""
	}
	fields := []field{
		text("trtype", named(trtypes, e.TRTYPE)),
		adrfam,
		text("subtype", named(subtypes, e.SUBTYPE)),
		text("treq", named(treqs, e.TREQ)),
		dec("portid", e.PORTID),
		text("trsvcid", clean(e.TRSVCID[:])),
		text("subnqn", clean(e.SubNQN[:])),
		text("traddr", traddr),
		text("eflags", named(eflags, e.EFLAGS)),
	}
	if e.TRTYPE == capsule.TransportRDMA {
		pkey := dec("rdma_pkey", e.RDMAPKey)
		pkey.text = fmt.Sprintf("%04x", e.RDMAPKey)
		fields = append(fields,
			text("rdma_prtype", named(prtypes, e.RDMAPRType)),
			text("rdma_qptype", named(qptypes, e.RDMAQPType)),
			text("rdma_cms", named(cms, e.RDMACMS)),
			pkey)
	}
	return fields
}

// named returns the name of a code.
func named[T comparable](names map[T]string, v T) string {
	if s, ok := names[v]; ok {
		return s
	}
	return "unrecognized"
}

var (
	trtypes = map[capsule.TransportType]string{0: "unspecified", capsule.TransportRDMA: "rdma", capsule.TransportFC: "fc",
		capsule.TransportTCP: "tcp", capsule.TransportLoop: "loop"}
	adrfams = map[capsule.AddressFamily]string{0: "pci", capsule.FamilyIPv4: "ipv4", capsule.FamilyIPv6: "ipv6",
		capsule.FamilyIB: "infiniband", capsule.FamilyFC: "fibre-channel"}
	subtypes = map[capsule.SubsystemType]string{capsule.SubsystemReferral: "discovery subsystem referral",
		capsule.SubsystemNVM: "nvme subsystem", capsule.SubsystemCurrentDiscovery: "current discovery subsystem"}
	treqs = map[uint8]string{0: "not specified", 1: "required", 2: "not required",
		4: "not specified, sq flow control disable supported", 5: "required, sq flow control disable supported",
		6: "not required, sq flow control disable supported"}
	eflags = map[uint16]string{0: "none", 1: "duplicate discovery information", 2: "explicit discovery connections",
		3: "explicit discovery connections, duplicate discovery information"}
	prtypes = map[uint8]string{1: "not specified", 2: "infiniband", 3: "roce", 4: "roce-v2", 5: "iwarp"}
	qptypes = map[uint8]string{1: "connected", 2: "datagram"}
	cms     = map[uint8]string{1: "rdma-cm"}
)
