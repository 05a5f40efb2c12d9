package hostconfig

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Names of the files in their directory, /etc/nvme.
const (
	DiscoveryConf = "discovery.conf"
	ConfigJSON    = "config.json"
	FabricsConf   = "nvme-fabrics.conf"
)

// Load reads those of the files that exist in a directory, which messages call dir. nvme-fabrics.conf comes first.
func Load(folder fs.FS, dir string) (r Result) {
	r.add(LoadFabricsConf(folder, dir, FabricsConf))
	for _, f := range []struct {
		name  string
		parse func(string, []byte) Result
	}{{DiscoveryConf, ParseDiscoveryConf}, {ConfigJSON, ParseJSON}} {
		text, ok := r.read(folder, dir, f.name)
		if ok {
			r.add(f.parse(path.Join(dir, f.name), text))
		}
	}
	return r
}

// LoadFile reads one file in the format that its name selects: .json, discovery.conf, or otherwise the INI format,
// including the files *.conf in the directory with its name and ".d".
func LoadFile(folder fs.FS, dir, name string) (r Result) {
	if _, err := fs.Stat(folder, name); err != nil {
		r.problem(path.Join(dir, name), 0, "", "%v", unwrap(err))
		return r
	}
	parse := ParseDiscoveryConf
	switch {
	case strings.HasSuffix(name, ".json"):
		parse = ParseJSON
	case name != DiscoveryConf:
		return LoadFabricsConf(folder, dir, name)
	}
	if text, ok := r.read(folder, dir, name); ok {
		r.add(parse(path.Join(dir, name), text))
	}
	return r
}

// LoadFabricsConf reads a file in the INI format and its drop-ins, if they exist.
func LoadFabricsConf(folder fs.FS, dir, name string) (r Result) {
	var texts []File
	if text, ok := r.read(folder, dir, name); ok {
		texts = append(texts, File{path.Join(dir, name), text})
	} else {
		texts = append(texts, File{path.Join(dir, name), nil})
	}
	dropIns, _ := fs.Glob(folder, name+".d/*.conf") // sorted
	for _, n := range dropIns {
		if text, ok := r.read(folder, dir, n); ok {
			texts = append(texts, File{path.Join(dir, n), text})
		}
	}
	r.add(ParseFabricsConf(texts[0], texts[1:]))
	return r
}

// A File is the content of a file, and its name for messages.
type File struct {
	Name string
	Text []byte
}

// read reads a file, which may be missing.
func (r *Result) read(folder fs.FS, dir, name string) ([]byte, bool) {
	text, err := fs.ReadFile(folder, name)
	switch {
	case err == nil:
		return text, true
	case !errors.Is(err, fs.ErrNotExist):
		r.problem(path.Join(dir, name), 0, "", "%v", unwrap(err))
	}
	return nil, false
}

// unwrap removes the path from an error, since the message contains it already.
func unwrap(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func validText(text []byte) bool { return utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 }
