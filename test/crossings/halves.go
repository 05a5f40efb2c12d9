package main

import (
	"fmt"
	"go/types"
	"path/filepath"
	"slices"
)

// session are the files of nvmeof/target that have what shards own: queues and controllers,
// and the commands that these execute. What is in the others is the administration above
// it: the target, its devices, listeners, subsystems and namespaces.
var session = []string{
	"queue.go", "queuecounts.go", "request.go", "extra.go", "stop.go", "dispatch.go", "blame.go", // a command's way
	"io.go", "iomgmt.go", "compare.go", "copy.go", "fused.go", "reservationcommand.go", "unseen.go", // of an I/O queue
	"admin.go", "abort.go", "identify.go", "logpage.go", "smart.go", "reservationlog.go",
	"feature.go", "protect.go", "temperature.go", "writecache.go", // of an admin queue
	"connect.go", "auth.go", "authenticator.go", "authfailure.go", // before it is one
	"controller.go", "association.go", "flush.go", "rights.go", "shutdown.go", "identified.go",
}

// checkSession refuses a list with a file that nvmeof/target, with these files, does not have:
// what it has become would count as administration.
func checkSession(files []string) error {
	for _, name := range session {
		if !slices.Contains(files, name) {
			return fmt.Errorf("nvmeof/target has no %s: mend the list of the session's files", name)
		}
	}
	return nil
}

// room is where a function is: its package, and within the folder's own which half.
func (t *tree) room(f *types.Func) string {
	p := path(f)
	if p == module+"/nvmeof/target" && slices.Contains(session, filepath.Base(t.fset.Position(f.Pos()).Filename)) {
		return p + " session"
	}
	return p
}
