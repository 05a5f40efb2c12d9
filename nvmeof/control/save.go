package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Save writes the document to the file with which the target was started. What it
// waits for is in it; comments of the file are not.
func (m *Manager) Save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.save()
}

func (m *Manager) save() error {
	if m.cfg.File == "" {
		return errors.New("the target was not started with --config FILE, so there is no file to save to: nvmeof target export > FILE")
	}
	text := m.doc.YAML()
	if strings.HasSuffix(m.cfg.File, ".json") {
		text = m.doc.JSON()
	}
	return WriteFile(m.cfg.File, text)
}

// WriteFile replaces a file by one of mode 0600 such that a crash leaves the old
// one or the new one: a temporary file beside it, fsync, rename, fsync of the
// folder.
func WriteFile(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
