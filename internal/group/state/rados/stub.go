//go:build !(rbd && cgo && linux)

package rados

func dial(*Config, []step) (object, error) { return nil, ErrNotBuilt }
