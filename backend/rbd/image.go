package rbd

// An image is an open image of a cluster. Any goroutine may call its methods. All except start wait for the cluster.
type image interface {
	// start begins calls; each reports its end in the ring.
	start(r *ring, calls []call)
	look() (geometry, error)
	// mark returns a value that differs from that of every other image, including later ones of the same name.
	mark() ([]byte, error)
	// dataPool returns the name of the pool with the image's data.
	dataPool() (string, error)
	resize(size int64) error
	used(size int64) (int64, error)
	// succeed breaks the exclusive lock of a client if admits returns true for its address.
	succeed(admits func(address string) bool) error
	// lock acquires the exclusive lock, which is kept until close.
	lock() error
	// owner returns the owner of the exclusive lock, or "" if there is none or it is unknown.
	owner() (string, error)
	// close also closes the image's client.
	close() error
}

// A dialer opens an image, and creates a missing one if a size is given.
type dialer func(n Name, cfg *Config) (image, error)

// A geometry is what an image reports about itself.
type geometry struct {
	size     int64
	unit     int64 // bytes that are stored in one object
	features uint64
}

// Features of an image.
const (
	featureExclusiveLock = 1 << 2
	featureFastDiff      = 1 << 4
)

// callKind is the kind of a call.
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

// A call is one operation of the library, with the layout of struct nr_call in C.
type call struct {
	image            uint64 // address of a struct nr_image
	offset, length   uint64
	buffer, expected uint64 // addresses, of pinned memory
	id               uint32
	kind             callKind
	flags            uint8
	_                uint16
}
