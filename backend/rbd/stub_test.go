//go:build !(rbd && cgo && linux)

package rbd

import (
	"errors"
	"strings"
	"testing"
)

func TestStub(t *testing.T) {
	_, err := Open("rbd/disk", Config{})
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "-tags rbd") {
		t.Errorf("Open: %v, want how to build the storage", err)
	}
}
