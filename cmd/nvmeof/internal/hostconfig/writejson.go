package hostconfig

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// WriteJSON returns entries as a config.json: hosts, their subsystems, and the ports of those, each in the order of
// its first entry. The result contains their secrets.
func WriteJSON(entries []Entry) ([]byte, error) {
	var hosts []*jsonHost
	for i := range entries {
		e := &entries[i]
		h := findOr(&hosts, func(h *jsonHost) bool { return h.HostNQN == e.Options["hostnqn"] && h.HostID == e.Options["hostid"] },
			&jsonHost{HostNQN: e.Options["hostnqn"], HostID: e.Options["hostid"]})
		s := findOr(&h.Subsystems, func(s *jsonSubsystem) bool { return s.NQN == e.NQN() }, &jsonSubsystem{NQN: e.NQN()})
		s.Ports = append(s.Ports, e.port())
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if hosts == nil {
		hosts = []*jsonHost{}
	}
	err := enc.Encode(hosts)
	return b.Bytes(), err
}

type jsonHost struct {
	HostNQN    string           `json:"hostnqn,omitempty"`
	HostID     string           `json:"hostid,omitempty"`
	Subsystems []*jsonSubsystem `json:"subsystems"`
}

type jsonSubsystem struct {
	NQN   string     `json:"nqn"`
	Ports []jsonPort `json:"ports"`
}

// A jsonPort keeps its members in the order of the options.
type jsonPort []jsonMember

type jsonMember struct {
	name, text string
	bare       bool // a number or a boolean
}

func findOr[T any](list *[]*T, is func(*T) bool, fresh *T) *T {
	for _, x := range *list {
		if is(x) {
			return x
		}
	}
	*list = append(*list, fresh)
	return fresh
}

func (e *Entry) port() (p jsonPort) {
	for i := range options {
		o := &options[i]
		if text, given := e.Options[o.Name]; given && o.JSON != "" {
			p = append(p, jsonMember{o.JSON, text, o.kind == kindNumber || o.kind == kindFlag})
		}
	}
	if n := e.NQN(); e.Discovery && n != string(nvmeof.DiscoveryNQN) {
		p = append(p, jsonMember{"discovery", "true", true})
	}
	return p
}

// MarshalJSON writes numbers and booleans without quotes.
func (p jsonPort) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range p {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, m.name), ':')
		if m.bare {
			b = append(b, m.text...)
			continue
		}
		text, err := json.Marshal(m.text)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, '}'), nil
}
