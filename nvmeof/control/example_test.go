package control_test

import (
	"fmt"
	"log"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// What an edit of a document would change, step by step.
func ExampleSteps() {
	const text = "version: 1\nsubsystems: [{nqn: 'nqn.2014-08.org.example:disk', namespaces: [%s]}]\n"
	parse := func(namespaces string) *config.Document {
		doc, _, err := config.Parse("target.yaml", fmt.Appendf(nil, text, namespaces))
		if err != nil {
			log.Panic(err)
		}
		return doc
	}
	before := parse("{nsid: 1, memory: {size: 1GiB}}")
	after := parse("{nsid: 1, memory: {size: 1GiB}, read-only: true}, {nsid: 2, memory: {size: 2GiB}}")
	for _, s := range control.Steps(config.Diff(before, after)) {
		fmt.Println(s.Text)
	}
	// Output:
	// change namespace 1 of nqn.2014-08.org.example:disk: read-only false -> true
	// add namespace 2 of nqn.2014-08.org.example:disk
}
