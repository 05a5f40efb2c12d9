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

func TestConnectStub(t *testing.T) {
	if _, err := Connect(ClientConfig{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Connect: %v", err)
	}
}

func TestRemoveStub(t *testing.T) {
	if err := Remove("rbd/disk", Config{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("Remove: %v", err)
	}
	for _, wrong := range []string{"disk", "rbd/disk@snapshot"} {
		if err := Remove(wrong, Config{}); err == nil || errors.Is(err, ErrNotBuilt) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
