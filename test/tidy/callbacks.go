package tidy

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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A layer is a package of the module with the type information of its files.
type layer struct {
	pkg   *types.Package
	info  *types.Info
	below map[*types.Package]bool // packages of the module that it imports, directly or indirectly
}

// callbacks returns the interfaces by which a package calls back packages above it. The package declares the interface
// and calls its methods, and a type of a package that imports it implements the interface.
func callbacks(layers []*layer) (found []string) {
	for _, l := range layers {
		for _, i := range called(l) {
			if slices.ContainsFunc(layers, func(other *layer) bool { return other.below[l.pkg] && implements(other.pkg, i) }) {
				found = append(found, strings.TrimPrefix(l.pkg.Path(), module+"/")+"."+i.Obj().Name())
			}
		}
	}
	slices.Sort(found)
	return found
}

// called returns the interfaces of a package whose methods the package calls.
func called(l *layer) (all []*types.Named) {
	for _, s := range l.info.Selections {
		n, ok := types.Unalias(s.Recv()).(*types.Named)
		if ok && s.Kind() == types.MethodVal && types.IsInterface(n) && n.Obj().Pkg() == l.pkg && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// implements reports whether a package declares a type that implements an interface.
func implements(p *types.Package, of *types.Named) bool {
	i := of.Underlying().(*types.Interface)
	for _, name := range p.Scope().Names() {
		n, ok := p.Scope().Lookup(name).(*types.TypeName)
		if ok && !types.IsInterface(n.Type()) && types.Implements(types.NewPointer(n.Type()), i) {
			return true
		}
	}
	return false
}

// layersOf type-checks the packages below dir without tests, each after the packages that it imports. Other packages
// that they import are read from the compiler's export data.
func layersOf(dir string) (layers []*layer, err error) {
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	own := map[string]*layer{}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	imports := importFunc(func(path string) (*types.Package, error) {
		if l := own[path]; l != nil {
			return l.pkg, nil
		}
		return compiled.Import(path)
	})
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return layers, nil
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath != module && !strings.HasPrefix(p.ImportPath, module+"/") {
			continue
		}
		files, err := p.parse(fset)
		if err != nil {
			return nil, err
		}
		l, err := newLayer(p.ImportPath, fset, files, imports, own)
		if err != nil {
			return nil, err
		}
		own[p.ImportPath] = l
		layers = append(layers, l)
	}
}

// A listedPackage is go list's description of a package.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

func (p *listedPackage) parse(fset *token.FileSet) (files []*ast.File, err error) {
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// newLayer type-checks a package. known holds the packages of the module that are already checked.
func newLayer(path string, fset *token.FileSet, files []*ast.File, imports types.Importer, known map[string]*layer) (*layer, error) {
	l := &layer{info: &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}, below: map[*types.Package]bool{}}
	cfg := types.Config{Importer: imports}
	var err error
	if l.pkg, err = cfg.Check(path, fset, files, l.info); err != nil {
		return nil, err
	}
	for _, i := range l.pkg.Imports() {
		if lower := known[i.Path()]; lower != nil {
			l.below[lower.pkg] = true
			maps.Copy(l.below, lower.below)
		}
	}
	return l, nil
}

// importFunc implements types.Importer.
type importFunc func(string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
