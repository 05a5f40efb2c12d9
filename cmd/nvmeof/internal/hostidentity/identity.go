package hostidentity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// SystemIdentity is the directory in which nvme-cli keeps the names of a host.
const SystemIdentity = "/etc/nvme"

// Of returns the identity by which controllers know this host: what the user gave, else the system's, else that of
// this user, which is generated once and kept, so that a target can allow it.
func Of(hostNQN, hostID string) (nvmeof.HostIdentity, error) {
	if hostNQN != "" || hostID != "" {
		h, err := nvmeof.ParseHostIdentity(hostNQN, hostID)
		if err != nil {
			return h, failure.Usagef("--hostnqn, --hostid: %v", err)
		}
		return h, nil
	}
	if h, ok, err := ReadIdentity(SystemIdentity); ok || err != nil {
		return h, err
	}
	config, err := os.UserConfigDir()
	if err != nil { // no home directory
		return nvmeof.NewHostIdentity()
	}
	return keptIdentity(filepath.Join(config, "nvmeof"))
}

// maxIdentity is the maximum size of a file in bytes; names are much shorter.
const maxIdentity = 4096

// ReadIdentity reads the files hostnqn and hostid of a directory, and reports whether they exist; hostid may be
// missing. Invalid files are an error, because with another identity targets would not know this host.
func ReadIdentity(dir string) (h nvmeof.HostIdentity, there bool, err error) {
	nqn, err := namedfile.Read(context.Background(), filepath.Join(dir, "hostnqn"), maxIdentity)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission): // that of another user
		return h, false, nil
	case err != nil:
		return h, false, err
	case strings.TrimSpace(string(nqn)) == "":
		return h, false, nil
	}
	id, err := namedfile.Read(context.Background(), filepath.Join(dir, "hostid"), maxIdentity)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// An identifier derived from the name may differ from this one, and would not own this host's reservations.
		return h, false, fmt.Errorf("the identifier of this host is not known: %w; let this user read it, or give --hostnqn and --hostid", err)
	}
	if h, err = nvmeof.ParseHostIdentity(string(nqn), string(id)); err != nil {
		return h, false, fmt.Errorf("hostnqn and hostid in %s: %w; correct them (nvmeof gen-hostnqn), or give --hostnqn and --hostid", dir, err)
	}
	return h, true, nil
}

// keptIdentity reads the identity in a directory, or creates one there. If it cannot be saved, it is valid for this
// process only.
func keptIdentity(dir string) (nvmeof.HostIdentity, error) {
	if h, ok, err := ReadIdentity(dir); ok || err != nil {
		return h, err
	}
	id, _ := namedfile.Read(context.Background(), filepath.Join(dir, "hostid"), maxIdentity)
	h, err := nvmeof.ParseHostIdentity("", string(id)) // the previous identifier, if only the name is lost
	if err != nil {
		h, err = nvmeof.NewHostIdentity()
	}
	if err != nil {
		return h, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return h, nil
	}
	// The name decides, and the identifier is derived from it: if two processes create an identity, the second uses the
	// one that the first wrote.
	name, text := filepath.Join(dir, "hostnqn"), string(h.NQN)+"\n"
	if err := writeNew(name, text); errors.Is(err, fs.ErrExist) {
		other, ok, _ := ReadIdentity(dir)
		if !ok && namedfile.Replace(name, []byte(text), namedfile.Options{}) == nil { // it is empty, as a power failure may leave it
			other, ok, _ = ReadIdentity(dir)
		}
		if ok {
			return other, nil
		}
	}
	_ = writeNew(filepath.Join(dir, "hostid"), uuid.UUID(h.ID).String()+"\n")
	return h, nil
}

// writeNew creates a file atomically, and does not change an existing one.
func writeNew(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
