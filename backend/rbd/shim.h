// The functions by which the package uses librbd. A pool is a rados_ioctx_t.

#ifndef NR_SHIM_H
#define NR_SHIM_H

#include <stddef.h>
#include <stdint.h>

// The kinds of calls.
enum { NR_READ, NR_WRITE, NR_FLUSH, NR_ZERO, NR_DISCARD, NR_COMPARE };

enum { NR_FUA = 1, NR_KEEP = 2 };

// A call is one asynchronous operation. The package's type call has the same layout.
struct nr_call {
	uint64_t image; // address of an nr_image
	uint64_t offset, length;
	uint64_t buffer, expected; // addresses
	uint32_t id;
	uint8_t kind, flags;
	uint16_t unused;
};

struct nr_lib;

// An open image.
struct nr_image {
	struct nr_lib *lib;
	void *handle;
};

// The state of a call in the ring's memory until it ends.
struct nr_arg {
	struct nr_lib *lib;
	struct nr_ring *ring;
	uint64_t mismatch;
	uint32_t id;
	uint32_t unused;
};

// A ring passes calls from Go to a starter, and their results from any thread back to the single consumer in Go. The
// package's type header has the same layout. A cell is zero while it is empty; otherwise it has the identifier plus one
// in the upper half and the result in the lower half.
struct nr_ring {
	uint64_t tail;
	uint64_t running; // unfinished calls, plus one while the ring is listed; the memory is in use until it is 0
	uint64_t mask;
	uint64_t args;   // address of an nr_arg for each identifier
	uint32_t armed;  // write the next end to event
	int32_t event;   // an eventfd
	uint64_t unused[3];

	uint64_t todo;   // address of mask+1 calls
	uint64_t begun;  // number of calls ever put there
	uint64_t taken;  // number of calls taken by the starter
	uint64_t next;   // the next ring in the starter's list
	uint32_t listed; // it is in that list
	uint32_t unused2[7];
	uint64_t cells[];
};

// A starter is a thread that begins the calls of the rings in its list. Go adds rings to the list and wakes the thread.
// The package's type starter has the same layout.
struct nr_starter {
	uint64_t list;   // address of the first ring
	uint32_t asleep; // a futex: 1 while the thread waits for it to change
	uint32_t over;   // the thread must end
	uint64_t thread;
};

// nr_open_lib returns the functions of the library, or NULL and a message.
struct nr_lib *nr_open_lib(char *message, size_t size);

// The functions below return 0 or a negative errno.
int nr_remove(struct nr_lib *, void *pool, const char *name);
int nr_create(struct nr_lib *, void *pool, const char *name, uint64_t size);
int nr_open(struct nr_lib *, void *pool, const char *name, const char *snapshot, int read_only, void **image);
struct nr_image *nr_image(struct nr_lib *, void *image); // freed with free(3), NULL without memory
int nr_close(struct nr_lib *, void *image);
int nr_look(struct nr_lib *, void *image, uint64_t *size, uint64_t *unit, uint64_t *features);
int nr_id(struct nr_lib *, void *image, char *id, size_t size);
int64_t nr_data_pool(struct nr_lib *, void *image); // its identifier
int nr_resize(struct nr_lib *, void *image, uint64_t size);
int nr_used(struct nr_lib *, void *image, uint64_t size, uint64_t *used);
int nr_lock(struct nr_lib *, void *image);
int nr_owner(struct nr_lib *, void *image, char *owner, size_t size);

// nr_starter_open starts a thread, or returns NULL. Each call that is passed to it ends in its ring, even if it could
// not begin. nr_starter_close ends the thread once no ring is listed.
struct nr_starter *nr_starter_open(void);
void nr_starter_close(struct nr_starter *);

#endif
