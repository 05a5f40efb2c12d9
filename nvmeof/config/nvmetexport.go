package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// DefaultSerial returns the serial number of a subsystem for which none is given.
func DefaultSerial(nqn nvmeof.NQN) string {
	sum := sha256.Sum256([]byte(nqn))
	return hex.EncodeToString(sum[:10])
}

// DefaultUUID returns the UUID of a namespace for which none is given. name is what it exports, like a path. mark
// is that of a file which the target has created, or nil.
func DefaultUUID(nqn nvmeof.NQN, nsid int, name string, mark []byte) UUID {
	of := fmt.Appendf(nil, "%s\x00%d\x00%s", string(nqn), nsid, name)
	if len(mark) > 0 {
		of = append(append(of, 0), mark...)
	}
	return UUID(uuid.NewSHA1(uuid.NameSpaceURL, of))
}

// An nvmetWriter converts a document to nvmetcli's format.
type nvmetWriter struct {
	doc                *Document
	readKey            func(KeyFile) (string, error)
	problems, warnings Problems
}

type fields = map[string]any

// ExportNvmetcli returns the document in the format of nvmetcli's /etc/nvmet/config.json: sorted, with attributes
// as strings. It has the attributes that the document gives, and those for which the kernel would choose a random
// value; for the rest the kernel has defaults. A namespace without a UUID gets that of a file without a mark.
//
// A setting that the kernel's target does not support is a warning. It is one of the [Problems] if without it
// somebody could read or write more, or something would be missing. readKey reads a key file.
func ExportNvmetcli(doc *Document, readKey func(KeyFile) (string, error)) (text []byte, warnings Problems, err error) {
	w := &nvmetWriter{doc: doc, readKey: readKey}
	out := fields{"hosts": w.hosts(), "ports": w.ports(), "subsystems": w.subsystems()}
	if doc.DiscoveryNQN != "" {
		out["discovery"] = fields{"nqn": string(doc.DiscoveryNQN)}
	}
	for _, f := range fieldChanges(&Limits{}, &doc.Limits) {
		if !slices.Contains([]string{"in-capsule", "queue-depth", "queues"}, f.Name) {
			w.warn("limits."+f.Name, "left out: the kernel's target has no such limit")
		}
	}
	if doc.Congestion != (Congestion{}) {
		w.warn("congestion", "left out: the kernel's target leaves that to the RDMA device")
	}
	if len(doc.Sandbox.Paths) > 0 {
		w.warn("sandbox", "left out: the kernel's target is not a process")
	}
	if doc.Metrics != (Metrics{}) {
		w.warn("metrics", "left out: the kernel's target serves no metrics")
	}
	if doc.Events != (Events{}) {
		w.warn("events", "left out: the kernel's target keeps no events")
	}
	if doc.Audit != (Audit{}) {
		w.warn("audit", "left out: the kernel's target writes no audit log")
	}
	if doc.Console != (Console{}) {
		w.warn("console", "left out: the kernel's target has no console")
	}
	if doc.Grouped() {
		w.warn("group", "left out: the kernel's target is not in a group of gateways")
	}
	if err := w.problems.err(); err != nil {
		return nil, nil, err
	}
	return []byte(ascii(string(JSON(out)))), w.warnings, nil
}

// ascii escapes the characters that Python's json.dumps escapes.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

