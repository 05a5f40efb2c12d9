package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/nvmeof-go/nvmeof"

// A tree is the packages of a folder, without their tests.
type tree struct {
	root     string // of the repository
	fset     *token.FileSet
	packages []*unit // each after the packages that it imports
	byPath   map[string]*unit
	concrete []types.Type // types of the folder that are not interfaces
}

// A unit is one package.
type unit struct {
	*types.Package
	info  *types.Info
	files []*ast.File
	above map[string]bool // packages of the folder that import it, directly or indirectly
}

// listed is go list's description of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// load parses and type-checks the packages of a folder. Other packages that they import are read from the compiler's
// export data.
func load(folder string) (*tree, error) {
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles", "./"+folder+"/...").Output()
	if err != nil {
		return nil, reason("go list", err)
	}
	t := &tree{fset: token.NewFileSet(), byPath: map[string]*unit{}}
	if t.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var own []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath == module+"/"+folder || strings.HasPrefix(p.ImportPath, module+"/"+folder+"/") {
			own = append(own, p)
		}
	}
	rest := importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range own {
		if p.ImportPath == module+"/nvmeof/target" {
			if err := checkSession(p.GoFiles); err != nil {
				return nil, err
			}
		}
		if err := t.check(p, rest); err != nil {
			return nil, err
		}
	}
	t.order()
	return t, nil
}

// reason returns the error of a program with its output.
func reason(what string, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s: %w: %s", what, err, exit.Stderr)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// importFunc implements types.Importer.
type importFunc func(string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

func (t *tree) check(p listed, rest types.Importer) error {
	u := &unit{above: map[string]bool{}, info: &types.Info{
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Types: map[ast.Expr]types.TypeAndValue{},
	}}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(t.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		u.files = append(u.files, f)
	}
	cfg := types.Config{Importer: importFunc(func(path string) (*types.Package, error) {
		if own := t.byPath[path]; own != nil {
			return own.Package, nil
		}
		return rest.Import(path)
	})}
	var err error
	if u.Package, err = cfg.Check(p.ImportPath, t.fset, u.files, u.info); err != nil {
		return err
	}
	t.byPath[p.ImportPath] = u
	t.packages = append(t.packages, u)
	return nil
}

// order records which packages are above others, and the types.
func (t *tree) order() {
	for _, u := range t.packages {
		for _, i := range u.Imports() {
			t.raise(i.Path(), u.Path())
		}
		for _, name := range u.Scope().Names() {
			n, ok := u.Scope().Lookup(name).(*types.TypeName)
			if ok && !types.IsInterface(n.Type()) && !n.IsAlias() && types.NewMethodSet(types.NewPointer(n.Type())).Len() > 0 {
				t.concrete = append(t.concrete, n.Type())
			}
		}
	}
}

// raise records that a package, with all that it imports, is below another.
func (t *tree) raise(below, above string) {
	u := t.byPath[below]
	if u == nil {
		return
	}
	u.above[above] = true
	for _, i := range u.Imports() {
		t.raise(i.Path(), above)
	}
}

// inModule reports whether a package is one of this module.
func inModule(p *types.Package) bool {
	return p != nil && (p.Path() == module || strings.HasPrefix(p.Path(), module+"/"))
}
