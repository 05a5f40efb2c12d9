package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is the import path of the repository's root.
const module = "github.com/nvmeof-go/nvmeof"

// A target is a package with the names of its fuzz targets.
type target struct {
	dir   string
	names []string
}

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// find returns, in order, the packages below root with targets whose names match.
func find(root string, match *regexp.Regexp) (packages []target, err error) {
	found := map[string][]string{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			if match.MatchString(m[1]) {
				found[filepath.Dir(name)] = append(found[filepath.Dir(name)], m[1])
			}
		}
		return nil
	})
	for dir, names := range found {
		slices.Sort(names)
		packages = append(packages, target{filepath.ToSlash(dir), names})
	}
	slices.SortFunc(packages, func(a, b target) int { return strings.Compare(a.dir, b.dir) })
	return packages, err
}

// A result is the result of one target.
type result struct {
	name        string
	runs, found string // as printed by package testing
	err         error  // with the whole output
}

var (
	progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)
	finding  = regexp.MustCompile(`(?m)^\s*(Failing input written to|panic:|.*_test\.go:\d+:)`)
)

// judge parses the output of a target. Package testing ends some targets without findings with "context deadline
// exceeded" (https://go.dev/issue/75804), which is not a failure.
func judge(name, said string, err error) result {
	r := result{name: name, runs: "0", found: "0"}
	for _, m := range progress.FindAllStringSubmatch(said, -1) {
		r.runs, r.found = m[1], m[2]
	}
	if err != nil && (finding.MatchString(said) || !strings.Contains(said, "context deadline exceeded")) {
		r.err = fmt.Errorf("%s: %w\n%s", name, err, said)
	}
	return r
}
