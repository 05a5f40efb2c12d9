package hostidentity

import (
	"context"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// SecretFile marks a secret that is in a file, where ps does not show it.
const SecretFile = "file:"

// maxSecretFile is the maximum size of such a file in bytes; keys are much shorter.
const maxSecretFile = 4096

// ParseSecret parses a key, or reads the file that contains only the key.
func ParseSecret(s string) (auth.Key, error) { return ReadSecret(context.Background(), s) }

// ReadSecret is ParseSecret with a context that limits the time for reading the file.
func ReadSecret(ctx context.Context, s string) (auth.Key, error) {
	path, ok := strings.CutPrefix(s, SecretFile)
	if !ok {
		k, err := auth.ParseKey(s)
		if err != nil && !strings.HasPrefix(s, "DHHC") { // must not be shown: it may be a key all the same
			err = fmt.Errorf("%w; if it is in a file, %sPATH", err, SecretFile)
		}
		return k, err
	}
	b, err := namedfile.Read(ctx, path, maxSecretFile)
	if err != nil {
		return auth.Key{}, err
	}
	k, err := auth.ParseKey(string(b))
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, err
}
