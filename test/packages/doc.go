// Package packages has the tests of what deploy makes for administrators to install. They
// build it, with tools that come through the module proxy, so that go test alone skips
// them:
//
//	go test ./test/packages -build -v
package packages
