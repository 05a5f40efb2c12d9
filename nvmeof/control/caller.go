package control

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A Caller is the sender of a request that did not come through the socket. The zero value has no permissions.
type Caller struct {
	Name    string // name of the token
	Address string // address of the client, without the port
	Role    Role
}

// HandlerFor returns the API of a Manager for callers that do not use its socket. by returns the sender of a
// request. Its Role limits what it may do, and the audit names it. A stream calls by again before each part that it
// sends, and ends when the role no longer permits it.
func HandlerFor(m *Manager, by func(*http.Request) Caller) http.Handler { return handler(m, by) }

// A ForbiddenError reports a request that the sender's role does not permit.
type ForbiddenError struct {
	Caller Caller
	Need   Role
	What   string // what needs the role; empty: the request itself
}

func (e *ForbiddenError) Error() string {
	what := e.What
	if what == "" {
		what = "this"
	}
	return fmt.Sprintf("%s needs a token with the role %s; the role of %s is %s", what, e.Need, nvmeof.Printable(e.Caller.Name), nvmeof.Printable(string(e.Caller.Role)))
}

// routeRoles returns the roles that routes and streams need, by operation ID. One that is not listed can be used
// through the socket only.
func routeRoles() map[string]Role {
	out := map[string]Role{
		// Operations on namespaces and hosts.
		"addHost": RoleOperate, "setHost": RoleOperate, "removeHost": RoleOperate, "removeController": RoleOperate,
		"addNamespace": RoleOperate, "setNamespace": RoleOperate, "removeNamespace": RoleOperate, "eraseNamespace": RoleOperate,
		"grantNamespace": RoleOperate, "withdrawNamespace": RoleOperate, "withdrawNamespaceFromAll": RoleOperate, "getCapacity": RoleOperate,
		"pauseNamespace": RoleOperate, "resumeNamespace": RoleOperate, "clearFault": RoleOperate,
		"trace": RoleOperate, // it slows the data path down
	}
	for _, id := range []string{"getStatus", "getMeasures", "getConfig", "getHost", "getListener", "getNamespace", "getSubsystem", "listControllers",
		"listEvents", "listHosts", "listListeners", "listNamespaces", "listReferrals", "listReservations", "listSubsystems", "getGroup"} {
		out[id] = RoleRead
	}
	for _, id := range []string{"applyConfig", "saveConfig", "rereadKeys", "takeOver", "addSubsystem", "setSubsystem", "removeSubsystem", "addListener", "setListener", "removeListener",
		"setANAGroup", "drainGateway", "resumeGateway", "failGateway", "removeGateway", "moveANAGroup", "addReferral", "removeReferral", "clearReservation", "removeRegistrant",
		"capture"} { // packets contain data of hosts
		out[id] = RoleAdmin
	}
	return out
}

// may returns an error unless the caller's role includes need. A nil Caller came through the socket and may do
// everything.
func (c *Caller) may(need Role, what string) error {
	if c == nil || c.Role.May(need) {
		return nil
	}
	return &ForbiddenError{*c, need, what}
}

// mayName returns an error if a document makes the target use a file for a new purpose, and the caller may not
// request that. Otherwise a caller could export a host's key file and read it. Files that the target opens can also
// decide who is its administrator. So a caller without RoleAdmin may only name files below the paths that an
// administrator has set aside.
//
// It may never name a ceph.conf: that file says which libraries Ceph's client loads and where it writes, and a host
// could write one that is exported.
func (c *Caller) mayName(before, d *config.Document) error {
	if c.may(RoleAdmin, "") == nil {
		return nil
	}
	had := named(before)
	now := named(d)
	maps.DeleteFunc(now, func(n naming, _ bool) bool { return had[n] })
	inOrder := func(a, b naming) int { return cmp.Or(cmp.Compare(b.use, a.use), cmp.Compare(a.path, b.path)) } // a ceph.conf before its images
	for _, n := range slices.SortedFunc(maps.Keys(now), inOrder) {
		why := " is in no directory of sandbox.paths in the configuration: naming it"
		switch {
		case n.use == cluster:
			why = " configures the target's Ceph client: naming it"
		case within(d.Sandbox.Paths, n.path):
			continue
		}
		if err := c.may(RoleAdmin, nvmeof.Printable(n.path)+why); err != nil {
			return err
		}
	}
	return nil
}

// A naming is a file, a device or an image of a document, and its purpose.
type naming struct {
	path string
	use  use

	// For an image: each cluster has its own images, and each client of a cluster may access different ones.
	conf, id string
}

// A use is the purpose of a file.
type use int

const (
	exported use = iota
	recorded     // for reservations or the state of a subsystem
	secret
	cluster // configuration of a Ceph cluster
)

// named returns the files, devices and images of a document's subsystems.
func named(d *config.Document) map[naming]bool {
	out := map[naming]bool{}
	add := func(path string, as use) {
		if path != "" {
			out[naming{path: path, use: as}] = true
		}
	}
	for _, s := range d.Subsystems {
		add(string(s.State), recorded)
		for _, n := range s.Namespaces {
			add(string(n.Reservations), recorded)
			if n.RBD == nil {
				add(string(n.Path()), exported)
				continue
			}
			out[naming{string(n.Path()), exported, string(n.RBD.Conf), cmp.Or(n.RBD.ID, "admin")}] = true
			add(string(n.RBD.Conf), cluster)
		}
		for _, h := range s.Hosts {
			add(string(h.KeyFile), secret)
			add(string(h.ControllerKeyFile), secret)
		}
	}
	return out
}

// within reports whether path is one of the folders, or below one.
func within(folders []config.Path, path string) bool {
	if path = filepath.Clean(path); !filepath.IsAbs(path) { // such as ${NAME}/file
		return false
	}
	for _, f := range folders {
		rest, below := strings.CutPrefix(path, filepath.Clean(string(f)))
		if below && (rest == "" || rest[0] == '/' || f == "/") {
			return true
		}
	}
	return false
}
