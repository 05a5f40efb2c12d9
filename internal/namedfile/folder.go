package namedfile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder returns a folder as a file system whose files [fs.ReadFile] reads like [Read].
func Folder(ctx context.Context, dir string, limit int64) fs.FS {
	return &folder{os.DirFS(dir), ctx, dir, limit}
}

type folder struct {
	fs.FS
	ctx   context.Context
	dir   string
	limit int64
}

// ReadFile implements [fs.ReadFileFS].
func (f *folder) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return Read(f.ctx, filepath.Join(f.dir, filepath.FromSlash(name)), f.limit)
}

// Stat implements [fs.StatFS], because opening a pipe to stat it might block.
func (f *folder) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.FS, name) }
