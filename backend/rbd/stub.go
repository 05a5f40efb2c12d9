//go:build !(rbd && cgo && linux)

package rbd

// Built reports whether this program has RBD storage.
const Built = false

func dialClient(ClientConfig) (connection, error) { return nil, ErrNotBuilt }

func dial(Name, *Config) (image, error) { return nil, ErrNotBuilt }

func remove(Name, *Config) error { return ErrNotBuilt }
