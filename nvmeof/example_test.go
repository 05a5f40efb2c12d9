package nvmeof_test

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Names and addresses are checked before a target is contacted.
func ExampleParseNQN() {
	for _, s := range []string{"nqn.2014-08.org.example:disk", "disk"} {
		_, err := nvmeof.ParseNQN(s)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// disk: NQN is not of the form nqn.YYYY-MM.DOMAIN:NAME, the domain in reverse, as in nqn.2014-08.org.example:disk
}

func ExampleParseAddress() {
	fmt.Println(nvmeof.ParseAddress("192.0.2.1", ""))
	_, err := nvmeof.ParseAddress("example.org", "4420")
	fmt.Println(err)
	// Output:
	// 192.0.2.1:4420 <nil>
	// transport address example.org is no IP address
}
