package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// export is one --export: what becomes a namespace.
type export struct {
	memory    int64 // bytes; 0: a file or a block device
	path      string
	size      int64 // of a file to be created; 0: as it is
	blockSize int   // 0: 512, or a device's own
	readOnly  bool
	buffered  bool
	thin      bool
	force     bool
	resv      string // file that keeps reservations; empty: they end with the target
}

const exportHelp = `mem:SIZE, a file's PATH or a block device, then options after commas: bs=512 or bs=4096 (block size; default 512, or the device's own), size=SIZE (create or extend the file), ro, buffered, thin, force (what is in use), resv=FILE (keeps reservations)`

// parseExport reads "mem:1GiB,bs=4096" or "/path/file.img,size=10GiB,thin".
func parseExport(s string) (export, error) {
	parts := strings.Split(s, ",")
	e := export{path: parts[0]}
	if size, ok := strings.CutPrefix(parts[0], "mem:"); ok {
		n, err := nvmeof.ParseSize(size)
		if err != nil {
			return e, fmt.Errorf("export %q: %w", s, err)
		}
		e.memory, e.path = n, ""
	} else if e.path == "mem" {
		return e, fmt.Errorf("export %q: memory needs a size, as in mem:1GiB; a file of that name is ./mem", s)
	} else if e.path == "" {
		return e, fmt.Errorf("export %q names nothing: give %s", s, exportHelp)
	}
	for _, option := range parts[1:] {
		if err := e.option(option); err != nil {
			return e, fmt.Errorf("export %q: %w", s, err)
		}
	}
	if e.memory > 0 && (e.size > 0 || e.readOnly || e.buffered || e.thin || e.force) {
		return e, fmt.Errorf("export %q: size, ro, buffered, thin and force are options of files and devices", s)
	}
	return e, nil
}

var exportOptions = []string{"bs", "size", "ro", "buffered", "thin", "force", "resv"}

func (e *export) option(s string) (err error) {
	key, value, _ := strings.Cut(s, "=")
	switch key {
	case "bs":
		e.blockSize, err = strconv.Atoi(value)
		if err != nil || e.blockSize != 512 && e.blockSize != 4096 {
			err = fmt.Errorf("block size %q: it is 512 or 4096", value)
		}
	case "size":
		e.size, err = nvmeof.ParseSize(value)
	case "ro":
		e.readOnly = true
	case "buffered":
		e.buffered = true
	case "thin":
		e.thin = true
	case "force":
		e.force = true
	case "resv":
		if e.resv = value; value == "" {
			err = errors.New("resv names no file: give resv=FILE")
		}
	default:
		err = fmt.Errorf("unknown option %q; there are %s%s", key, list(slices.Clone(exportOptions)), didYouMean(key, exportOptions))
	}
	return err
}

// open opens the store. Queues of a target are used from locked threads.
func (e *export) open(log *zap.Logger) (backend.Store, error) {
	if e.memory > 0 {
		return memory.New(memory.Config{Size: e.memory, BlockSize: cmp.Or(e.blockSize, 512)})
	}
	s, err := e.openPath()
	if err != nil {
		return nil, err
	}
	if f, ok := s.(*file.Store); ok && f.Created() {
		log.Warn("file was missing, and is created: the namespace is empty", zap.String("export", e.path))
	}
	for _, note := range s.Notes() {
		log.Warn(note, zap.String("export", e.path))
	}
	return s, nil
}

// reservations is what keeps the hosts' reservation, or nil.
func (e *export) reservations() target.ReservationStore {
	if e.resv == "" {
		return nil
	}
	return target.ReservationFile(e.resv)
}

// A notedStore has sentences for the administrator.
type notedStore interface {
	backend.Store
	backend.Noter
}

func (e *export) openPath() (notedStore, error) {
	if isDevice(e.path) {
		if e.size > 0 || e.thin {
			return nil, fmt.Errorf("%s is a block device: size and thin are options of files", e.path)
		}
		s, err := block.Open(e.path, block.Config{BlockSize: e.blockSize, ReadOnly: e.readOnly, Buffered: e.buffered,
			Force: e.force, Options: control.DiskOptions(file.EngineAuto)})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := file.Open(e.path, file.Config{Size: e.size, BlockSize: cmp.Or(e.blockSize, 512), ReadOnly: e.readOnly,
		Buffered: e.buffered, Thin: e.thin, Force: e.force, LockedThreads: control.DiskOptions(file.EngineAuto).LockedThreads})
	if errors.Is(err, fs.ErrNotExist) && e.size == 0 {
		err = fmt.Errorf("%w, as in --export %s,size=1GiB", err, e.path)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// isDevice reports whether a path is a block device, or would be if it were there.
func isDevice(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		path = filepath.Clean(path)
		return strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/")
	}
	return info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice
}

// name is what the export is called in logs.
func (e *export) name() string {
	if e.memory > 0 {
		return "memory"
	}
	return e.path
}
