package tidy

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// purePackages lists the packages that take the time as an argument and do not use threads, locks, logs and devices.
var purePackages = []string{
	"capsule",
	"rdmatransport/softroce/internal/wire",
	"rdmatransport/softroce/internal/rc",
	"rdmatransport/softroce/internal/cm",
	"internal/group",
	"nvmeof/auth",
	"nvmeof/multipath/internal/decide",
	"nvmeof/target/internal/ana",
	"nvmeof/target/internal/discoverylog",
	"nvmeof/target/internal/health",
	"nvmeof/target/internal/reservation",
	"nvmeof/target/internal/life",
	"nvmeof/target/internal/sealed",
	"nvmeof/target/internal/state",
	"nvmeof/config",
	"cmd/nvmeof/internal/hostconfig",
	"nvmeof/nbd/internal/wire",
	"cmd/nvmeof/internal/perftest",
	"cmd/nvmeof/internal/activity",
}

// impureImports lists packages of which every use is I/O, a lock or a log.
var impureImports = []string{"log", "log/slog", "net", "os", "os/exec", "os/signal", "sync", "syscall", "testing/synctest"}

// impureNames lists names that must not be used from packages that are otherwise allowed.
var impureNames = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	// Functions that use the global random generators.
	"math/rand": {"ExpFloat64", "Float32", "Float64", "Int", "Int31", "Int31n", "Int63", "Int63n", "Intn",
		"NormFloat64", "Perm", "Read", "Seed", "Shuffle", "Uint32", "Uint64"},
	"math/rand/v2": {"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N",
		"NormFloat64", "Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN"},
	"fmt": {"Print", "Println", "Printf", "Scan", "Scanln", "Scanf"},
}

// impurities finds imports and names that are not allowed in a pure package.
func impurities(s *source) (findings []string) {
	if s.isTest() || !slices.Contains(purePackages, s.dir()) {
		return nil
	}
	imported := map[string]string{} // local name to path
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if slices.Contains(impureImports, name) {
			findings = append(findings, s.finding(spec.Pos(), "pure package imports %s", name))
		}
		imported[localName(spec, name)] = name
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if startsGoroutine(n) {
			findings = append(findings, s.finding(n.Pos(), "pure package starts a goroutine"))
		}
		if n, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impureNames[imported[x.Name]], n.Sel.Name) {
				findings = append(findings, s.finding(n.Pos(), "pure package uses %s.%s", imported[x.Name], n.Sel.Name))
			}
		}
		return true
	})
	return findings
}

// localName returns the name of an import in its file.
func localName(spec *ast.ImportSpec, name string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	name = strings.TrimSuffix(name, "/v2")
	return name[strings.LastIndex(name, "/")+1:]
}
