package namedfile_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A file is replaced as a whole, and read up to a limit.
func Example() {
	dir := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "key")
	must(0, namedfile.Replace(name, []byte("a key\n"), namedfile.Options{Secret: true}))
	fmt.Println(must(os.Stat(name)).Mode())
	fmt.Printf("%q\n", must(namedfile.Read(context.Background(), name, 100)))
	_, err := namedfile.Read(context.Background(), name, 3)
	var long *namedfile.TooLongError
	fmt.Println(errors.As(err, &long))
	// Output:
	// -rw-------
	// "a key\n"
	// true
}
