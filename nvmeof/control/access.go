package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// expelTimeout is how long a withdrawal waits for commands of the host that are in progress.
const expelTimeout = 10 * time.Second

// A grant is the body of a request that allows a host to use a namespace.
type grant struct {
	Access   config.Access `json:"access,omitzero" default:"write" doc:"write or read. Default write."`
	Only     bool          `json:"only,omitzero" default:"false" doc:"Exclusive use: refuse the grant (in-use) while another host may use the namespace, and later grants to other hosts while this host has it. Default false."`
	NoWriter bool          `json:"no-writer,omitzero" default:"false" doc:"Refuse the grant (in-use) while another host may write to the namespace, and later grants of write access to other hosts while this host has it. Default false."`
}

// A GrantedError reports that a namespace cannot be granted to one host alone, or erased, since other hosts may use
// it.
type GrantedError struct {
	Subsystem nvmeof.NQN
	NSID      int
	Hosts     []nvmeof.NQN // hosts that may use it; empty: any host
}

func (e *GrantedError) Error() string {
	who := "any host"
	if len(e.Hosts) > 0 {
		who = "host " + string(e.Hosts[0])
	}
	return fmt.Sprintf("namespace %d of %s may be used by %s: withdraw that access first; nothing was changed", e.NSID, e.Subsystem, who)
}

// An AloneError reports that a namespace cannot be granted to a host because of another host's grant. That grant
// excludes other hosts, or other hosts that write.
type AloneError struct {
	Subsystem nvmeof.NQN
	NSID      int
	Host      nvmeof.NQN // the other host
	Only      bool       // no other host may use it; otherwise no other host may write to it
}

func (e *AloneError) Error() string {
	what := "as its only writer"
	if e.Only {
		what = "exclusively"
	}
	return fmt.Sprintf("namespace %d of %s was granted to host %s %s: withdraw that access first; nothing was changed", e.NSID, e.Subsystem, e.Host, what)
}

// Granted returns the hosts that a subsystem names and that may use a namespace.
func Granted(s *config.Subsystem, nsid int) (names []nvmeof.NQN) {
	for _, h := range s.Hosts {
		if sees(s, h.NQN, nsid) {
			names = append(names, h.NQN)
		}
	}
	return names
}

// grantTo allows a host to use a namespace. A host that is added to the subsystem may use no other namespace,
// unless the subsystem allows any host: then it keeps the access that it had without being named.
func grantTo(s *config.Subsystem, nsid int, host nvmeof.NQN, g grant) error {
	if g.Access == "none" {
		return config.Problems{{Text: "access: none cannot be granted", Fix: "use DELETE to withdraw the host's access"}}
	}
	if err := excluded(s, nsid, host, g); err != nil {
		return err
	}
	h, err := hosts(s).find(string(host))
	if err != nil {
		if h = (&config.Host{NQN: host}); !s.AllowAnyHost {
			h.Access = "none"
		}
		s.Hosts = append(s.Hosts, h)
	}
	dropRight(h, nsid)
	h.Namespaces = append(h.Namespaces, &config.Right{NSID: nsid, Access: cmp.Or(g.Access, "write"), Only: g.Only, NoWriter: g.NoWriter})
	return nil
}

// excluded returns an error if another host's grant excludes this one, or this one excludes another host.
func excluded(s *config.Subsystem, nsid int, host nvmeof.NQN, g grant) error {
	others := slices.DeleteFunc(Granted(s, nsid), func(n nvmeof.NQN) bool { return n == host })
	var writers []nvmeof.NQN
	for _, name := range others {
		r := rightTo(s, name, nsid)
		if r.Only || r.NoWriter && g.Access != "read" {
			return &AloneError{s.NQN, nsid, name, r.Only}
		}
		if r.Access != "read" {
			writers = append(writers, name)
		}
	}
	switch {
	case g.Only && (s.AllowAnyHost || len(others) > 0):
		return &GrantedError{s.NQN, nsid, others}
	case g.NoWriter && (s.AllowAnyHost || len(writers) > 0):
		return &GrantedError{s.NQN, nsid, writers}
	}
	return nil
}

// rightTo returns the right of a named host to a namespace.
func rightTo(s *config.Subsystem, host nvmeof.NQN, nsid int) config.Right {
	h, err := hosts(s).find(string(host))
	if err != nil {
		return config.Right{NSID: nsid, Access: "none"}
	}
	for _, r := range h.Namespaces {
		if r.NSID == nsid {
			return *r
		}
	}
	return config.Right{NSID: nsid, Access: h.Access}
}

