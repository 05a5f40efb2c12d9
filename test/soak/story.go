package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A story keeps the last events and writes all to a file.
type story struct {
	began time.Time
	mu    sync.Mutex // guards what follows
	last  []string
	file  *os.File // may be nil
	size  int
}

const (
	remembered = 400      // events
	longest    = 64 << 20 // bytes of the file, after which it is truncated
)

func (s *story) add(actor, format string, args ...any) {
	now := time.Now()
	line := fmt.Sprintf("%s %9.2f s  %-10s %s", now.UTC().Format(time.DateTime), now.Sub(s.began).Seconds(), actor, fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = append(s.last, line); len(s.last) > remembered {
		s.last = append(s.last[:0], s.last[1:]...)
	}
	if s.file == nil {
		return
	}
	if s.size > longest {
		_ = s.file.Truncate(0)
		s.size = 0
	}
	n, _ := fmt.Fprintln(s.file, line)
	s.size += n
}

func (s *story) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, "\n")
}
