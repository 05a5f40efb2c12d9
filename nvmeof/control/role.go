package control

import (
	"fmt"
	"slices"
)

// A Role says what a caller may do that does not use the socket.
type Role string

// Roles. Each includes those before it.
const (
	RoleRead    Role = "read"    // read everything but the data of hosts
	RoleOperate Role = "operate" // add, change and remove namespaces and hosts
	RoleAdmin   Role = "admin"   // everything
)

// roles are the roles in ascending order.
var roles = [...]Role{RoleRead, RoleOperate, RoleAdmin}

// May reports whether the role includes need. An unknown role includes none.
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
