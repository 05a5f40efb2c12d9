package control

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A usedFile is a file that a document names, and its purpose.
type usedFile struct {
	path  config.Path
	where string
	as    use
}

// filesOf returns the files that a document names, and the file that contains it; "-" or empty: none.
func filesOf(doc *config.Document, file string) (all []usedFile) {
	add := func(p config.Path, where string, as use) {
		if p != "" {
			all = append(all, usedFile{p, where, as})
		}
	}
	if file != "-" {
		add(config.Path(file), "the configuration file", recorded)
	}
	for i, s := range doc.Subsystems {
		at := fmt.Sprintf("subsystems[%d]", i)
		for j, n := range s.Namespaces {
			if n.File != nil || n.Block != nil {
				add(n.Path(), fmt.Sprintf("%s.namespaces[%d]", at, j), exported)
			}
		}
	}
	for i, s := range doc.Subsystems {
		at := fmt.Sprintf("subsystems[%d]", i)
		add(s.State, at+".state", recorded)
		for j, n := range s.Namespaces {
			add(n.Reservations, fmt.Sprintf("%s.namespaces[%d].reservations", at, j), recorded)
		}
	}
	add(doc.Events.File, "events.file", recorded)
	add(doc.Audit.File, "audit.file", recorded)
	add(doc.Console.Tokens, "console.tokens", secret)
	add(doc.Console.TLS.Key, "console.tls.key", secret)
	add(doc.Console.TLS.Certificate, "console.tls.certificate", secret)
	for _, f := range doc.Group.Files() {
		add(f.Path, f.Where, secret)
	}
	for i, s := range doc.Subsystems {
		for j, n := range s.Namespaces {
			if n.RBD != nil {
				add(n.RBD.Conf, fmt.Sprintf("subsystems[%d].namespaces[%d].rbd.conf", i, j), secret)
			}
		}
		for j, h := range s.Hosts { // a path ${NAME}/key, which only the process can expand, is not checked
			at := fmt.Sprintf("subsystems[%d].hosts[%d]", i, j)
			add(config.Path(h.KeyFile), at+".key-file", secret)
			add(config.Path(h.ControllerKeyFile), at+".controller-key-file", secret)
		}
	}
	return all
}

// A fileKey identifies a file whatever its name: by its inode or, if it does not exist, by its path with the
// folder's symbolic links resolved.
type fileKey struct {
	dev, ino uint64
	path     string
}

func fileKeyOf(p config.Path) fileKey {
	path, err := filepath.Abs(string(p))
	if err != nil {
		return fileKey{path: string(p)}
	}
	if info, err := os.Stat(path); err == nil {
		if x, ok := info.Sys().(*syscall.Stat_t); ok {
			return fileKey{dev: uint64(x.Dev), ino: x.Ino} // the types differ between architectures
		}
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return fileKey{path: path}
}

// Clashes finds files that a document, which is in the named file, uses for two purposes, perhaps by two names as
// hard links have. Log lines or records would overwrite the data of hosts or each other, or hosts could read and
// write the target's access rights. Namespaces that export the same file are left to config.Document.Check. Several
// secrets may be in one file.
func Clashes(doc *config.Document, file string) (found config.Problems) {
	r := new(reacher)
	r.begin(startTimeout)
	return clashes(r, doc, file)
}

func clashes(r *reacher, doc *config.Document, file string) (found config.Problems) {
	users := map[fileKey]usedFile{}
	for _, f := range filesOf(doc, file) {
		key, err := reach(r, f.path, func() (fileKey, error) { return fileKeyOf(f.path), nil }, nil)
		if err != nil {
			continue // it does not answer; opening it reports that
		}
		first, twice := users[key]
		switch {
		case !twice:
			users[key] = f
		case first.as != f.as || f.as == recorded:
			found = append(found, config.Problem{Path: f.where, Text: clashText(f, first), Fix: "name another file"})
		}
	}
	return found
}

func clashText(f, first usedFile) string {
	if f.path == first.path {
		return fmt.Sprintf("%s is also used as %s", f.path, first.where)
	}
	return fmt.Sprintf("%s is the same file as %s, which is used as %s", f.path, first.path, first.where)
}

// Apart returns an error if the file that a document names in one place, such as audit.file, is also another file
// that the document names, or the document's own. It accesses the file systems of all of them, and may hang.
func Apart(doc *config.Document, where, file string) error {
	var own usedFile
	all := filesOf(doc, file)
	for _, f := range all {
		if f.where == where {
			own = f
		}
	}
	key := fileKeyOf(own.path)
	for _, f := range all {
		if f.where != where && fileKeyOf(f.path) == key {
			return fmt.Errorf("%s; name another file", clashText(own, f))
		}
	}
	return nil
}

// ownFiles returns the target's own files: those that it writes to, and those that say who may do what. They are
// determined once for all namespaces of a change.
func ownFiles(m *Manager) map[fileKey]usedFile {
	own := &config.Document{Events: m.doc.Events, Audit: m.doc.Audit, Console: m.doc.Console, Group: m.doc.Group}
	none := new(config.Namespace)
	for _, s := range m.doc.Subsystems {
		part := &config.Subsystem{Hosts: s.Hosts, Namespaces: slices.Repeat([]*config.Namespace{none}, len(s.Namespaces))}
		for i, n := range s.Namespaces {
			if n.RBD != nil { // it names the cluster's configuration
				part.Namespaces[i] = &config.Namespace{RBD: n.RBD}
			}
		}
		own.Subsystems = append(own.Subsystems, part)
	}
	all, seen := map[fileKey]usedFile{}, map[config.Path]bool{}
	for _, f := range filesOf(own, m.cfg.File) {
		if !seen[f.path] { // hosts may share a key
			seen[f.path] = true
			all[keyAt(m, f.path)] = f
		}
	}
	delete(all, fileKey{})
	return all
}

// keyAt is fileKeyOf with a time limit. It returns the zero value if the file system does not answer; opening the
// file reports that.
func keyAt(m *Manager, p config.Path) fileKey {
	key, _ := reach(&m.stores.reacher, p, func() (fileKey, error) { return fileKeyOf(p), nil }, nil)
	return key
}

// refuseOwnFile returns an error if the file or device of a namespace is one of the target's own files.
func refuseOwnFile(m *Manager, n *config.Namespace, own map[fileKey]usedFile) error {
	if n.File == nil && n.Block == nil {
		return nil
	}
	if f, is := own[keyAt(m, n.Path())]; is {
		return fmt.Errorf("%s; export another file", clashText(usedFile{path: n.Path()}, f))
	}
	return nil
}
