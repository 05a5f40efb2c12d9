package namedfile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is a folder as a file system whose files [fs.ReadFile] reads as [Read] does.
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

// Stat implements [fs.StatFS], which opening a pipe would not end.
func (f *folder) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.FS, name) }
