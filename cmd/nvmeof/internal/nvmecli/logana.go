package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// ANA prints the log as `nvme ana-log` does.
func (o Output) ANA(log *capsule.ANALog) error {
	if o.JSON {
		return o.json(o.anaJSON(log))
	}
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "Asymmetric Namespace Access Log for NVMe device: %s\n", o.Device)
		fmt.Fprintf(b, "ANA LOG HEADER :-\nchgcnt\t:\t%d\nngrps\t:\t%d\nANA Log Desc :-\n", log.ChangeCount, len(log.Groups))
		for _, g := range log.Groups {
			fmt.Fprintf(b, "grpid\t:\t%d\nnnsids\t:\t%d\nchgcnt\t:\t%d\nstate\t:\t%s\n", g.Group, len(g.Namespaces), g.ChangeCount, anaState(g.State))
			for _, id := range g.Namespaces {
				fmt.Fprintf(b, "\tnsid\t:\t%d\n", id)
			}
			b.WriteByte('\n')
		}
	})
}

func (o Output) anaJSON(log *capsule.ANALog) object {
	groups := []object{}
	for _, g := range log.Groups {
		groups = append(groups, object{
			{"grpid", integer(g.Group)}, {"nnsids", integer(len(g.Namespaces))}, {"chgcnt", integer(g.ChangeCount)},
			{"state", anaState(g.State)}, {"NSIDS", nsids(g.Namespaces)},
		})
	}
	return object{
		{"Asymmetric Namespace Access Log for NVMe device", o.Device},
		{"chgcnt", integer(log.ChangeCount)}, {"ngrps", integer(len(log.Groups))}, {"ANA DESC LIST ", groups},
	}
}

func nsids(ids []capsule.NSID) []object {
	list := []object{}
	for _, id := range ids {
		list = append(list, object{{"nsid", integer(id)}})
	}
	return list
}

func anaState(s capsule.ANAState) string {
	switch s {
	case capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange:
		return s.String()
	}
	return "invalid state"
}
