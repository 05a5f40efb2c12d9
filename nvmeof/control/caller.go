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

// A Caller is the sender of a request that did not come through the socket. The zero value may do
// nothing.
type Caller struct {
	Name    string // of the token
	Address string // of the client, without the port
	Role    Role
}

// HandlerFor is the API of a Manager for callers that do not use its socket: by returns the sender
// of a request, who may do what its Role permits, and whom the audit names. A stream calls it again
// before each part that it sends, and ends when the role no longer permits it.
func HandlerFor(m *Manager, by func(*http.Request) Caller) http.Handler { return handler(m, by) }

// A ForbiddenError is a request that the role of who has sent it does not include.
type ForbiddenError struct {
	Caller Caller
	Need   Role
	What   string // empty: the request itself
}

func (e *ForbiddenError) Error() string {
	what := e.What
	if what == "" {
		what = "this"
	}
	return fmt.Sprintf("%s needs a token with the role %s, and that of %s is %s", what, e.Need, nvmeof.Printable(e.Caller.Name), nvmeof.Printable(string(e.Caller.Role)))
}

// routeRoles are the roles that routes and streams need, by their identifiers. One that is not here
// can be used through the socket alone.
func routeRoles() map[string]Role {
	out := map[string]Role{
		// These add, change and remove namespaces and hosts, and what concerns one of them.
		"addHost": RoleOperate, "setHost": RoleOperate, "removeHost": RoleOperate, "removeController": RoleOperate,
		"addNamespace": RoleOperate, "setNamespace": RoleOperate, "removeNamespace": RoleOperate, "eraseNamespace": RoleOperate,
		"grantNamespace": RoleOperate, "withdrawNamespace": RoleOperate, "withdrawNamespaceFromAll": RoleOperate, "getCapacity": RoleOperate,
		"pauseNamespace": RoleOperate, "resumeNamespace": RoleOperate, "clearFault": RoleOperate,
		"trace": RoleOperate, // which costs the data path something
	}
	for _, id := range []string{"getStatus", "getMeasures", "getConfig", "getHost", "getListener", "getNamespace", "getSubsystem", "listControllers",
		"listEvents", "listHosts", "listListeners", "listNamespaces", "listReferrals", "listReservations", "listSubsystems", "getGroup"} {
		out[id] = RoleRead
	}
	for _, id := range []string{"applyConfig", "saveConfig", "rereadKeys", "takeOver", "addSubsystem", "setSubsystem", "removeSubsystem", "addListener", "setListener", "removeListener",
		"setANAGroup", "drainGateway", "resumeGateway", "failGateway", "removeGateway", "moveANAGroup", "addReferral", "removeReferral", "clearReservation", "removeRegistrant",
		"capture"} { // packets have the data of hosts
		out[id] = RoleAdmin
	}
	return out
}

// may is nil where the caller may do what needs a role. A nil caller came through the socket.
func (c *Caller) may(need Role, what string) error {
	if c == nil || c.Role.May(need) {
		return nil
	}
	return &ForbiddenError{*c, need, what}
}

// mayName is nil where the caller may make the target use the files that a document names and the one before did
// not name for the same: whoever exports the key of a host can read it. A file that the target opens
// may decide who is its administrator, so that whoever is not may name those alone that an administrator
// has set aside for it. A ceph.conf is none of them, as it says which libraries Ceph's client loads, and where that
// writes: whoever exports a file there has a host write what is in it.
func (c *Caller) mayName(before, d *config.Document) error {
	if c.may(RoleAdmin, "") == nil {
		return nil
	}
	had := named(before)
	now := named(d)
	maps.DeleteFunc(now, func(n naming, _ bool) bool { return had[n] })
	inOrder := func(a, b naming) int { return cmp.Or(cmp.Compare(b.use, a.use), cmp.Compare(a.path, b.path)) } // a ceph.conf before its images
	for _, n := range slices.SortedFunc(maps.Keys(now), inOrder) {
		why := " is in no folder of sandbox.paths in the configuration: to name it"
		switch {
		case n.use == cluster:
			why = " says what the target's client of Ceph does: to name it"
		case within(d.Sandbox.Paths, n.path):
			continue
		}
		if err := c.may(RoleAdmin, nvmeof.Printable(n.path)+why); err != nil {
			return err
		}
	}
	return nil
}

// A naming is a file, device or image of a document, and what it is for.
type naming struct {
	path string
	use  use

	// Of an image: an image of that name is in each cluster, and each client of one may have others.
	conf, id string
}

// A use is what a file is for.
type use int

const (
	exported use = iota
	recorded     // of what a subsystem or a namespace keeps
	secret
	cluster // of Ceph
)

// named are the files, devices and images of a document's subsystems.
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

// within reports whether a path is one of some, or below it.
func within(folders []config.Path, path string) bool {
	if path = filepath.Clean(path); !filepath.IsAbs(path) { // ${NAME}/file
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
