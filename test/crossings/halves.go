package main

import (
	"fmt"
	"go/types"
	"path/filepath"
	"slices"
)

// session lists the files of nvmeof/target with the types that shards own: queues and controllers, and the commands
// that they execute. The other files are the administration above it: the target, its devices, listeners, subsystems
// and namespaces.
var session = []string{
	"queue.go", "queuecounts.go", "request.go", "extra.go", "stop.go", "dispatch.go", "blame.go", // the way of a command
	"io.go", "iomgmt.go", "compare.go", "copy.go", "fused.go", "reservationcommand.go", "unidentified.go", // of an I/O queue
	"admin.go", "abort.go", "identify.go", "logpage.go", "smart.go", "reservationlog.go",
	"feature.go", "protect.go", "temperature.go", "writecache.go", // of an admin queue
	"connect.go", "auth.go", "authenticator.go", "authfailure.go", // before it is one
	"controller.go", "association.go", "flush.go", "rights.go", "shutdown.go", "identified.go",
}

// checkSession reports names of the list that nvmeof/target, with these files, does not have: the file under its new
// name would count as administration.
func checkSession(files []string) error {
	for _, name := range session {
		if !slices.Contains(files, name) {
			return fmt.Errorf("nvmeof/target has no %s: mend the list of the session's files", name)
		}
	}
	return nil
}

// room returns the room of a function: its package, and in the folder's own package which half.
func (t *tree) room(f *types.Func) string {
	p := path(f)
	if p == module+"/nvmeof/target" && slices.Contains(session, filepath.Base(t.fset.Position(f.Pos()).Filename)) {
		return p + " session"
	}
	return p
}
