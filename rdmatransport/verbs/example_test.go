//go:build !verbs || !cgo

package verbs_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// A build without libibverbs has the same functions, which return an error.
func ExampleOpen() {
	_, err := verbs.Open(verbs.Config{Addr: netip.MustParseAddr("192.0.2.1")})
	fmt.Println(errors.Is(err, verbs.ErrNotBuilt))
	// Output:
	// true
}
