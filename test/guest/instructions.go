package guest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed plugin/instructions.c
var counterSource []byte

// counter are the files of a guest that counts its instructions: the plugin's source and
// code, and where it counts.
func (c Config) counter() (source, code, counts string) {
	base := filepath.Join(c.Share, "instructions")
	return base + ".c", base + ".so", base
}

func (c Config) buildCounter() error {
	if !c.CountInstructions {
		return nil
	}
	source, code, _ := c.counter()
	if err := os.WriteFile(source, counterSource, 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", code, source).CombinedOutput(); err != nil {
		return fmt.Errorf("cc of QEMU's plugin (needs gcc): %w\n%s", err, out)
	}
	return nil
}

// Instructions is how many the guest, which must have been told to count them, has executed
// since it booted: unlike times, nearly the same on a busy machine as on an idle one, but
// for what the guest does once in a while. An idle processor executes none.
func (g *Guest) Instructions() (user, kernel uint64, err error) {
	_, _, counts := Config{Share: g.share}.counter()
	b, err := os.ReadFile(counts)
	if err != nil {
		return 0, 0, fmt.Errorf("guest: instructions were not counted: %w", err)
	}
	if len(b) < 16 {
		return 0, 0, fmt.Errorf("guest: instructions were not counted: %s has %d bytes", counts, len(b))
	}
	return binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]), nil
}
