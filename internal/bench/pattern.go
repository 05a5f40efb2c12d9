package bench

import "fmt"

// A Pattern is a kind of load, with fio's names.
type Pattern uint8

const (
	RandRead Pattern = iota
	RandWrite
	Read
	Write
	RandRW    // reads and writes at random places
	ReadWrite // sequential reads and sequential writes
	RandTrim
	Trim
	RandTrimWrite // each block is trimmed, and then written
	TrimWrite

	lastPattern = TrimWrite
)

var patternNames = [...]string{"randread", "randwrite", "read", "write", "randrw", "rw", "randtrim", "trim", "randtrimwrite", "trimwrite"}

func (p Pattern) String() string { return patternNames[p] }

// Writes reports whether the pattern changes the store.
func (p Pattern) Writes() bool { return p != RandRead && p != Read }

// Random reports whether the places are random.
func (p Pattern) Random() bool {
	return p == RandRead || p == RandWrite || p == RandRW || p == RandTrim || p == RandTrimWrite
}

// Mixed reports whether the pattern both reads and writes.
func (p Pattern) Mixed() bool { return p == RandRW || p == ReadWrite }

// pairs reports whether each trim is followed by a write.
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

// ParsePattern is the inverse of String. It also accepts fio's other names.
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

// A Direction is a kind of request that is counted separately, as in fio.
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
