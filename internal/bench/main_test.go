package bench

import (
	"os"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/testparallel"
)

func TestMain(m *testing.M) {
	testparallel.Set(2)
	os.Exit(m.Run())
}
