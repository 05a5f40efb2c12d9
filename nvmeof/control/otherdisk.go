package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// diskRecord is the note of which device was at a path. A name like /dev/sdb can be that of another disk after the
// machine has restarted. Hosts would find the data of that disk under the identity of the first.
const diskRecord recordKind = "disk"

// An otherDiskError reports that there is another disk at a path than hosts know.
type otherDiskError struct {
	path     config.Path
	was, now []string // identifiers of both, from the kernel
	where    string   // where the first one was; empty: here
	remedy   string
}

func (e *otherDiskError) Error() string {
	return fmt.Sprintf("%s is a different disk now: it was %s%s, and is %s; export the earlier disk by a persistent name, as in /dev/disk/by-id; or, if it was replaced: %s",
		e.path, strings.Join(e.was, " or "), e.where, strings.Join(e.now, " or "), e.remedy)
}

// sameDisk reports whether two devices may be the same, given their identifiers. If a device has none, it may be.
func sameDisk(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(of string) bool { return slices.Contains(b, of) })
}

// An unverifiedDiskError reports that hosts may know another disk at a path.
type unverifiedDiskError struct {
	path config.Path
	why  error
	note string
}

func (e *unverifiedDiskError) Error() string {
	return fmt.Sprintf("it is not known whether %s is the same disk as before (%v): otherwise hosts would find another disk's data under its identity; if it is the right disk: rm -r %s",
		e.path, e.why, shell.Quote(e.note))
}

func (e *unverifiedDiskError) Unwrap() error { return e.why }

// disk returns the noted identifiers of the device that was at a path; none if there is no note.
func (k known) disk(p config.Path) ([]string, error) {
	if k == "" {
		return nil, nil
	}
	name := k.noteOf(p, diskRecord)
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &unverifiedDiskError{p, err, name}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 2 || lines[0] != string(p) { // the path, and at least one identifier
		return nil, &unverifiedDiskError{p, fmt.Errorf("%s is damaged", name), name}
	}
	return lines[1:], nil
}

// otherDisk returns an error if hosts would find another disk than they know. now are the identifiers of the
// present one.
func (k known) otherDisk(p config.Path, now []string) error {
	was, err := k.disk(p)
	if err != nil || sameDisk(was, now) {
		return err
	}
	return &otherDiskError{path: p, was: was, now: now, remedy: "rm " + shell.Quote(k.noteOf(p, diskRecord))}
}

// addDisk writes the note of the device at a path.
func (k known) addDisk(p config.Path, now []string) error {
	if k == "" || len(now) == 0 {
		return nil
	}
	if was, err := k.disk(p); err == nil && slices.Equal(now, was) {
		return nil
	}
	if err := namedfile.MakeFolder(string(k)); err != nil {
		return err
	}
	text := string(p) + "\n" + strings.Join(now, "\n") + "\n"
	return namedfile.Replace(k.noteOf(p, diskRecord), []byte(text), namedfile.Options{})
}
