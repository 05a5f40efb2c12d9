package control

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A Caller is who has sent a request that did not come through the socket. The zero value may do
// nothing.
type Caller struct {
	Name    string // of the token
	Address string // of the client, without the port
	Role    Role
}

// HandlerFor is the API of a Manager for those who come otherwise than through its socket: by says
// who has sent a request, and that one may do what its role includes. The audit has its name.
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
		"addNamespace": RoleOperate, "setNamespace": RoleOperate, "removeNamespace": RoleOperate,
		"pauseNamespace": RoleOperate, "resumeNamespace": RoleOperate, "clearFault": RoleOperate,
		"trace": RoleOperate, // which costs the data path something
	}
	for _, id := range []string{"getStatus", "getMeasures", "getConfig", "getHost", "getListener", "getNamespace", "getSubsystem", "listControllers",
		"listEvents", "listHosts", "listListeners", "listNamespaces", "listReferrals", "listReservations", "listSubsystems"} {
		out[id] = RoleRead
	}
	for _, id := range []string{"applyConfig", "saveConfig", "rereadKeys", "takeOver", "addSubsystem", "setSubsystem", "removeSubsystem", "addListener", "setListener", "removeListener",
		"setANAGroup", "addReferral", "removeReferral", "clearReservation", "removeRegistrant",
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

// mayName is nil where the caller may make the target use the files that a document names and did not
// name before. A file that the target opens may decide who is its administrator, so that whoever is not
// may name those alone that an administrator has set aside for it.
func (c *Caller) mayName(before map[string]bool, d *config.Document) error {
	for path := range named(d) {
		if before[path] || within(d.Sandbox.Paths, path) {
			continue
		}
		if err := c.may(RoleAdmin, nvmeof.Printable(path)+" is in no folder of sandbox.paths in the configuration: to name it"); err != nil {
			return err
		}
	}
	return nil
}

// named are the files and devices of a document's subsystems.
func named(d *config.Document) map[string]bool {
	out := map[string]bool{}
	for _, s := range d.Subsystems {
		out[string(s.State)] = true
		for _, n := range s.Namespaces {
			out[string(n.Path())], out[string(n.Reservations)] = true, true
			if n.RBD != nil {
				out[string(n.RBD.Conf)] = true
			}
		}
		for _, h := range s.Hosts {
			out[string(h.KeyFile)], out[string(h.ControllerKeyFile)] = true, true
		}
	}
	delete(out, "")
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
