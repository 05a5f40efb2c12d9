// Package multipath keeps a subsystem reachable: it connects a controller anew when
// it is lost, and spreads requests over several controllers, the paths.
package multipath
