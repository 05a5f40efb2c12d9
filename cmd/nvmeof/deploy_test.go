package main

import "testing"

// TestExample: the configuration that is published is right.
func TestExample(t *testing.T) {
	command(t, "target", "check", "../../deploy/target.yaml").want(t, 0, "2 listener(s), 2 subsystem(s), 3 namespace(s)")
}
