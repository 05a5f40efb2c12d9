package file

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

const testSize = 20 << 20

// The conformance suite looks for this flag.
var _ = flag.Bool("long", false, "four times as long for what goes on for some time")

// engines are the engines that this machine supports.
func engines(t testing.TB) []Engine {
	if err := backendtest.NoRings(); err != nil {
		t.Logf("only threads are tested: %v", err)
		return []Engine{EngineThreads}
	}
	return []Engine{EngineURing, EngineThreads}
}

func openStore(t testing.TB, path string, cfg Config) *Store {
	t.Helper()
	s, err := Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "namespace.img") }

func TestConformance(t *testing.T) {
	for _, engine := range engines(t) {
		cfgs := []Config{
			{Size: testSize},
			{Size: testSize - 512, Buffered: true, Thin: true},
		}
		if engine == EngineURing {
			cfgs = append(cfgs, Config{Size: testSize, BlockSize: 512, LockedThreads: true})
		}
		for _, cfg := range cfgs {
			cfg.Engine = engine
			t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
				backendtest.Run(t, func(t *testing.T) backend.Store { return openStore(t, tempFile(t), cfg) })
			})
		}
	}
}
