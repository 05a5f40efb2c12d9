package bench

import "fmt"

// A Pattern is what is done, with fio's names.
type Pattern uint8

const (
	RandRead Pattern = iota
	RandWrite
	Read
	Write
	RandRW    // reads and writes at random places
	ReadWrite // reads and writes, each one after the other
	RandTrim
	Trim
	RandTrimWrite // each block is trimmed, and written once that is done
	TrimWrite

	lastPattern = TrimWrite
)

var patternNames = [...]string{"randread", "randwrite", "read", "write", "randrw", "rw", "randtrim", "trim", "randtrimwrite", "trimwrite"}

func (p Pattern) String() string { return patternNames[p] }

// Writes reports whether the pattern changes the store.
func (p Pattern) Writes() bool { return p != RandRead && p != Read }

// Random reports whether the places are.
func (p Pattern) Random() bool {
	return p == RandRead || p == RandWrite || p == RandRW || p == RandTrim || p == RandTrimWrite
}

// Mixed reports whether the pattern both reads and writes.
func (p Pattern) Mixed() bool { return p == RandRW || p == ReadWrite }

// pairs reports whether each trim has its write.
func (p Pattern) pairs() bool { return p == RandTrimWrite || p == TrimWrite }

// Does reports whether requests of that direction are part of the pattern.
func (p Pattern) Does(d Direction) bool {
	switch d {
	case ToRead:
		return p == RandRead || p == Read || p.Mixed()
	case ToWrite:
		return p == RandWrite || p == Write || p.Mixed() || p.pairs()
	}
	return p == RandTrim || p == Trim || p.pairs()
}

// ParsePattern is the reverse of String, and takes fio's other names too.
func ParsePattern(s string) (Pattern, error) {
	if s == "readwrite" {
		return ReadWrite, nil
	}
	for i, name := range patternNames {
		if s == name {
			return Pattern(i), nil
		}
	}
	return 0, fmt.Errorf("%q: want read, write, randread, randwrite, rw (or readwrite), randrw, trim, randtrim, trimwrite or randtrimwrite", s)
}

// A Direction is one of the kinds of requests that are counted apart, as fio does.
type Direction uint8

const (
	ToRead Direction = iota
	ToWrite
	ToTrim
	Directions = iota

	toFlush Direction = Directions // of a slot
)

var directionNames = [...]string{"read", "write", "trim", "flush"}

func (d Direction) String() string { return directionNames[d] }
