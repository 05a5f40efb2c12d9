package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// IndependentNamespace prints the data of Identify CNS 08h as `nvme cmdset-ind-id-ns`
// does.
func (o Output) IndependentNamespace(nsid capsule.NSID, n *capsule.IdentifyNamespaceIndependent) error {
	nsattr := dec("nsattr\t", n.NSATTR)
	fields := []field{hexField("nsfeat", n.NSFEAT), hexField("nmic", n.NMIC), hexField("rescap", n.RESCAP), hexField("fpi", n.FPI),
		dec("anagrpid", n.ANAGRPID), nsattr, dec("nvmsetid", n.NVMSETID), dec("endgid", n.ENDGID), hexField("nstat", n.NSTAT),
		hexField("kpios", n.KPIOS), hexField("maxkt", n.MAXKT), hexField("rgrpid", n.RGRPID)}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVME Identify Command Set Independent Namespace %d:\n", nsid)
		if !o.Human {
			writeFields(b, 8, fields)
			return
		}
		writeSpelled(b, 8, fields, func(f field) string { return choose(f.name == "nsfeat", "nsfeat independent", bySameName(f)) })
	}, func() any { return members(fields) })
}
