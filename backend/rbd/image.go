package rbd

// An image is one that is open in a cluster. Its methods may be called from any goroutine;
// those but start may take as long as the cluster does.
type image interface {
	// start begins calls, each of which ends in the ring.
	start(r *ring, calls []call)
	look() (geometry, error)
	// mark differs from that of all other images, also of one that has the same name later.
	mark() ([]byte, error)
	// dataPool is the pool that has the image's data.
	dataPool() (string, error)
	resize(size int64) error
	used(size int64) (int64, error)
	// succeed breaks the exclusive lock of a client whose address the function admits.
	succeed(admits func(address string) bool) error
	// lock acquires the exclusive lock, which is kept until close.
	lock() error
	// owner is who has that, empty: nobody, or it is not known.
	owner() (string, error)
	// close ends the client, too.
	close() error
}

// A dialer opens images; those that are missing it creates if it is given a size.
type dialer func(n Name, cfg *Config) (image, error)

// A geometry is what an image tells of itself.
type geometry struct {
	size     int64
	unit     int64 // bytes that lie together in one object
	features uint64
}

// Features of an image.
const (
	featureExclusiveLock = 1 << 2
	featureFastDiff      = 1 << 4
)

// callKind is what a call does.
type callKind uint8

const (
	callRead callKind = iota
	callWrite
	callFlush
	callZero
	callDiscard
	callCompare
)

// Flags of calls.
const (
	callFUA  = 1 << iota
	callKeep // callZero: storage is not freed
)

// A call is one operation of the library, as C knows it (struct nr_call).
type call struct {
	image            uint64 // address of a struct nr_image
	offset, length   uint64
	buffer, expected uint64 // addresses, of pinned memory
	id               uint32
	kind             callKind
	flags            uint8
	_                uint16
}
