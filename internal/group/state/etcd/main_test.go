package etcd

import (
	"os"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/testparallel"
)

func TestMain(m *testing.M) {
	testparallel.Set(12)
	os.Exit(m.Run())
}
