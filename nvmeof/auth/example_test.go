package auth_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return v
}

// A key is text that both sides are given. If it is printed by mistake, the secret is hidden.
func ExampleGenerateKey() {
	key := must(auth.GenerateKey(auth.HashSHA256, bytes.NewReader(make([]byte, 64))))
	fmt.Println(key.Text())
	again := must(auth.ParseKey(key.Text()))
	fmt.Println(again, again.Text() == key.Text())
	_, err := auth.ParseKey("password")
	fmt.Println(err)
	// Output:
	// DHHC-1:01:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACtVQoZ:
	// DHHC-1:01:(32 bytes, hidden): true
	// key is not of the form "DHHC-1:NN:...:", as nvme gen-dhchap-key prints it
}