// withdrawFrom takes a namespace from a host. A host without a key that may then use no namespace is removed from
// the subsystem.
func withdrawFrom(s *config.Subsystem, nsid int, host nvmeof.NQN) {
	h, err := hosts(s).find(string(host))
	switch {
	case err != nil && !s.AllowAnyHost:
		return
	case err != nil:
		h = &config.Host{NQN: host}
		s.Hosts = append(s.Hosts, h)
	}
	dropRight(h, nsid)
	if h.Access != "none" {
		h.Namespaces = append(h.Namespaces, &config.Right{NSID: nsid, Access: "none"})
	}
	if h.Access == "none" && len(h.Namespaces) == 0 && h.KeyFile == "" && h.ControllerKeyFile == "" && !s.AllowAnyHost {
		_ = hosts(s).remove(string(host))
	}
}

func dropRight(h *config.Host, nsid int) {
	h.Namespaces = slices.DeleteFunc(h.Namespaces, func(r *config.Right) bool { return r.NSID == nsid })
}

// Expel waits until a host has no commands in progress in a namespace that it may no longer use. A namespace that
// is not served, or does not exist, has no commands in progress.
func Expel(m *Manager, nqn nvmeof.NQN, nsid int, host nvmeof.NQN) error {
	s, err := m.subsystem(nqn)
	if err != nil {
		return err
	}
	return target.Expel(s, host, capsule.NSID(nsid), expelTimeout)
}

// accessRoutes returns the routes for the hosts of one namespace.
func accessRoutes() []route {
	const base = "/v1/subsystems/{nqn}/namespaces/{nsid}/hosts"
	return []route{
		{"PUT", base + "/{host}", "grantNamespace", "Allow a host to use a namespace. A host that is added by this may use no other namespace of the subsystem", namespaceOptions, grant{}, Result{}, false,
			func(c *call) (any, error) {
				var g grant
				if err := config.ParsePart("", c.body, &g); err != nil {
					return nil, err
				}
				return c.editAccess(func(s *config.Subsystem, nsid int, host nvmeof.NQN) error {
					if _, err := namespaces(s).find(itoa(nsid)); err != nil {
						return err
					}
					return grantTo(s, nsid, host, g)
				})
			}},
		{"DELETE", base + "/{host}", "withdrawNamespace", "Withdraw a host's access to a namespace, and abort its commands there; also for a host that has no access any more. The response is sent when the last of the commands has ended, in a group at all gateways. If a store does not complete them within 10 s, it is an error (failed): repeat the request", namespaceOptions, nil, Result{}, false,
			func(c *call) (any, error) {
				answer, err := c.editAccess(func(s *config.Subsystem, nsid int, host nvmeof.NQN) error {
					withdrawFrom(s, nsid, host)
					return nil
				})
				if err != nil || c.option("dry-run") {
					return answer, err
				}
				nsid, _ := c.number("nsid") // editAccess has parsed it already
				if err := Expel(c.manager, nvmeof.NQN(c.path("nqn")), nsid, nvmeof.NQN(c.path("host"))); err != nil {
					return answer, err
				}
				return answer, followed(c.context, c.manager, NamespaceRef{nvmeof.NQN(c.path("nqn")), nsid})
			}},
		{"DELETE", base, "withdrawNamespaceFromAll", "Withdraw the access of all listed hosts to a namespace, and abort the commands of hosts that may not use it, as withdrawNamespace does", namespaceOptions, nil, Result{}, false,
			func(c *call) (any, error) { return c.withdrawAll() }},
	}
}

// withdrawAll takes the namespace in the path from all named hosts.
func (c *call) withdrawAll() (any, error) {
	nsid, err := c.number("nsid")
	if err != nil {
		return nil, err
	}
	answer, err := c.edit(func(d *config.Document) error {
		s, err := c.subsystem(d)
		if err != nil {
			return err
		}
		for _, host := range Granted(s, nsid) {
			withdrawFrom(s, nsid, host)
		}
		return nil
	})
	if err != nil || c.option("dry-run") {
		return answer, err
	}
	s, err := c.manager.subsystem(nvmeof.NQN(c.path("nqn")))
	if err == nil {
		err = target.ExpelDenied(s, capsule.NSID(nsid), expelTimeout)
	}
	if err != nil {
		return answer, err
	}
	return answer, followed(c.context, c.manager, NamespaceRef{nvmeof.NQN(c.path("nqn")), nsid})
}

// editAccess edits the access of the host in the path to the namespace in the path.
func (c *call) editAccess(edit func(s *config.Subsystem, nsid int, host nvmeof.NQN) error) (any, error) {
	nsid, err := c.number("nsid")
	if err != nil {
		return nil, err
	}
	host, err := nvmeof.AnyNQN(c.path("host"))
	if err != nil {
		return nil, config.Problems{{Text: "host: " + err.Error()}}
	}
	return c.edit(func(d *config.Document) error {
		s, err := c.subsystem(d)
		if err != nil {
			return err
		}
		return edit(s, nsid, nvmeof.NQN(host))
	})
}
