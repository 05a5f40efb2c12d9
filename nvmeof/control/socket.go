package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const socketName = "target.sock"

// DefaultSocket returns the default path of a target's control socket: NVMEOF_SOCKET if it is set, else a path in
// the folder that systemd made for the service, else /run/nvmeof/target.sock for root and a path in a folder of the
// user for others.
func DefaultSocket(getenv func(string) string, uid int) string {
	if path := getenv("NVMEOF_SOCKET"); path != "" {
		return path
	}
	if dir := getenv("RUNTIME_DIRECTORY"); dir != "" {
		return filepath.Join(dir, socketName)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" && uid != 0 {
		return filepath.Join(dir, "nvmeof", socketName)
	}
	if home := getenv("HOME"); home != "" && uid != 0 {
		return filepath.Join(home, ".local", "state", "nvmeof", socketName)
	}
	return "/run/nvmeof/" + socketName
}

// temporarySocket returns the path of a target that cannot use the default one. It is in a folder that no other
// user can write to.
func temporarySocket(getenv func(string) string, uid int) string {
	dir := getenv("TMPDIR")
	if !filepath.IsAbs(dir) {
		dir = "/tmp"
	}
	return filepath.Join(dir, fmt.Sprintf("nvmeof-%d", uid), socketName)
}

// besideSocket returns the path of a socket beside path, as /run/nvmeof/target-NAME.sock.
func besideSocket(path, name string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-" + name + extension
}

// ListenBeside creates a socket beside the default one, which is left to a target that is started from a file:
// /run/nvmeof/target-NAME.sock. If the user cannot create that, it is in /tmp/nvmeof-UID. [Sockets] finds it.
func ListenBeside(getenv func(string) string, uid int, name string) (*Socket, error) {
	var refused, taken error
	for i, path := range []string{DefaultSocket(getenv, uid), temporarySocket(getenv, uid)} {
		folder := makeFolder
		if i > 0 {
			folder = func(dir string) error { return ownFolder(dir, uid) }
		}
		for _, at := range []string{besideSocket(path, name), besideSocket(path, fmt.Sprint(os.Getpid()))} { // a target in another network namespace may use the name
			s, err := listen(at, path, folder)
			if err == nil {
				return s, nil
			}
			if !errors.As(err, new(*TakenError)) {
				refused = cmp.Or(refused, err)
				break
			}
			taken = err
		}
	}
	return nil, cmp.Or(refused, taken)
}

// ListenDefault creates the default socket. If the user cannot create it, and NVMEOF_SOCKET does not name it, it is
// in /tmp/nvmeof-UID, where [Sockets] finds it.
func ListenDefault(getenv func(string) string, uid int) (*Socket, error) {
	s, err := listen(DefaultSocket(getenv, uid), DefaultSocket(getenv, uid), makeFolder)
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if !refused || getenv("NVMEOF_SOCKET") != "" {
		return s, err
	}
	path := temporarySocket(getenv, uid)
	folder := func(dir string) error { return ownFolder(dir, uid) }
	if folder(filepath.Dir(path)) != nil {
		return nil, err
	}
	return listen(path, path, folder)
}

// ownFolder creates a folder, or checks that an existing one is the user's alone.
func ownFolder(dir string, uid int) error {
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return isOwn(dir, uid)
}

// isOwn returns an error unless a folder is the user's alone.
func isOwn(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != uid || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only this user can write to", dir)
	}
	return nil
}

// SocketOf returns the path of the default socket of this user or, if name is not empty, of the one beside it that
// [ListenBeside] uses. The error is a [ConnectError] if no target serves it.
func SocketOf(getenv func(string) string, uid int, name string) (string, error) {
	var first string
	for i, path := range []string{DefaultSocket(getenv, uid), temporarySocket(getenv, uid)} {
		if i > 0 && isOwn(filepath.Dir(path), uid) != nil {
			continue // any user may have made its files
		}
		if name != "" {
			path = besideSocket(path, name)
		}
		if isServed(path) {
			return path, nil
		}
		first = cmp.Or(first, path)
	}
	return "", &ConnectError{first, fs.ErrNotExist}
}

// Sockets returns the sockets at which targets of this user are served now: the default one first, and those beside
// it.
func Sockets(getenv func(string) string, uid int) (served []string) {
	for i, path := range []string{DefaultSocket(getenv, uid), temporarySocket(getenv, uid)} {
		dir := filepath.Dir(path)
		if i > 0 && isOwn(dir, uid) != nil {
			continue // any user may have made its files
		}
		var beside []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if isBeside(path, e) && trusted(dir, e, uid) {
				beside = append(beside, filepath.Join(dir, e.Name()))
			}
		}
		slices.Sort(beside)
		for _, at := range append([]string{path}, beside...) {
			if isServed(at) {
				served = append(served, at)
			}
		}
	}
	return served
}

// isBeside reports whether an entry of a socket's folder is a socket that [ListenBeside] may have created beside
// it.
func isBeside(path string, e fs.DirEntry) bool {
	extension := filepath.Ext(path)
	stem := strings.TrimSuffix(filepath.Base(path), extension)
	return e.Type()&fs.ModeSocket != 0 && strings.HasPrefix(e.Name(), stem+"-") && strings.HasSuffix(e.Name(), extension)
}

// trusted reports whether a socket was created by the user, by root, or by the owner of the folder, as for a
// service. In a folder that everybody can write to, another user may have created it with the name of a target's
// socket.
func trusted(dir string, socket fs.DirEntry, uid int) bool {
	info, err := socket.Info()
	if err != nil {
		return false
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return false
	}
	by, ok := info.Sys().(*syscall.Stat_t)
	of, known := folder.Sys().(*syscall.Stat_t)
	return ok && known && (int(by.Uid) == uid || by.Uid == 0 || by.Uid == of.Uid)
}

// isServed reports whether a process accepts connections at a socket.
func isServed(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
