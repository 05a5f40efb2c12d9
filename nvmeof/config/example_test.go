package config_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A document is accepted as a whole or not at all: each problem has its line.
func ExampleParse() {
	doc, _, err := config.Parse("target.yaml", []byte(`
version: 1
listeners: [{id: 1, address: 192.0.2.1}]
subsystems:
  - nqn: nqn.2014-08.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 1GiB}}]
`))
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(doc.Subsystems[0].NQN, len(doc.Subsystems[0].Namespaces))
	_, _, err = config.Parse("target.yaml", []byte("version: 1\nlisteners: [{id: 1, adress: 192.0.2.1}]\n"))
	var problems config.Problems
	fmt.Println(errors.As(err, &problems), len(problems))
	// Output:
	// nqn.2014-08.org.example:disk 1
	// true 2
}