func (w *nvmetWriter) fail(path, fix, format string, args ...any) {
	w.problems = append(w.problems, Problem{Path: path, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (w *nvmetWriter) warn(path, format string, args ...any) {
	w.warnings = append(w.warnings, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// hosts returns the hosts of all subsystems, each once.
func (w *nvmetWriter) hosts() []any {
	out, seen := []any{}, map[nvmeof.NQN]*Host{}
	for i, s := range w.doc.Subsystems {
		for j, h := range s.Hosts {
			path := fmt.Sprintf("subsystems[%d].hosts[%d]", i, j)
			if h.Access != "" && h.Access != "write" || len(h.Namespaces) > 0 {
				w.fail(path, "remove access and namespaces", "the kernel's target gives every allowed host all namespaces")
			}
			if first := seen[h.NQN]; first != nil {
				if first.KeyFile != h.KeyFile || first.ControllerKeyFile != h.ControllerKeyFile {
					w.fail(path, "give it one key for all subsystems", "the kernel's target has one key per host, but %s has a different one in another subsystem", h.NQN)
				}
				continue
			}
			seen[h.NQN] = h
			out = append(out, w.host(h, path))
		}
	}
	return out
}

func (w *nvmetWriter) host(h *Host, path string) fields {
	out := fields{"nqn": string(h.NQN)}
	chap := fields{}
	for name, file := range map[string]KeyFile{"key": h.KeyFile, "ctrl_key": h.ControllerKeyFile} {
		if file == "" {
			continue
		}
		secret, err := w.readKey(file)
		if err != nil {
			w.fail(path, "", "%v", err)
		}
		chap[name] = strings.TrimSpace(secret)
	}
	if len(h.Hashes) > 0 {
		chap["hash"] = "hmac(" + string(h.Hashes[0]) + ")"
	}
	if len(h.DHGroups) > 0 {
		chap["dhgroup"] = string(h.DHGroups[0])
	}
	if len(h.Hashes) > 1 || len(h.DHGroups) > 1 {
		w.warn(path, "the kernel's target has one hash and one DH group per host: the first ones are used")
	}
	if len(chap) > 0 {
		out["dhchap"] = chap
	}
	return out
}

func (w *nvmetWriter) ports() []any {
	out := []any{}
	for i, l := range w.doc.Listeners {
		names := []string{}
		for _, s := range w.doc.Subsystems {
			if s.On(l.ID) {
				names = append(names, string(s.NQN))
			}
		}
		p := fields{"portid": l.ID, "addr": address(l.Address, "rdma"), "ana_groups": w.groups(l), "referrals": []any{}, "subsystems": names}
		if i == 0 {
			p["referrals"] = w.referrals()
		}
		param := fields{}
		if n := w.doc.Limits.InCapsule; n > 0 {
			param["inline_data_size"] = strconv.Itoa(int(n))
		}
		if n := w.doc.Limits.QueueDepth; n > 0 {
			param["max_queue_size"] = strconv.Itoa(n)
		}
		if len(param) > 0 {
			p["param"] = param
		}
		out = append(out, p)
	}
	return out
}

func address(a Address, kind string) fields {
	family := "ipv4"
	if a.Addr().Is6() {
		family = "ipv6"
	}
	return fields{"adrfam": family, "traddr": a.Addr().String(), "treq": "not specified",
		"trsvcid": strconv.Itoa(int(a.Port())), "trtype": kind}
}

// groups returns the ANA groups of a listener, and other groups in use. Without an entry, those would be
// inaccessible in the kernel.
func (w *nvmetWriter) groups(l *Listener) []any {
	states := map[int]ANAState{}
	for _, g := range l.ANAGroups {
		states[g.Group] = g.State
	}
	for _, s := range w.doc.Subsystems {
		for _, n := range s.Namespaces {
			if _, named := states[n.ANAGroup]; !named && n.ANAGroup > 1 && s.On(l.ID) {
				states[n.ANAGroup] = "optimized"
			}
		}
	}
	if _, named := states[1]; !named {
		states[1] = "optimized"
	}
	out := []any{}
	for g := 1; g <= 128; g++ {
		if state, ok := states[g]; ok {
			out = append(out, fields{"ana": fields{"state": string(state)}, "grpid": g})
		}
	}
	return out
}

func (w *nvmetWriter) referrals() []any {
	out := []any{}
	for i, x := range w.doc.Referrals {
		kind := "rdma"
		if x.Transport == "tcp" {
			kind = "tcp"
		}
		if x.NQN != "" && x.NQN != discoveryNQN {
			w.warn(fmt.Sprintf("referrals[%d].nqn", i), "left out: the kernel's referrals have no NQN")
		}
		addr := address(x.Address, kind)
		if x.PortID != 0 {
			addr["portid"] = strconv.Itoa(x.PortID)
		}
		if x.Secure {
			addr["treq"] = "required"
		}
		out = append(out, fields{"addr": addr, "enable": 1, "name": fmt.Sprintf("r%d", i+1)})
	}
	return out
}

func (w *nvmetWriter) subsystems() []any {
	out := []any{}
	for i, s := range w.doc.Subsystems {
		path := fmt.Sprintf("subsystems[%d]", i)
		attr := fields{"allow_any_host": "0", "serial": s.Serial}
		if s.AllowAnyHost {
			attr["allow_any_host"] = "1"
		}
		if s.Serial == "" {
			attr["serial"] = DefaultSerial(s.NQN)
		}
		if s.Model != "" {
			attr["model"] = s.Model
		}
		if s.NVMeVersion != "" {
			attr["version"] = string(s.NVMeVersion)
		}
		for name, n := range map[string]int{"cntlid_min": s.MinControllerID, "cntlid_max": s.MaxControllerID, "qid_max": w.doc.Limits.Queues} {
			if n > 0 {
				attr[name] = strconv.Itoa(n)
			}
		}
		if s.RefuseDuplicates {
			w.warn(path+".refuse-duplicates", "left out: the kernel's target accepts a second connection of a host")
		}
		if s.State != "" {
			w.warn(path+".state", "left out: the kernel's target does not keep counters and write protection across restarts")
		}
		hosts, namespaces := []string{}, []any{}
		for _, h := range s.Hosts {
			hosts = append(hosts, string(h.NQN))
		}
		for j, n := range s.Namespaces {
			namespaces = append(namespaces, w.namespace(s, n, fmt.Sprintf("%s.namespaces[%d]", path, j)))
		}
		out = append(out, fields{"nqn": string(s.NQN), "attr": attr, "allowed_hosts": hosts, "namespaces": namespaces})
	}
	return out
}

func (w *nvmetWriter) namespace(s *Subsystem, n *Namespace, path string) fields {
	switch {
	case n.Memory != nil:
		w.fail(path, "use a file on a tmpfs", "the kernel's target cannot export memory")
	case n.RBD != nil:
		w.fail(path, "map it to a block device, and export that: rbd map "+n.RBD.Image, "the kernel's target cannot export images of Ceph")
	case n.ReadOnly || n.File != nil && n.File.ReadOnly || n.Block != nil && n.Block.ReadOnly:
		w.fail(path, "remove read-only", "hosts could write to it through the kernel's target")
	case n.File != nil && n.BlockSize != 4096:
		w.fail(path, "keep it with this target", "the kernel's target serves files in blocks of 4096 bytes, and hosts could not use data that was written in blocks of 512")
	}
	if n.Reservations != "" {
		w.warn(path+".reservations", "left out: the kernel's target does not keep reservations across restarts")
	}
	if n.EUI64 != (EUI64{}) {
		w.warn(path+".eui64", "left out: the kernel's target has no EUI-64")
	}
	id := n.UUID
	if id == (UUID{}) {
		id = DefaultUUID(s.NQN, n.NSID, string(n.Path()), nil)
	}
	group := max(n.ANAGroup, 1)
	reserve := "1" // the kernel's default is 0
	if n.RefuseReservations {
		reserve = "0"
	}
	return fields{"nsid": n.NSID, "ana_grpid": group, "enable": 1, "resv": fields{"enable": reserve}, "device": fields{
		"path": string(n.Path()), "uuid": id.String(), "nguid": uuid.UUID(n.NGUID).String()}}
}
