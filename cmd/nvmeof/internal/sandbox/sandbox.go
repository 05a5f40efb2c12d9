package sandbox

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// A Sandbox is the sandbox that the process has entered.
type Sandbox struct {
	Calls error // why system calls are not filtered; nil: they are
	Files error // why files are not confined; nil: they are

	places Places
}

// ErrUnconfined is the value of Files if confinement was not requested.
var ErrUnconfined = errors.New("not requested")

// answerTimeout is how long the file systems of all places may take to answer.
const answerTimeout = 5 * time.Second

// Enter irrevocably takes from all threads of the process what it does not need. Files are confined to places, unless
// places is nil.
func Enter(places *Places) *Sandbox {
	s := &Sandbox{Files: ErrUnconfined}
	_ = time.Now().String() // reads the time zone, which the log needs
	if places != nil {
		s.Files = s.confine(places)
	}
	s.Calls = filterCalls()
	return s
}

// Permit returns an [*OutsideError] if the process can no longer write to a path, or read it.
func (s *Sandbox) Permit(path string, written bool) error {
	if s.Files != nil {
		return nil
	}
	return s.places.permit(path, written)
}

// Places returns the directories and files that a confined process can use.
func (s *Sandbox) Places() []string { return s.places.Used }

// Rights to what is used: all except to execute, and to create devices, pipes and symbolic links.
const (
	fileRights   = landlock.AccessFSSet(llsys.AccessFSReadFile | llsys.AccessFSWriteFile | llsys.AccessFSTruncate | llsys.AccessFSIoctlDev)
	folderRights = fileRights | llsys.AccessFSReadDir | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile |
		llsys.AccessFSMakeDir | llsys.AccessFSMakeReg | llsys.AccessFSMakeSock | llsys.AccessFSRefer
	// A socket is created in a directory of its own, and moved from there.
	socketRights = landlock.AccessFSSet(llsys.AccessFSReadDir | llsys.AccessFSRemoveFile | llsys.AccessFSRemoveDir | llsys.AccessFSMakeDir | llsys.AccessFSMakeSock | llsys.AccessFSRefer)
	readRights   = landlock.AccessFSSet(llsys.AccessFSReadFile | llsys.AccessFSReadDir)
)

// confine restricts the process's access to files to the places.
func (s *Sandbox) confine(places *Places) error {
	version, err := llsys.LandlockGetABIVersion()
	if err != nil || version < 1 {
		return errors.New("the kernel has no Landlock, or it was not enabled at boot (lsm=landlock,...)")
	}
	// While a thread waits for a file system that does not answer, possibly forever, Landlock cannot be applied to it,
	// and the other threads would wait too. Therefore query the file systems first.
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
		// Not above ABI 9: newer ones would deny UDP, which the target needs.
		return landlock.V9.BestEffort().Restrict(f.rules...)
	case <-time.After(answerTimeout):
		return fmt.Errorf("the file system of one of these paths does not answer: %v", places.Used)
	}
}

// rules returns Landlock's rules for the places that exist.
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
