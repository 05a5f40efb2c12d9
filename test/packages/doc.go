// Package packages tests what deploy builds for administrators to install. The tests build it with tools that come
// through the module proxy, so go test alone skips them:
//
//	go test ./test/packages -build -v
package packages
