package rdmatransport_test

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A refused connection says why, in the words of IBTA volume 1, 12.6.7.2.
func ExampleRejectError() {
	var err error = &rdmatransport.RejectError{Reason: rdmatransport.RejectInvalidServiceID}
	var refused *rdmatransport.RejectError
	if errors.As(err, &refused) && refused.Reason == rdmatransport.RejectInvalidServiceID {
		fmt.Println(err)
	}
	// Output:
	// connection refused by peer: nothing listens on that port
}
