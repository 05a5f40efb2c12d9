package sandbox

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// A Sandbox is what the process has entered.
type Sandbox struct {
	Calls error // why system calls are not filtered; nil: they are
	Files error // why files are not confined; nil: they are

	places Places
}

// ErrUnconfined is that files were not to be confined.
var ErrUnconfined = errors.New("not requested")

// answerTimeout is how long the file systems of all places have to answer.
const answerTimeout = 5 * time.Second

// Enter takes from all threads of the process what it does not need, which cannot be taken back. Files are
// confined to places, unless that is nil.
func Enter(places *Places) *Sandbox {
	s := &Sandbox{Files: ErrUnconfined}
	_ = time.Now().String() // reads the time zone, which the log needs
	if places != nil {
		s.Files = s.confine(places)
	}
	s.Calls = filterCalls()
	return s
}

// Permit reports with an [*OutsideError] that the process does not reach a path to write, or to
// read, any more.
func (s *Sandbox) Permit(path string, written bool) error {
	if s.Files != nil {
		return nil
	}
	return s.places.permit(path, written)
}

// Places are the folders and files that a confined process uses.
func (s *Sandbox) Places() []string { return s.places.Used }

// Rights to what is used: all but to execute, and to make devices, pipes and symbolic links.
const (
	fileRights   = landlock.AccessFSSet(llsys.AccessFSReadFile | llsys.AccessFSWriteFile | llsys.AccessFSTruncate | llsys.AccessFSIoctlDev)
	folderRights = fileRights | llsys.AccessFSReadDir | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile |
		llsys.AccessFSMakeDir | llsys.AccessFSMakeReg | llsys.AccessFSMakeSock | llsys.AccessFSRefer
	// A socket is made in a folder of its own, and moved from there.
	socketRights = landlock.AccessFSSet(llsys.AccessFSReadDir | llsys.AccessFSRemoveFile | llsys.AccessFSRemoveDir | llsys.AccessFSMakeDir | llsys.AccessFSMakeSock | llsys.AccessFSRefer)
	readRights   = landlock.AccessFSSet(llsys.AccessFSReadFile | llsys.AccessFSReadDir)
)

// confine leaves the process nothing of the file system but the places.
func (s *Sandbox) confine(places *Places) error {
	version, err := llsys.LandlockGetABIVersion()
	if err != nil || version < 1 {
		return errors.New("the kernel has no Landlock, or it was not enabled at boot (lsm=landlock,...)")
	}
	// While a thread waits for a file system that does not answer, which may be for ever, no
	// Landlock can be applied to it, and the others would wait too.
	type found struct {
		places Places
		rules  []landlock.Rule
	}
	ready := make(chan found, 1)
	go func() { // ends when all file systems have answered
		real := places.resolve()
		ready <- found{real, real.rules(version)}
	}()
	select {
	case f := <-ready:
		s.places = f.places
		// ABI 9: newer ones would deny UDP, which is the target's own.
		return landlock.V9.BestEffort().Restrict(f.rules...)
	case <-time.After(answerTimeout):
		return fmt.Errorf("a file system does not answer, of one of %v", places.Used)
	}
}

// rules are those of Landlock for places that exist.
func (p Places) rules(version int) (rules []landlock.Rule) {
	add := func(rights landlock.AccessFSSet, paths []string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				continue
			}
			own := rights
			if version < 2 {
				own &^= llsys.AccessFSRefer // unknown to the kernel, which always denies it
			}
			if !info.IsDir() {
				own &= fileRights
			}
			rules = append(rules, landlock.PathAccess(own, path).IgnoreIfMissing())
		}
	}
	add(folderRights, p.Used)
	add(readRights, p.Read)
	add(socketRights, p.Sockets)
	if p.Notify != "" {
		rules = append(rules, landlock.PathAccess(landlock.AccessFSSet(llsys.AccessFSResolveUnix), p.Notify).IgnoreIfMissing())
	}
	return rules
}
