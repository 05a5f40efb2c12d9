//go:build !(rbd && cgo && linux)

package rbd

// Built reports whether this program has the storage.
const Built = false

func dial(Name, *Config) (image, error) { return nil, ErrNotBuilt }
