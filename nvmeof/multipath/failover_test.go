package multipath

import (
	"testing"
	"time"
)

func TestFailover(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 2)
		s := l.connect(l.config())
		load := startLoad(t, l.namespace(s))
		load.progress()
		paths := s.Paths()
		for round := range 2 {
			l.sides[round].kill()
			l.await(paths[round], StateLost)
			time.Sleep(20 * time.Second)
			load.progress()
			l.sides[round].revive()
			l.await(paths[round], StateLive)
			load.progress()
		}
		load.stop()
	})
}
