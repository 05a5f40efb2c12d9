package backend_test

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A store checks requests and reports what is wrong by errors that have an NVMe status.
func ExampleInfo_Check() {
	info := backend.Info{Size: 1 << 20, BlockSize: 4096, Alignment: 1, ReadOnly: true}
	for _, r := range []backend.Request{
		{Op: backend.OpRead, Offset: 8192, Length: 4096, Buf: make([]byte, 4096)},
		{Op: backend.OpRead, Offset: 1 << 20, Length: 4096, Buf: make([]byte, 4096)},
		{Op: backend.OpRead, Offset: 1, Length: 4096, Buf: make([]byte, 4096)},
		{Op: backend.OpWriteZeroes, Offset: 0, Length: 4096},
	} {
		fmt.Println(r.Op, r.Offset, info.Check(&r))
	}
	// Output:
	// read 8192 <nil>
	// read 1048576 beyond the end of the store
	// read 1 malformed request
	// write zeroes 0 store is read-only
}
