package main

import (
	"context"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// secretFile marks a secret that stands in a file, where ps does not show it.
const secretFile = "file:"

// parseSecret reads a key, or the file that has it.
func parseSecret(s string) (auth.Key, error) {
	if path, ok := strings.CutPrefix(s, secretFile); ok {
		k, _, err := control.ReadKey(context.Background(), path)
		return k, err
	}
	return auth.ParseKey(s)
}

// secrets puts the keys that the flags name into the options of a connection.
func (c *connection) secrets(o *host.Options) (err error) {
	if c.secret != "" {
		if o.DHCHAPSecret, err = parseSecret(c.secret); err != nil {
			return failure.Usagef("--dhchap-secret: %v", err)
		}
	}
	if c.ctrlSecret != "" {
		if o.DHCHAPCtrlSecret, err = parseSecret(c.ctrlSecret); err != nil {
			return failure.Usagef("--dhchap-ctrl-secret: %v", err)
		}
	}
	return nil
}
