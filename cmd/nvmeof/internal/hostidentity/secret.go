package hostidentity

import (
	"context"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// SecretFile marks a secret that stands in a file, where ps does not show it.
const SecretFile = "file:"

// ParseSecret reads a key, or the file that has it.
func ParseSecret(s string) (auth.Key, error) {
	if path, ok := strings.CutPrefix(s, SecretFile); ok {
		k, _, err := control.ReadKey(context.Background(), path)
		return k, err
	}
	return auth.ParseKey(s)
}
