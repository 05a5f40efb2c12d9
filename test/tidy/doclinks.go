package tidy

import (
	"go/ast"
	"go/doc/comment"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// names are the names that a directory's files declare: Name, or Type.Name for a method, a field or a method of an
// interface.
type names map[string]bool

// brokenLinks finds doc links in comments to names that are not declared. It checks the forms that go doc knows, and
// also links to unexported names and fields:
//
//	[Name], [Type.Name], [pkg], [pkg.Name], [pkg.Type.Name]
//
// A package is one that the directory imports, or is named by its path. In other modules and in the standard library
// only the package must exist, as far as imports show.
func brokenLinks(sources []*source) (findings []string) {
	declared := map[string]names{}
	imports := map[string]map[string]string{} // by directory and local name
	everywhere := map[string]bool{}           // imported by any directory
	for _, s := range sources {
		dir := s.dir()
		if declared[dir] == nil {
			declared[dir], imports[dir] = names{}, map[string]string{}
		}
		declared[dir].add(s.file)
		for _, spec := range s.file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			imports[dir][localName(spec, p)], everywhere[p] = p, true
		}
	}
	for _, s := range sources {
		for _, group := range s.file.Comments {
			for _, link := range linksOf(group.Text()) {
				if !resolves(link, s, declared, imports[s.dir()], everywhere) {
					findings = append(findings, s.finding(group.Pos(), "[%s] is a link to nothing", link))
				}
			}
		}
	}
	return findings
}

// linkable matches text that can be a name or a package's path. Other text in brackets is a quotation, an address or
// arithmetic.
var linkable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// linksOf returns the doc links of a comment, assuming that every name exists.
func linksOf(text string) (links []string) {
	p := comment.Parser{
		LookupPackage: func(name string) (string, bool) { return name, linkable.MatchString(name) },
		LookupSym:     func(recv, name string) bool { return true },
	}
	walk := func(texts []comment.Text) {
		for _, t := range texts {
			if l, ok := t.(*comment.DocLink); ok {
				parts := slices.DeleteFunc([]string{l.ImportPath, l.Recv, l.Name}, func(p string) bool { return p == "" })
				links = append(links, strings.Join(parts, "."))
			}
		}
	}
	for _, b := range p.Parse(text).Content {
		switch b := b.(type) {
		case *comment.Paragraph:
			walk(b.Text)
		case *comment.Heading:
			walk(b.Text)
		case *comment.List:
			for _, i := range b.Items {
				for _, b := range i.Content {
					walk(b.(*comment.Paragraph).Text)
				}
			}
		}
	}
	return links
}

func resolves(link string, s *source, declared map[string]names, imported map[string]string, everywhere map[string]bool) bool {
	if declared[s.dir()][link] {
		return true
	}
	dir, last := path.Split(link)
	pkg, name, _ := strings.Cut(last, ".")
	p := dir + pkg
	if at := imported[p]; at != "" {
		p = at
	}
	if local, ok := strings.CutPrefix(p, module+"/"); ok {
		return declared[local] != nil && (name == "" || declared[local][name])
	}
	_, standard := comment.DefaultLookupPackage(p)
	return standard || everywhere[p]
}

func (n names) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d) + "." + name
			}
			n[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						n[name.Name] = true
					}
				case *ast.TypeSpec:
					n[spec.Name.Name] = true
					n.addMembers(spec.Name.Name, spec.Type)
				}
			}
		}
	}
}

// addMembers adds the fields of a struct and the methods of an interface.
func (n names) addMembers(of string, t ast.Expr) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, name := range f.Names {
			n[of+"."+name.Name] = true
		}
	}
}
