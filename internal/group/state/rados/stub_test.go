//go:build !(rbd && cgo && linux)

package rados

import (
	"errors"
	"testing"
)

func TestStub(t *testing.T) {
	if _, err := Open(t.Context(), Config{Pool: "p", Group: "a"}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Open: %v", err)
	}
}
