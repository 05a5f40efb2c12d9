package hostidentity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMachineNQN checks that a machine's NQN is derived from the UUID of its firmware.
func TestMachineNQN(t *testing.T) {
	const prefix = "nqn.2014-08.org.nvmexpress:uuid:"
	file := filepath.Join(t.TempDir(), "product_uuid")
	const id = "0a1b2c3d-0000-4000-8000-000000000001"
	if err := os.WriteFile(file, []byte(strings.ToUpper(id)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if nqn, err := machineNQN(file); err != nil || string(nqn) != prefix+id {
		t.Errorf("%s, %v", nqn, err)
	}
}
