// The functions by which the package uses librbd. A pool is a rados_ioctx_t.

#ifndef NR_SHIM_H
#define NR_SHIM_H

#include <stddef.h>
#include <stdint.h>

// What a call does.
enum { NR_READ, NR_WRITE, NR_FLUSH, NR_ZERO, NR_DISCARD, NR_COMPARE };

enum { NR_FUA = 1, NR_KEEP = 2 };

// A call is one asynchronous operation. The package's type call has the same layout.
struct nr_call {
	uint64_t offset, length;
	uint64_t buffer, expected; // addresses
	uint32_t id;
	uint8_t kind, flags;
	uint16_t unused;
};

struct nr_lib;

// What a call has in the ring's memory until it ends.
struct nr_arg {
	struct nr_lib *lib;
	struct nr_ring *ring;
	uint64_t mismatch;
	uint32_t id;
	uint32_t unused;
};

// A ring takes the ends of calls, from whatever thread, for its one consumer, which is in
// Go. The package's type header has the same layout. A cell is zero while it is empty, or
// has the identifier plus one and the result below it.
struct nr_ring {
	uint64_t tail;
	uint64_t running; // calls whose end is not over; the memory is in use until it is 0
	uint64_t mask;
	uint64_t args;   // address of an nr_arg for each identifier
	uint32_t armed;  // the next end is to be written to event
	int32_t event;   // an eventfd
	uint64_t unused[3];
	uint64_t cells[];
};

// nr_open_lib returns the functions of the library, or NULL with a message.
struct nr_lib *nr_open_lib(char *message, size_t size);

// What follows returns 0 or a negative errno.
int nr_remove(struct nr_lib *, void *pool, const char *name);
int nr_create(struct nr_lib *, void *pool, const char *name, uint64_t size);
int nr_open(struct nr_lib *, void *pool, const char *name, const char *snapshot, int read_only, void **image);
int nr_close(struct nr_lib *, void *image);
int nr_look(struct nr_lib *, void *image, uint64_t *size, uint64_t *unit, uint64_t *features);
int nr_id(struct nr_lib *, void *image, char *id, size_t size);
int64_t nr_data_pool(struct nr_lib *, void *image); // its identifier
int nr_resize(struct nr_lib *, void *image, uint64_t size);
int nr_used(struct nr_lib *, void *image, uint64_t size, uint64_t *used);
int nr_lock(struct nr_lib *, void *image);
int nr_owner(struct nr_lib *, void *image, char *owner, size_t size);

// nr_start begins calls. Each of them ends in the ring, also one that could not begin.
void nr_start(struct nr_lib *, void *image, struct nr_ring *, const struct nr_call *, size_t n);

#endif
