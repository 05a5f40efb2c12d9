//go:build nosmart

package drive

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
)

func readNVMe(string) (string, error) {
	return "", fmt.Errorf("%w: this program was built without it (nosmart)", backend.ErrNoHealth)
}

func readATA(node string) (string, error) { return readNVMe(node) }
