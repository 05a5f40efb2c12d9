package main

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A crossing is a call from one package into another.
type crossing struct {
	times    int
	at       string
	from, to string
	within   bool // both packages are in the folder
}

// A block is the unit of the coverage counters: statements of a file that are executed together.
type block struct {
	file                               string
	line, column, lastLine, lastColumn int
}

// few and many are the numbers of READs in the two runs, whose difference is due to READs alone.
const few, many = 100, 1100

// callsOf returns the calls between packages of one READ.
func (t *tree) callsOf(folder string) ([]crossing, error) {
	dir, err := os.MkdirTemp("", "crossings-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	before, err := t.counted(dir, folder, few)
	if err != nil {
		return nil, err
	}
	after, err := t.counted(dir, folder, many)
	if err != nil {
		return nil, err
	}
	var out []crossing
	t.functions(func(u *unit, decl *ast.FuncDecl, f *types.Func) {
		if f.Name() == "Poll" || f.Name() == "Arm" {
			return
		}
		callsIn(decl, func(c *ast.CallExpr) {
			at := t.fset.Position(c.Pos())
			times := (t.executed(after, u, decl, c.Pos()) - t.executed(before, u, decl, c.Pos()) + (many-few)/2) / (many - few)
			if times <= 0 {
				return
			}
			for _, g := range t.callees(u, c) {
				if inModule(g.Pkg()) && (g.Pkg() != u.Package || t.outside(g)) {
					name := strings.TrimPrefix(at.Filename, t.root+"/")
					out = append(out, crossing{times, fmt.Sprintf("%s:%d", name, at.Line), short(f), short(g), t.byPath[path(g)] != nil && !t.outside(g)})
					break // only one of them is executed
				}
			}
		})
	})
	if len(out) == 0 {
		return nil, errors.New("no call was counted: does TestReads exist?")
	}
	return out, nil
}

// counted runs TestReads with the given number of READs and returns how often each block was executed.
func (t *tree) counted(dir, folder string, reads int) (map[block]int, error) {
	name := filepath.Join(dir, fmt.Sprint(reads))
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestReads$", "-covermode=atomic", "-coverpkg", "./"+folder+"/...",
		"-coverprofile", name, "./"+folder, "-args", "-reads", fmt.Sprint(reads))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[block]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		file, rest, found := strings.Cut(s.Text(), ":")
		if !found || file == "mode" {
			continue
		}
		b := block{file: file}
		var statements, times int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &b.lastLine, &b.lastColumn, &statements, &times); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Text(), err)
		}
		out[b] += times
	}
	return out, nil
}

// executed returns how often the code at a position of a function was executed. The expression of a case has no
// counter. It is executed as often as its switch, less the times that a case above it was taken.
func (t *tree) executed(blocks map[block]int, u *unit, decl *ast.FuncDecl, pos token.Pos) int {
	at := t.fset.Position(pos)
	file := u.Path() + "/" + filepath.Base(at.Filename)
	cases, i := caseOf(decl, pos)
	if cases == nil {
		b, _ := blockAt(blocks, file, at)
		return blocks[b]
	}
	n := t.executed(blocks, u, decl, cases.Pos())
	for _, above := range cases.Body.List[:i] {
		if body := above.(*ast.CaseClause).Body; len(body) > 0 {
			n -= t.executed(blocks, u, decl, body[0].Pos())
		}
	}
	return n
}

// caseOf finds the switch whose case expressions contain a position, and the index of that case.
func caseOf(decl *ast.FuncDecl, pos token.Pos) (cases *ast.SwitchStmt, at int) {
	ast.Inspect(decl, func(n ast.Node) bool {
		s, ok := n.(*ast.SwitchStmt)
		if !ok {
			return true
		}
		for i, c := range s.Body.List {
			for _, e := range c.(*ast.CaseClause).List {
				if e.Pos() <= pos && pos < e.End() {
					cases, at = s, i
				}
			}
		}
		return true
	})
	return cases, at
}

// blockAt returns the innermost block at a position.
func blockAt(blocks map[block]int, file string, at token.Position) (best block, found bool) {
	for b := range blocks {
		if b.file != file || !b.has(at) {
			continue
		}
		if !found || b.line > best.line || b.line == best.line && b.column > best.column {
			best, found = b, true
		}
	}
	return best, found
}

func (b block) has(at token.Position) bool {
	after := at.Line > b.line || at.Line == b.line && at.Column >= b.column
	before := at.Line < b.lastLine || at.Line == b.lastLine && at.Column < b.lastColumn
	return after && before
}
