package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// module is the import path of the repository's root.
const module = "github.com/nvmeof-go/nvmeof"

// A source is one parsed Go file of the repository.
type source struct {
	path string // relative to the root, with slashes
	text []byte
	fset *token.FileSet
	file *ast.File
}

// dir returns the directory, which is the package's import path below the module.
func (s *source) dir() string { return path.Dir(s.path) }

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// finding returns a message that a rule is broken at a position of the file.
func (s *source) finding(p token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.line(p), fmt.Sprintf(format, args...))
}

func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{name, text, fset, f}, nil
}

// listed returns the files below root that belong to the repository, without those that git ignores (see .gitignore)
// and git's own.
func listed(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case rel == ".git" && !d.IsDir(): // of a worktree: names the directory that it belongs to
		case d.IsDir() && (rel == ".git" || rel == "bin" || rel == "guest"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			names = append(names, rel)
		}
		return nil
	})
	return names, err
}

// parseAll parses the Go files among names.
func parseAll(root string, names []string) ([]*source, error) {
	sources := make([]*source, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		wg.Go(func() {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err == nil {
				sources[i], err = parse(name, text)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	var out []*source
	for i, s := range sources {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}
