/*
 * A QEMU plugin that counts the instructions a guest executes, in user mode and in the
 * kernel: two 64-bit numbers at the beginning of the file that the argument
 * counts=PATH names, which its reader may read at any time. It is for guests with one
 * processor. The prototypes are those of QEMU's plugin interface, version 1, which Debian
 * ships no header of.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
enum { INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);

EXPORT int qemu_plugin_version = 1;

static uint64_t *counts;

/* translated has the code of a block add to a number whenever it runs. Addresses of the
 * kernel are those with the highest bit. */
static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	int kernel = qemu_plugin_tb_vaddr(tb) >> 63;

	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &counts[kernel], qemu_plugin_tb_n_insns(tb));
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	static const char option[] = "counts=";
	int fd;

	if (argc != 1 || strncmp(argv[0], option, strlen(option)) != 0)
		return -1;
	fd = open(argv[0] + strlen(option), O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || ftruncate(fd, 2 * sizeof(*counts)) != 0)
		return -1;
	counts = mmap(NULL, 2 * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
