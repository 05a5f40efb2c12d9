package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// secretFile marks a secret that stands in a file, where ps does not show it.
const secretFile = "file:"

// parseSecret reads a key, or the file that has it.
func parseSecret(s string) (auth.Key, error) {
	if path, ok := strings.CutPrefix(s, secretFile); ok {
		k, _, err := readKey(path)
		return k, err
	}
	return auth.ParseKey(s)
}

// secrets puts the keys that the flags name into the options of a connection.
func (c *connection) secrets(o *host.Options) (err error) {
	if c.secret != "" {
		if o.DHCHAPSecret, err = parseSecret(c.secret); err != nil {
			return usage("--dhchap-secret: %v", err)
		}
	}
	if c.ctrlSecret != "" {
		if o.DHCHAPCtrlSecret, err = parseSecret(c.ctrlSecret); err != nil {
			return usage("--dhchap-ctrl-secret: %v", err)
		}
	}
	return nil
}

// readKey reads a file that has a key and nothing else. The warning is about who
// else can read it.
func readKey(path string) (k auth.Key, warning string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return k, "", err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("%s holds a secret that others may read (%v): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if k, err = auth.ParseKey(string(b)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, warning, err
}
