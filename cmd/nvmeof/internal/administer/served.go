package administer

import (
	"context"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// found maps the namespaces that are served.
type found map[waiter]*control.Served

func findServed(status *control.Status) found {
	f := found{}
	for i := range status.Served {
		x := &status.Served[i]
		f[waiter{subsystem: x.Subsystem, id: x.NSID}] = x
	}
	return f
}

// of returns how a namespace appears to hosts; nil: not known.
func (f found) of(subsystem nvmeof.NQN, id int) *control.Served {
	return f[waiter{subsystem: subsystem, id: id}]
}

// sizeOf returns the size that hosts see; if that is not known, the configured one.
func sizeOf(now *control.Served, configured string) string {
	if now == nil {
		return configured
	}
	return config.Size(now.Size).String()
}

// conditions returns what keeps hosts from writing, or from any progress.
func conditions(n *config.Namespace, now *control.Served) []string {
	all := restrictions(n, now)
	if now != nil && now.Paused {
		all = append(all, "paused")
	}
	return all
}

// restrictions returns what keeps hosts from writing although they have the right to.
func restrictions(n *config.Namespace, now *control.Served) (all []string) {
	if n.ReadOnly || now != nil && now.ReadOnly {
		all = append(all, "read-only")
	}
	if now != nil && now.Protected != "" {
		all = append(all, protection(now))
	}
	return all
}

// protection describes the write protection that a host has set, and its duration.
func protection(now *control.Served) string {
	return "write-protected by a host " + strings.ReplaceAll(string(now.Protected), "-", " ")
}

// namespaceRows reads the additional information for a list of namespaces.
func namespaceRows(ctx context.Context, v *verb) (func(*config.Namespace) []any, error) {
	var status control.Status
	if err := v.Get(ctx, "/v1/status", &status); err != nil {
		return nil, err
	}
	t := newTree(nil, &status)
	return func(n *config.Namespace) []any {
		kind, export, size := describe(n)
		nqn := nvmeof.NQN(v.nqn)
		now := t.served.of(nqn, n.NSID)
		access, uuid, block := orElse(strings.Join(restrictions(n, now), ", "), "write"), "", "default"
		if now != nil {
			uuid, block = now.UUID, fmt.Sprint(now.BlockSize)
		} else if n.UUID != (config.UUID{}) {
			uuid = n.UUID.String()
		}
		if n.BlockSize > 0 {
			block = fmt.Sprint(n.BlockSize)
		}
		return []any{n.NSID, kind, export, sizeOf(now, size), block, max(n.ANAGroup, 1), access, t.state(nqn, n, now, &status), uuid}
	}, nil
}

// A listedNamespace is a namespace in a list for programs: its configuration and its state.
type listedNamespace struct {
	config.Namespace
	State  string          `json:"state,omitempty"`  // as in the table
	Why    string          `json:"why,omitempty"`    // why it waits, or its trouble
	Served *control.Served `json:"served,omitempty"` // as hosts see it; none: not known
}

// namespaceFacts reads the additional information for a list for programs.
func namespaceFacts(ctx context.Context, v *verb) (func(*config.Namespace) any, error) {
	var status control.Status
	if err := v.Get(ctx, "/v1/status", &status); err != nil {
		return nil, err
	}
	t := newTree(nil, &status)
	nqn := nvmeof.NQN(v.nqn)
	return func(n *config.Namespace) any {
		at := waiter{subsystem: nqn, id: n.NSID}
		now := t.served.of(nqn, n.NSID)
		return &listedNamespace{*n, t.state(nqn, n, now, &status), orElse(t.waiting[at], t.trouble[at]), now}
	}, nil
}

// state returns the state of a namespace as one word.
func (t tree) state(nqn nvmeof.NQN, n *config.Namespace, now *control.Served, status *control.Status) string {
	at := waiter{subsystem: nqn, id: n.NSID}
	switch {
	case t.waiting[at] != "":
		return "waiting"
	case t.trouble[at] != "":
		return "trouble"
	case !status.Gateway.Serves(max(n.ANAGroup, 1)):
		return "elsewhere"
	case now == nil:
		return ""
	case now.Paused:
		return "paused"
	}
	return "ready"
}

// namespaceNote describes how a namespace appears to hosts, as a comment below its configuration.
func namespaceNote(ctx context.Context, v *verb, n *config.Namespace) (string, error) {
	var status control.Status
	if err := v.Get(ctx, "/v1/status", &status); err != nil {
		return "", err
	}
	t := newTree(nil, &status)
	now := t.served.of(nvmeof.NQN(v.nqn), n.NSID)
	if now == nil {
		if wait := t.wait(nvmeof.NQN(v.nqn), n.NSID); wait != "" {
			return strings.Replace(wait, ", ", "# ", 1) + "\n", nil
		}
		return "", nil
	}
	parts := append([]string{config.Size(now.Size).String(), fmt.Sprintf("blocks of %d bytes", now.BlockSize), "UUID " + now.UUID, "NGUID " + now.NGUID}, conditions(n, now)...)
	return "# hosts find: " + strings.Join(parts, ", ") + t.wait(nvmeof.NQN(v.nqn), n.NSID) + "\n", nil
}
