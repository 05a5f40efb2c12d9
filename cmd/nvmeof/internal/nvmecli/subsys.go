package nvmecli

import (
	"fmt"
	"io"
	"strings"
)

// A Subsystem is a connected subsystem.
type Subsystem struct {
	Name, NQN, HostNQN, HostID    string
	Model, Firmware, Policy, Type string // shown with --verbose
	Paths                         []Path

	// Additional fields of `nvme list -v`.
	Serial     string
	Namespaces []Device
}

// A Path is a controller of a subsystem.
type Path struct {
	Name, Transport, Address, State string
	ANA                             string // of the named namespace; may be empty
	Error                           string // why it is not live

	ControllerID uint16
	Ways         []Way // to its namespaces, as far as known
}

// A Way is a controller's path to a namespace, such as nvme0c0n1, with its ANA state.
type Way struct{ Name, State string }

// SubsystemsText prints subsystems as `nvme list-subsys` does; with more, as `nvme list-subsys -v`.
func SubsystemsText(w io.Writer, all []Subsystem, more bool) error {
	var b strings.Builder
	for i := range all {
		s := &all[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		indent := strings.Repeat(" ", len(s.Name)+3)
		fmt.Fprintf(&b, "%s - NQN=%s\n%shostnqn=%s\n", s.Name, harmless(s.NQN), indent, harmless(s.HostNQN))
		if more {
			fmt.Fprintf(&b, "%smodel=%s\n%sfirmware=%s\n%siopolicy=%s\n%stype=%s\n",
				indent, harmless(s.Model), indent, harmless(s.Firmware), indent, s.Policy, indent, s.Type)
		}
		b.WriteString("\\\n")
		for _, p := range s.Paths {
			fmt.Fprintf(&b, " +- %s %s %s %s", p.Name, p.Transport, p.Address, p.State)
			if p.ANA != "" {
				b.WriteString(" " + p.ANA)
			}
			if more && p.Error != "" {
				b.WriteString(": " + harmless(p.Error))
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// SubsystemsJSON prints the same with `-o json`: the subsystems grouped by host.
func SubsystemsJSON(w io.Writer, all []Subsystem, more bool) error {
	return writeJSON(w, byHost(all, func(s *Subsystem) object { return s.json(more) }))
}

// byHost groups the subsystems by host, each converted by show.
func byHost(all []Subsystem, show func(*Subsystem) object) []object {
	hosts := []object{}
	subsystems := map[[2]string]int{} // index into hosts and lists
	lists := [][]object{}
	for i := range all {
		s := &all[i]
		who := [2]string{s.HostNQN, s.HostID}
		at, ok := subsystems[who]
		if !ok {
			at = len(hosts)
			subsystems[who] = at
			hosts = append(hosts, object{{"HostNQN", s.HostNQN}, {"HostID", s.HostID}})
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], show(s))
	}
	for i := range hosts {
		hosts[i] = append(hosts[i], member{"Subsystems", lists[i]})
	}
	return hosts
}

func (s *Subsystem) json(more bool) object {
	o := object{{"Name", s.Name}, {"NQN", s.NQN}}
	if more {
		o = append(o, object{{"Model", s.Model}, {"Firmware", s.Firmware}, {"IOPolicy", s.Policy}, {"Type", s.Type}}...)
	}
	paths := []object{}
	for _, p := range s.Paths {
		o := object{{"Name", p.Name}, {"Transport", p.Transport}, {"Address", p.Address}, {"State", p.State}}
		if p.ANA != "" {
			o = append(o, member{"ANAState", p.ANA})
		}
		if p.Error != "" {
			o = append(o, member{"Error", p.Error})
		}
		paths = append(paths, o)
	}
	return append(o, member{"Paths", paths})
}

// ConnectText prints which controller was connected, as `nvme connect` does.
func ConnectText(w io.Writer, name string) error {
	_, err := fmt.Fprintf(w, "connecting to device: %s\n", name)
	return err
}

// ConnectJSON prints the same as `nvme connect -o json` does.
func ConnectJSON(w io.Writer, name string) error { return writeJSON(w, object{{"device", name}}) }
