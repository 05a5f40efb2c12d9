package control

import (
	"fmt"
	"slices"
)

// A Role is what somebody may do who does not come through the socket.
type Role string

// Roles, each of which may do what those before it may.
const (
	RoleRead    Role = "read"    // look at everything but the data of hosts
	RoleOperate Role = "operate" // add, change and remove namespaces and hosts
	RoleAdmin   Role = "admin"   // everything
)

// roles are in ascending order.
var roles = [...]Role{RoleRead, RoleOperate, RoleAdmin}

// May reports whether the role includes another. One that does not exist includes none.
func (r Role) May(need Role) bool {
	have, want := slices.Index(roles[:], r), slices.Index(roles[:], need)
	return want >= 0 && have >= want
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Role) UnmarshalText(text []byte) error {
	if !slices.Contains(roles[:], Role(text)) {
		return fmt.Errorf("role %q: it is read, operate or admin", text)
	}
	*r = Role(text)
	return nil
}
