package nvmecli

import (
	"fmt"
	"io"
	"strings"
)

// ListVerboseText prints subsystems, their controllers and their namespaces as `nvme list -v` does, followed by the
// URIs of the published namespaces.
func ListVerboseText(w io.Writer, all []Subsystem) error {
	var b strings.Builder
	b.WriteString(verboseHead("Subsystem", 16, "Subsystem-NQN", 96, "Controllers", 16))
	for _, s := range all {
		fmt.Fprintf(&b, "%-16s %-96s %s\n", s.Name, harmless(s.NQN), s.controllers())
	}
	b.WriteString("\n" + verboseHead("Device", 16, "Cntlid", 6, "SN", 20, "MN", 40, "FR", 8, "TxPort", 6, "Address", 14, "Slot", 6, "Subsystem", 12, "Namespaces", 16))
	for _, s := range all {
		for _, p := range s.Paths {
			fmt.Fprintf(&b, "%-8s %-6d %-20s %-40s %-8s %-6s %-14s %-6s %-12s %s\n", p.Name, p.ControllerID, harmless(s.Serial), harmless(s.Model),
				harmless(s.Firmware), p.Transport, p.Address, "", s.Name, s.nodes())
		}
	}
	b.WriteString("\n" + verboseHead("Device", 17, "Generic", 17, "NSID", 10, "Usage", 26, "Format", 16, "Controllers", 16))
	for _, s := range all {
		for i := range s.Namespaces {
			d := &s.Namespaces[i]
			fmt.Fprintf(&b, "%-12s %-12s %-10s %-26s %-16s %s\n", d.Node, d.Generic, fmt.Sprintf("0x%x", d.NSID), d.usage(), d.format(), s.controllers())
		}
	}
	gap := "\n"
	for _, s := range all {
		gap = published(&b, s.Namespaces, gap)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verboseHead returns the head of a table: names with the widths of their rules. The last name of the first table is
// not padded.
func verboseHead(columns ...any) string {
	var names, rules []string
	for i := 0; i < len(columns); i += 2 {
		width := columns[i+1].(int)
		names = append(names, fmt.Sprintf("%-*s", width, columns[i]))
		rules = append(rules, rule(width))
	}
	head := strings.Join(names, " ")
	if columns[0] == "Subsystem" {
		head = strings.TrimRight(head, " ")
	}
	return head + "\n" + strings.Join(rules, " ") + "\n"
}

func (s *Subsystem) controllers() string {
	var names []string
	for _, p := range s.Paths {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (s *Subsystem) nodes() string {
	var names []string
	for _, d := range s.Namespaces {
		names = append(names, d.Node)
	}
	return strings.Join(names, ", ")
}

// ListVerboseJSON prints the same as `nvme list -v -o json`.
func ListVerboseJSON(w io.Writer, all []Subsystem) error {
	return writeJSON(w, object{{"Devices", byHost(all, (*Subsystem).verboseJSON)}})
}

func (s *Subsystem) verboseJSON() object {
	controllers, namespaces := []object{}, []object{}
	for _, p := range s.Paths {
		ways := []object{}
		for _, a := range p.Ways {
			ways = append(ways, object{{"Path", a.Name}, {"ANAState", a.State}})
		}
		controllers = append(controllers, object{
			{"Controller", p.Name}, {"Cntlid", fmt.Sprint(p.ControllerID)}, {"SerialNumber", s.Serial}, {"ModelNumber", s.Model}, {"Firmware", s.Firmware},
			{"Transport", p.Transport}, {"Address", p.Address}, {"Slot", ""}, {"Namespaces", []object{}}, {"Paths", ways},
		})
	}
	for i := range s.Namespaces {
		d := &s.Namespaces[i]
		o := object{{"NameSpace", d.Node}, {"Generic", d.Generic}, {"NSID", integer(d.NSID)}}
		namespaces = append(namespaces, append(o, d.sizes()...))
	}
	return object{{"Subsystem", s.Name}, {"SubsystemNQN", s.NQN}, {"Controllers", controllers}, {"Namespaces", namespaces}}
}
